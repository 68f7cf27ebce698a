// Token files: what is written is read back, and no damaged or hostile file is trusted.
#include <csignal>
#include <filesystem>
#include <fstream>
#include <sys/resource.h>

#include "data/file.h"
#include "data/token_file.h"
#include "tests/catch.h"
#include "tests/errors.h"
#include "tests/temporary.h"

using namespace nascent;

namespace {

using Ids = std::vector<std::int32_t>;

// Numbers as they stand in the file, appended one after another.
struct Bytes {
  std::string text;
  template <class T>
  Bytes& add(std::initializer_list<T> values) {
    for (const T value : values) text.append(reinterpret_cast<const char*>(&value), sizeof(T));
    return *this;
  }
};

struct Index {
  std::string magic{"MMIDIDX\0\0", 9};
  std::uint64_t version = 1;
  std::uint8_t code = 8;
  std::uint64_t sequences = 3;
  std::uint64_t borders = 3;
  std::string text() const {
    Bytes bytes{magic};
    bytes.add({version}).add({code}).add({sequences, borders});
    // Two documents: the first of sequences 0 and 1, the second of sequence 2.
    bytes.add<std::int32_t>({2, 1, 3}).add<std::int64_t>({0, 4, 6}).add<std::int64_t>({0, 2, 3});
    return bytes.text;
  }
};

Failure opening(const TemporaryFolder& folder, const std::string& idx) {
  write_file(folder.file("a.idx"), idx);
  return failure_of([&] { TokenFile(folder.file("a")); });
}

std::string replaced(std::string text, std::size_t at, std::uint64_t value, std::size_t bytes) {
  return text.replace(at, bytes, reinterpret_cast<const char*>(&value), bytes);
}

Ids document(const TokenFile& file, std::uint64_t i) {
  Ids ids(file.document_tokens(i));
  file.read(i, 0, ids);
  return ids;
}

}  // namespace

TEST_CASE("documents of odd sizes come back as written, in both widths") {
  const TemporaryFolder folder;
  for (const std::int64_t vocabulary : {65499, 65500, 2147483647}) {
    std::vector<Ids> documents;
    for (const std::size_t size : {1, 0, 3, 33, 1000, 0}) {
      Ids ids(size);
      for (std::size_t i = 0; i < size; ++i) ids[i] = static_cast<std::int32_t>(vocabulary - 1 - static_cast<int>(i));
      documents.push_back(ids);
    }
    TokenFileWriter writer(folder.file("a"), vocabulary);
    for (const Ids& ids : documents) writer.add_document(ids);
    writer.finish();

    const TokenFile file(folder.file("a"));
    CHECK((file.type() == TokenType::kU16) == (vocabulary < 65500));
    CHECK(std::filesystem::file_size(folder.file("a.bin")) == 1037u * (vocabulary < 65500 ? 2 : 4));
    REQUIRE(file.documents() == documents.size());
    CHECK(file.tokens() == 1037);
    CHECK(file.document_begin(0) == 0);
    CHECK(file.document_begin(4) == 37);
    CHECK(file.document_begin(6) == 1037);
    for (std::size_t i = 0; i < documents.size(); ++i) CHECK(document(file, i) == documents[i]);
    Ids last(1);
    file.read(4, 999, last);
    CHECK(last[0] == documents[4][999]);
    CHECK(failure_of([&] { file.read(4, 1000, last); }).exit_code == 2);
    CHECK(failure_of([&] { file.read(4, ~std::uint64_t{0}, last); }).exit_code == 2);
    CHECK(failure_of([&] { file.document_begin(7); }).exit_code == 2);
    CHECK(failure_of([&] { file.document_tokens(~std::uint64_t{0}); }).exit_code == 2);
    file.check_vocabulary(vocabulary);
  }
}

TEST_CASE("a file of no documents is a file") {
  const TemporaryFolder folder;
  TokenFileWriter(folder.file("a"), 10).finish();
  const TokenFile file(folder.file("a"));
  CHECK(file.documents() == 0);
  CHECK(file.tokens() == 0);
}

TEST_CASE("a document of several sequences, as others write it, is one document") {
  const TemporaryFolder folder;
  write_file(folder.file("a.bin"), Bytes{}.add<std::uint16_t>({10, 11, 12, 65535, 14, 15}).text);
  CHECK(opening(folder, Index{}.text()).message == "");
  const TokenFile file(folder.file("a"));
  REQUIRE(file.documents() == 2);
  CHECK(document(file, 0) == Ids{10, 11, 12});
  CHECK(document(file, 1) == Ids{65535, 14, 15});
  // The int8 modes of multimodal sets may follow.
  CHECK(opening(folder, Index{}.text() + std::string(3, '\0')).message == "");
}

