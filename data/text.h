// Documents from a text file.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "data/file.h"

namespace nascent {

// A UTF-8 file cut into documents, which are slices of it: nothing is copied and nothing changed. A document
// keeps the newline of its last line, so documents set one after another do not run words together.
class TextFile {
 public:
  // separator: "blank-line"  documents are runs of lines between lines of nothing but spaces
  //            "line"        each line that is not blank is a document
  //            "file"        the file is one document
  // Throws an input error on another word, on bytes that are not UTF-8 (naming the offset), and when there is
  // no document.
  TextFile(const std::string& path, std::string_view separator);

  const std::vector<std::string_view>& documents() const { return documents_; }

 private:
  MappedFile file_;
  std::vector<std::string_view> documents_;
};

// Offset of the first byte that begins no well-formed UTF-8 sequence (Unicode 15, table 3-7), text.size()
// when there is none.
std::size_t find_invalid_utf8(std::string_view text);

}  // namespace nascent
