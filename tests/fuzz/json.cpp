// Any JSON object: every value asked for as every kind, and what was read written again.
#include "data/json.h"

#include <cstdlib>

#include "kernels/error.h"
#include "tests/fuzz/fuzz.h"

namespace nascent::fuzz {
namespace {

template <class F>
void refused_or_read(F&& read) {
  try {
    read();
  } catch (const Error& error) {
    if (error.exit_code() != 2) throw;  // the value is of another kind
  }
}

}  // namespace

std::vector<std::string> seeds() {
  return {
      R"({"a": 1, "b": -2.5e3, "c": true, "d": null, "e": "text\u00e9\n", "f": [1, 2], "g": ["x"], "h": {"i": {}}})",
      R"({"n": 18446744073709551615, "m": -9223372036854775808, "f": 1e308})", "{}"};
}

void try_input(std::string_view input) {
  const JsonObject object = JsonObject::parse(std::string(input), "x.json");
  for (const std::string& key : object.keys()) {
    refused_or_read([&] { object.integer(key, 0); });
    refused_or_read([&] { object.number(key, 0); });
    refused_or_read([&] { object.boolean(key, false); });
    refused_or_read([&] { json_quoted(object.text(key, "")); });
  }
  const std::string written = object.dump();
  if (JsonObject::parse(written, "written").dump() != written) std::abort();
}

}  // namespace nascent::fuzz