TEST_CASE("an index cut at any byte is refused as input") {
  const TemporaryFolder folder;
  write_file(folder.file("a.bin"), Bytes{}.add<std::uint16_t>({10, 11, 12, 13, 14, 15}).text);
  const std::string whole = Index{}.text();
  for (std::size_t size = 0; size < whole.size(); ++size)
    REQUIRE(opening(folder, whole.substr(0, size)).exit_code == 2);
  for (const std::size_t more : {1, 2, 4, 8}) REQUIRE(opening(folder, whole + std::string(more, '\0')).exit_code == 2);
}

TEST_CASE("foreign, damaged and hostile headers are refused and named") {
  const TemporaryFolder folder;
  write_file(folder.file("a.bin"), Bytes{}.add<std::uint16_t>({10, 11, 12, 13, 14, 15}).text);
  const auto refused = [&](Index index, const char* words) {
    const Failure failure = opening(folder, index.text());
    INFO(failure.message);
    CHECK(failure.exit_code == 2);
    CHECK(failure.says(words));
    CHECK(failure.says(folder.file("a.idx")));
  };
  refused({.magic = std::string("TNTIDX\0\0\0", 9)}, "MMIDIDX");
  refused({.version = 2}, "version is 2");
  for (const int code : {0, 1, 2, 3, 5, 6, 7, 9, 255})
    refused({.code = static_cast<std::uint8_t>(code)}, fmt::format("type code is {}", code).c_str());
  // Counts whose products with 8 or 12 would wrap around to something small.
  for (const std::uint64_t count : {std::uint64_t{4}, std::uint64_t{1} << 61, std::uint64_t{1} << 62,
                                    std::uint64_t{1} << 63, ~std::uint64_t{0}, ~std::uint64_t{0} / 12 + 1}) {
    refused({.sequences = count}, "fit");
    refused({.borders = count}, "fit");
  }
  refused({.borders = 0}, "no document borders");
}

TEST_CASE("lengths, pointers and document borders must agree with each other and the tokens") {
  const TemporaryFolder folder;
  write_file(folder.file("a.bin"), Bytes{}.add<std::uint16_t>({10, 11, 12, 13, 14, 15}).text);
  const std::string whole = Index{}.text();
  const std::size_t lengths = 34, pointers = lengths + 12, borders = pointers + 24;
  const auto refused = [&](const std::string& idx, const char* words) {
    const Failure failure = opening(folder, idx);
    INFO(failure.message);
    CHECK(failure.exit_code == 2);
    CHECK(failure.says(words));
  };
  refused(replaced(whole, lengths, 0xFFFFFFFF, 4), "has length -1");
  refused(replaced(whole, lengths, 0x7FFFFFFF, 4), "ends at byte");
  refused(replaced(whole, lengths + 8, 2, 4), "describes 10");
  refused(replaced(whole, pointers, 2, 8), "holes");
  refused(replaced(whole, pointers + 8, ~std::uint64_t{0}, 8), "holes");
  refused(replaced(whole, borders, 1, 8), "border 0 is 1");
  refused(replaced(whole, borders + 8, 4, 8), "border 1 is 4");
  refused(replaced(whole, borders + 8, ~std::uint64_t{0}, 8), "border 1");
  refused(replaced(whole, borders + 16, 2, 8), "end at sequence 2");
  refused(replaced(whole, borders + 16, 1, 8), "border 2 is 1");
  // int32 tokens would need twice the bytes.
  refused(Index{.code = 4}.text(), "begins at byte 4");
  // Tokens cut short, and too many.
  write_file(folder.file("a.bin"), std::string(11, 'x'));
  refused(whole, "ends at byte 12");
  write_file(folder.file("a.bin"), std::string(13, 'x'));
  refused(whole, "has 13 bytes");
  std::filesystem::remove(folder.file("a.bin"));
  refused(whole, "No such file");
}

TEST_CASE("a writer that does not finish leaves nothing, and an older pair as it was") {
  const TemporaryFolder folder;
  {
    TokenFileWriter(folder.file("a"), 10).add_document(Ids{1, 2, 3});
  }
  CHECK(folder.names().empty());
  {
    TokenFileWriter writer(folder.file("a"), 10);
    writer.add_document(Ids{1, 2, 3});
    writer.finish();
  }
  {
    TokenFileWriter writer(folder.file("a"), 10);
    const Failure failure = failure_of([&] { writer.add_document(Ids{4, 10}); });
    CHECK(failure.exit_code == 2);
    CHECK(failure.says("token 1 of document 0 is 10"));
    CHECK(failure_of([&] { writer.add_document(Ids{-1}); }).exit_code == 2);
  }
  CHECK(folder.names().size() == 2);
  CHECK(document(TokenFile(folder.file("a")), 0) == Ids{1, 2, 3});
}

