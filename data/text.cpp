#include "data/text.h"

#include <cstdint>

#include "kernels/error.h"

namespace nascent {
namespace {

// Bytes of the well-formed sequence at the start of `text`, 0 when it is none. The second byte's range shuts
// out what has a shorter form, the surrogates, and what lies beyond U+10FFFF.
std::size_t sequence_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<std::uint8_t>(text[i]); };
  const std::uint8_t lead = byte(0);
  if (lead < 0x80) return 1;
  if (lead < 0xC2 || lead > 0xF4) return 0;
  const std::size_t length = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  if (text.size() < length) return 0;
  const std::uint8_t least = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
  const std::uint8_t most = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
  if (byte(1) < least || byte(1) > most) return 0;
  for (std::size_t i = 2; i < length; ++i)
    if (byte(i) < 0x80 || byte(i) > 0xBF) return 0;
  return length;
}

bool is_blank(std::string_view line) { return line.find_first_not_of(" \t\r\n") == std::string_view::npos; }

// The first line of `text` with its newline.
std::string_view first_line(std::string_view text) {
  const std::size_t end = text.find('\n');
  return text.substr(0, end == std::string_view::npos ? end : end + 1);
}

std::vector<std::string_view> cut_at_lines(std::string_view text) {
  std::vector<std::string_view> documents;
  while (!text.empty()) {
    const std::string_view line = first_line(text);
    if (!is_blank(line)) documents.push_back(line);
    text.remove_prefix(line.size());
  }
  return documents;
}

std::vector<std::string_view> cut_at_blank_lines(std::string_view text) {
  std::vector<std::string_view> documents;
  std::size_t begin = 0, at = 0;  // of the document, of the line
  while (at < text.size()) {
    const std::string_view line = first_line(text.substr(at));
    if (is_blank(line)) {
      if (begin < at) documents.push_back(text.substr(begin, at - begin));
      begin = at + line.size();
    }
    at += line.size();
  }
  if (begin < at) documents.push_back(text.substr(begin));
  return documents;
}

}  // namespace

std::size_t find_invalid_utf8(std::string_view text) {
  std::size_t at = 0;
  while (at < text.size()) {
    const std::size_t length = sequence_length(text.substr(at));
    if (length == 0) break;
    at += length;
  }
  return at;
}

TextFile::TextFile(const std::string& path, std::string_view separator) : file_(path) {
  const std::string_view text = file_.text();
  const std::size_t invalid = find_invalid_utf8(text);
  if (invalid < text.size())
    throw input_error("{}: byte {}: not UTF-8 (0x{:02X})", path, invalid, static_cast<std::uint8_t>(text[invalid]));
  if (separator == "blank-line")
    documents_ = cut_at_blank_lines(text);
  else if (separator == "line")
    documents_ = cut_at_lines(text);
  else if (separator == "file")
    documents_ = {text};
  else
    throw input_error("separator is \"{}\", expected \"blank-line\", \"line\" or \"file\"", separator);
  if (documents_.empty() || is_blank(text)) throw input_error("{}: holds no text", path);
}

}  // namespace nascent
