#include "probes/record.h"

#include <algorithm>

namespace nascent {

std::string text_of(const Labels& labels) {
  std::string text;
  for (const auto& [name, value] : labels) {
    if (!value.empty()) text += (text.empty() ? "" : ",") + name + "=" + value;
  }
  return text;
}

Labels labels_of(const std::string& text) {
  Labels labels;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size()), equals = text.find('=', begin);
    labels[text.substr(begin, equals - begin)] = text.substr(equals + 1, end - equals - 1);
    begin = end + 1;
  }
  return labels;
}

}  // namespace nascent