TEST_CASE("an id beyond the vocabulary is named with its byte") {
  const TemporaryFolder folder;
  for (const std::int64_t vocabulary : {1000, 100000}) {
    TokenFileWriter writer(folder.file("a"), vocabulary);
    writer.add_document(Ids{1, 2, 3});
    writer.add_document(Ids{4, 999, 5});
    writer.finish();
    const TokenFile file(folder.file("a"));
    file.check_vocabulary(1000);
    const Failure failure = failure_of([&] { file.check_vocabulary(999); });
    CHECK(failure.exit_code == 2);
    CHECK(failure.says(folder.file("a.bin")));
    CHECK(failure.says(vocabulary == 1000 ? "byte 8" : "byte 16"));
    CHECK(failure.says("999"));
  }
  // An int32 file by others may hold negative ids.
  write_file(folder.file("a.bin"), Bytes{}.add<std::int32_t>({1, 2, 3, 4, -5, 6}).text);
  std::string idx = Index{.code = 4}.text();
  idx = replaced(replaced(idx, 34 + 12 + 8, 8, 8), 34 + 12 + 16, 12, 8);
  CHECK(opening(folder, idx).message == "");
  CHECK(failure_of([&] { TokenFile(folder.file("a")).check_vocabulary(10); }).says("token id -5"));
}

TEST_CASE("more than 2^31 tokens in more than 2^32 bytes: the last ones are read rightly") {
  const TemporaryFolder folder;
  const std::int32_t length = 1500000001;
  // Sparse: the zeros take no room on the disk.
  const std::uint64_t bytes = 3 * 2 * std::uint64_t{length};
  std::ofstream(folder.file("a.bin")).put('\0');
  std::error_code failed;
  std::filesystem::resize_file(folder.file("a.bin"), bytes, failed);
  if (failed) {
    WARN("no sparse file of 9 GB here: " << failed.message());
    return;
  }
  const std::uint16_t last[3] = {7, 8, 9};
  std::fstream file(folder.file("a.bin"), std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(static_cast<std::streamoff>(bytes - sizeof(last)));
  file.write(reinterpret_cast<const char*>(last), sizeof(last));
  file.close();

  Bytes idx{std::string("MMIDIDX\0\0", 9)};
  idx.add<std::uint64_t>({1}).add<std::uint8_t>({8}).add<std::uint64_t>({3, 4});
  idx.add<std::int32_t>({length, length, length});
  idx.add<std::int64_t>({0, 2 * std::int64_t{length}, 4 * std::int64_t{length}}).add<std::int64_t>({0, 1, 2, 3});
  REQUIRE(opening(folder, idx.text).message == "");
  const TokenFile tokens(folder.file("a"));
  CHECK(tokens.tokens() == 4500000003u);
  CHECK(tokens.document_begin(2) == 3000000002u);
  Ids read(4);
  tokens.read(2, static_cast<std::uint64_t>(length) - 4, read);
  CHECK(read == Ids{0, 7, 8, 9});
}

TEST_CASE("a full disk while tokens are written leaves an older pair as it was") {
  const TemporaryFolder folder;
  {
    TokenFileWriter writer(folder.file("a"), 100);
    writer.add_document(Ids{1, 2, 3});
    writer.finish();
  }
  rlimit limit{};
  REQUIRE(::getrlimit(RLIMIT_FSIZE, &limit) == 0);
  const rlimit small{200, limit.rlim_max};
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  // Too much for the tokens' file, then for the index alone.
  for (const auto& [documents, tokens] : {std::pair(1, 1000), std::pair(30, 1)}) {
    const Failure failure = failure_of([&, documents = documents, tokens = tokens] {
      TokenFileWriter writer(folder.file("a"), 100);
      for (int i = 0; i < documents; ++i) writer.add_document(Ids(static_cast<std::size_t>(tokens), 7));
      ::setrlimit(RLIMIT_FSIZE, &small);
      writer.finish();
    });
    ::setrlimit(RLIMIT_FSIZE, &limit);
    CHECK(failure.exit_code == 1);
    CHECK(folder.names().size() == 2);
    CHECK(document(TokenFile(folder.file("a")), 0) == Ids{1, 2, 3});
  }
  std::signal(SIGXFSZ, handler);
}
