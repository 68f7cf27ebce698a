// A configuration, packed as what --set was given and the file; a key of every kind is declared.
#include <stdexcept>

#include "tests/fuzz/fuzz.h"
#include "train/config_file.h"

namespace nascent::fuzz {
namespace {

struct Values {
  std::int64_t integer = 3;
  double number = 0.5;
  bool flag = false;
  std::string text = "a", word = "one";
  std::vector<std::string> texts = {"b"};
  std::vector<std::int64_t> integers = {1, 2};
  std::map<std::string, std::string> table = {{"x", "y"}};

  void settings(Settings& s) {
    s.key("integer", integer, -5, 1000, "an integer");
    s.begin("outer");
    s.key("number", number, 0, 1, "a number");
    s.key("flag", flag, "a flag");
    s.begin("inner");
    s.key("text", text, "a text");
    s.choice("word", word, {"one", "two"}, "a word");
    s.end();
    s.key("texts", texts, "texts");
    s.end();
    s.key("integers", integers, 0, 9, "integers");
    s.key("table", table, "a table");
  }

  std::string text_of_all() {
    ConfigWriter writer;
    settings(writer);
    return writer.text();
  }
};

}  // namespace

std::vector<std::string> seeds() {
  return {pack({"integer=4", Values().text_of_all()}),
          pack({"integers=1,2,3", "[outer]\ninner.text = \"\"\"x\ny\"\"\"\n"}),
          pack({"outer.inner={text=\"t\"}", "date = 1979-05-27T07:32:00Z\nfloat = [1e3, inf, 0x1F]\n[[a.b]]\n"}),
          pack({"outer.inner.word=two", "outer = {number = 1}\n"})};
}

void try_input(std::string_view input) {
  const std::string given(unpack(input));
  std::vector<std::string> overrides;
  if (!given.empty()) overrides.push_back(given);
  ConfigReader reader = ConfigReader::of_text(std::string(input), "x.toml", overrides);
  Values values;
  values.settings(reader);
  reader.refuse_unknown();

  // What was read is written so that it reads the same.
  const std::string written = values.text_of_all();
  ConfigReader again = ConfigReader::of_text(written, "written");
  Values same;
  same.settings(again);
  if (same.text_of_all() != written) throw std::logic_error("written and read again, the values differ");
}

}  // namespace nascent::fuzz
