// A probe set, packed as PREFIX.json, PREFIX.bin and PREFIX.idx.
#include <filesystem>

#include "data/file.h"
#include "data/probe_sequences.h"
#include "kernels/error.h"
#include "tests/fuzz/fuzz.h"
#include "tests/temporary.h"

namespace nascent::fuzz {
namespace {

// As the program writes them, of a stream of one document.
std::string probe_set(std::int64_t T, std::int64_t vocab, const std::vector<std::uint64_t>& windows) {
  const TemporaryFolder folder;
  TokenFileWriter writer(folder.file("text"), vocab);
  std::vector<std::int32_t> ids;
  for (std::int32_t i = 0; i < 40; ++i) ids.push_back(i % 7);
  writer.add_document(ids);
  writer.finish();
  const TokenFile file(folder.file("text"));
  write_probe_set(folder.file("set"), TokenStream(file, {0}), T, windows, vocab, JsonObject());
  return pack(
      {read_file(folder.file("set.json")), read_file(folder.file("set.bin")), read_file(folder.file("set.idx"))});
}

}  // namespace

std::vector<std::string> seeds() { return {probe_set(3, 9, {4, 1, 0}), probe_set(1, 70000, {2})}; }

void try_input(std::string_view input) {
  const std::string record = file_of("x.json", unpack(input));
  file_of("x.bin", unpack(input));
  file_of("x.idx", input);
  const ProbeSequences set(record.substr(0, record.rfind('.')));
  set.require_vocabulary(9);
  const auto n = static_cast<std::size_t>(set.sequences() * set.length());
  std::vector<std::int32_t> inputs(n), targets(n);
  set.read(0, set.sequences(), inputs, targets);
}

}  // namespace nascent::fuzz
