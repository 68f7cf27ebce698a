#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "kernels/error.h"
#include "tests/catch.h"
#include "tests/temporary.h"
#include "train/config_file.h"

using namespace nascent;

namespace {

struct Example {
  std::string name = "first";
  std::int64_t steps = 1000;
  double rate = 1e-3;
  bool tied = true;
  std::string precision = "fp32";
  std::vector<std::string> save = {"log"};
  std::int64_t depth = 2;
  std::vector<std::int64_t> edges = {1, 10};
  std::map<std::string, std::string> basis;

  void declare(Settings& s) {
    s.begin("train");
    s.key("steps", steps, 1, 1'000'000'000, "optimizer updates");
    s.begin("optimizer");
    s.key("rate", rate, 0, 1, "peak learning rate");
    s.end();
    s.choice("precision", precision, {"fp32", "bf16"}, "of matrix products");
    s.key("save", save, "when to save a checkpoint");
    s.end();
    s.begin("model");
    s.key("tied", tied, "input and output embedding are one");
    s.key("depth", depth, 1, kNoLimit, "blocks");
    s.end();
    s.begin("probes");
    s.key("edges", edges, 1, 1000, "lowest rank of each bin");
    s.key("basis", basis, "imported bases");
    s.end();
    s.key("name", name, "of the run");
  }
};

class Config {
 public:
  // Reads `text` as run.toml; the message of the refusal, or empty.
  std::string refusal(const std::string& text, const std::vector<std::string>& overrides = {}) {
    std::ofstream(folder_.path / "run.toml", std::ios::binary) << text;
    try {
      ConfigReader reader(folder_.path / "run.toml", overrides);
      example = Example();
      example.declare(reader);
      reader.refuse_unknown();
      return "";
    } catch (const Error& e) {
      CHECK(e.exit_code() == 2);
      std::string message = e.what();
      const std::string folder = folder_.path.string() + "/";
      for (std::size_t at = 0; (at = message.find(folder)) != std::string::npos;) {
        message.erase(at, folder.size());
      }
      return message;
    }
  }

  Example example;

 private:
  TemporaryFolder folder_;
};

bool same_bits(double a, double b) { return std::memcmp(&a, &b, sizeof a) == 0; }

}  // namespace

TEST_CASE("config: keys in the file replace defaults, the others stay") {
  Config config;
  CHECK(config.refusal("name = 'x'\n[train]\nsteps = 7\noptimizer.rate = 1\n[model]\ntied = false\n").empty());
  CHECK(config.example.name == "x");
  CHECK(config.example.steps == 7);
  CHECK(config.example.rate == 1.0);  // an integer where a number is declared
  CHECK_FALSE(config.example.tied);
  CHECK(config.example.save == std::vector<std::string>{"log"});
}

TEST_CASE("config: --set overrides the file with a TOML value, or failing that a bare string") {
  Config config;
  CHECK(config
            .refusal("train.steps = 7\n", {"train.steps=9", "name=run-1", "train.save=[\"every 5\", \"log\"]",
                                           "train.precision=\"bf16\"", "train.optimizer.rate=0.5"})
            .empty());
  CHECK(config.example.steps == 9);
  CHECK(config.example.name == "run-1");
  CHECK(config.example.precision == "bf16");
  CHECK(config.example.rate == 0.5);
  CHECK(config.example.save == std::vector<std::string>{"every 5", "log"});
  CHECK(config.refusal("", {"name=a = 1\nb = 2"}).empty());
  CHECK(config.example.name == "a = 1\nb = 2");

  CHECK(config.refusal("", {"train.steps"}) == "--set train.steps: expected KEY=VALUE");
  CHECK(config.refusal("", {"train={steps=3}"}) == "--set train={steps=3}: expected one key's value, not a table");
  CHECK(config.refusal("train = 3", {"train.steps=3"}) == "--set train.steps=3: train is not a table");
  CHECK(config.refusal("", {"train.steps=0"}) ==
        "train.steps = 0 given by --set: expected an integer from 1 to 1000000000");
  CHECK(config.refusal("", {"train.setps=5"}) ==
        "--set train.setps=5: unknown key train.setps; did you mean train.steps?");
  CHECK(config.refusal("", {"name=\xff"}) == "--set name=\xff: the value is not UTF-8 text");
}

TEST_CASE("config: a wrong value names key, place, value and what is expected") {
  Config config;
  const std::string steps = ": expected an integer from 1 to 1000000000";
  CHECK(config.refusal("\n[train]\n\nsteps = -3\n") == "train.steps = -3 at run.toml:4" + steps);
  CHECK(config.refusal("train.steps = 1000000001") == "train.steps = 1000000001 at run.toml:1" + steps);
  CHECK(config.refusal("train.steps = 3.0") == "train.steps = 3.0 at run.toml:1" + steps);
  CHECK(config.refusal("train.steps = '3'") == "train.steps = \"3\" at run.toml:1" + steps);
  CHECK(config.refusal("train.steps = true") == "train.steps = true at run.toml:1" + steps);
  CHECK(config.refusal("train.steps = 2024-01-02") == "train.steps = 2024-01-02 at run.toml:1" + steps);
  CHECK(config.refusal("[train.steps]\nx = 1") == "train.steps = a table at run.toml:1" + steps);
  CHECK(config.refusal("model.depth = 0") == "model.depth = 0 at run.toml:1: expected an integer, 1 or more");

  const std::string rate = " at run.toml:1: expected a number from 0 to 1";
  for (const std::string value : {"nan", "inf", "-inf", "-0.5", "1.5", "\"x\"", "true"}) {
    CHECK(config.refusal("train.optimizer.rate = " + value) == "train.optimizer.rate = " + value + rate);
  }
  CHECK(config.refusal("model.tied = 1") == "model.tied = 1 at run.toml:1: expected true or false");
  CHECK(config.refusal("name = 1") == "name = 1 at run.toml:1: expected a string in quotes");
  CHECK(config.refusal("train.save = 'log'") ==
        "train.save = \"log\" at run.toml:1: expected a list of strings, [\"a\", \"b\"]");
  const std::string many = config.refusal("name = ['" + std::string(90, 'a') + "',\n'" + std::string(90, 'b') + "']");
  CHECK(many.find("expected a string in quotes") != std::string::npos);
  CHECK(many.find('\n') == std::string::npos);
  CHECK(config.refusal("train.save = ['log', 1]").find("expected a list of strings") != std::string::npos);
  CHECK(config.refusal("train.precision = 'fp8'") ==
        "train.precision = \"fp8\" at run.toml:1: expected one of \"fp32\", \"bf16\"");
  CHECK(config.refusal("train = 3") == "train = 3 at run.toml:1: expected a table [train]");
  CHECK(config.refusal("[train]\noptimizer = 3") == "train.optimizer = 3 at run.toml:2: expected a table [optimizer]");
}

TEST_CASE("config: a list of integers is replaced as a whole, by --set also without brackets") {
  Config config;
  using List = std::vector<std::int64_t>;
  CHECK(config.refusal("[probes]\nedges = [1,\n 2, 1000]").empty());
  CHECK(config.example.edges == List{1, 2, 1000});
  CHECK(config.refusal("probes.edges = []").empty());
  CHECK(config.example.edges.empty());
  const std::map<std::string, List> given = {{"1,10,100", {1, 10, 100}}, {"[1, 5]", {1, 5}}, {"7", {7}}, {"", {}}};
  for (const auto& [text, list] : given) {
    INFO(text);
    CHECK(config.refusal("probes.edges = [2]", {"probes.edges=" + text}).empty());
    CHECK(config.example.edges == list);
  }

  const std::string expected = ": expected a list, each element an integer from 1 to 1000";
  for (const std::string value :
       {"5", "\"1,2\"", "[1, 2.0]", "[1, \"2\"]", "[[1, 2]]", "[true]", "[0]", "[1, 1001]", "[-1]"}) {
    const std::string message = config.refusal("\nprobes.edges = " + value);
    INFO(message);
    CHECK(message.starts_with("probes.edges = "));
    CHECK(message.ends_with(" at run.toml:2" + expected));
  }
  CHECK(config.refusal("probes.edges = { a = 1 }") == "probes.edges = a table at run.toml:1" + expected);
  for (const std::string value : {"1,x", "1;2", "1,0", "1,2000", "1.5", "1,2.5", "true", "x", "1]", "\"1\""}) {
    const std::string message = config.refusal("", {"probes.edges=" + value});
    INFO(message);
    CHECK(message.ends_with(" given by --set" + expected));
    CHECK(message.find('\n') == std::string::npos);
  }
  CHECK(config.refusal("", {"probes.edgse=1,2"}) ==
        "--set probes.edgse=1,2: unknown key probes.edgse; did you mean probes.edges?");
}

TEST_CASE("config: a table of texts takes its names from the user, from the file and from --set") {
  Config config;
  using Table = std::map<std::string, std::string>;
  CHECK(config.refusal("[probes]\nbasis = {sae = 'a.st', \"b-2\" = 'dir/b c.st'}").empty());
  CHECK(config.example.basis == Table{{"sae", "a.st"}, {"b-2", "dir/b c.st"}});
  CHECK(config.refusal("[probes.basis]\nsae = 'a.st'", {"probes.basis.sae=b.st", "probes.basis.x_1=c.st"}).empty());
  CHECK(config.example.basis == Table{{"sae", "b.st"}, {"x_1", "c.st"}});
  CHECK(config.refusal("probes.basis = {}", {"probes.basis.sae=b.st"}).empty());
  CHECK(config.example.basis == Table{{"sae", "b.st"}});
  CHECK(config.refusal("[probes.basis]\n").empty());
  CHECK(config.example.basis.empty());

  const std::string table = ": expected a table of strings, {name = \"a\"}, names of letters, digits, - and _";
  const std::string text = ": expected a string in quotes", name = ": expected a name of letters, digits, - and _";
  CHECK(config.refusal("\nprobes.basis = 'a.st'") == "probes.basis = \"a.st\" at run.toml:2" + table);
  CHECK(config.refusal("probes.basis = ['a.st']").ends_with(" at run.toml:1" + table));
  CHECK(config.refusal("", {"probes.basis=a.st"}) == "probes.basis = \"a.st\" given by --set" + table);
  CHECK(config.refusal("[probes.basis]\nsae = 3") == "probes.basis.sae = 3 at run.toml:2" + text);
  CHECK(config.refusal("[probes.basis]\nsae.x = 'a'") == "probes.basis.sae = a table at run.toml:2" + text);
  CHECK(config.refusal("", {"probes.basis.sae=3"}) == "probes.basis.sae = 3 given by --set" + text);
  CHECK(config.refusal("", {"probes.basis.a.b=c"}) == "probes.basis.a = a table given by --set" + text);
  CHECK(config.refusal("[probes.basis]\n'a.b' = 'c'") == "probes.basis.a.b = \"c\" at run.toml:2" + name);
  CHECK(config.refusal("[probes.basis]\n'a b' = 'c'") == "probes.basis.a b = \"c\" at run.toml:2" + name);
  CHECK(config.refusal("[probes.basis]\n'' = 'c'") == "probes.basis. = \"c\" at run.toml:2" + name);
  CHECK(config.refusal("", {"probes.basis.a b=c"}) == "probes.basis.a b = \"c\" given by --set" + name);
  CHECK(config.refusal("", {"probes.bases.a=c"}) ==
        "--set probes.bases.a=c: unknown key probes.bases.a; did you mean probes.basis?");
}

TEST_CASE("config: every key nobody declared is refused, with the nearest known one") {
  Config config;
  CHECK(config.refusal("\n[train]\nsetps = 3\n\n[modle]\ntied = true\n") ==
        "run.toml:3: unknown key train.setps; did you mean train.steps?\n"
        "run.toml:6: unknown key modle.tied; did you mean model.tied?");
  CHECK(config.refusal("steps = 3") == "run.toml:1: unknown key steps; did you mean train.steps?");
  CHECK(config.refusal("[empty]") == "run.toml:1: unknown key empty; did you mean model.depth?");
  CHECK(config.refusal("[[train.extra]]\na = 1").find("unknown key train.extra") != std::string::npos);
  CHECK(config.refusal("[train]\n[model]\n").empty());
  // A quoted name with a dot is another key than the one that reads the same.
  CHECK(config.refusal("'train.steps' = 3").starts_with("run.toml:1: unknown key train.steps"));
}

TEST_CASE("config: what is not TOML is refused with line and column, what cannot be read by name") {
  Config config;
  CHECK(config.refusal("name = 'x'\nsteps = = 3\n").starts_with("run.toml:2:9: "));
  CHECK(config.refusal("name = 'x'\nname = 'y'\n").starts_with("run.toml:2:"));
  CHECK(config.refusal("name = '\xff'").starts_with("run.toml:1:"));
  const TemporaryFolder folder;
  CHECK_THROWS_AS(ConfigReader(folder.path), Error);
  CHECK_THROWS_AS(ConfigReader(folder.path / "absent.toml"), Error);
}

TEST_CASE("config: what is written reads back as exactly the same values") {
  Config config;
  const double eps = std::numeric_limits<double>::denorm_min();
  for (const double rate : {0.0, -0.0, 1.0, 0.1, 1.0 / 3, 1e-300, eps, 5e-5, 1 - 1e-16}) {
    for (const std::string& name :
         {std::string("quote \" back \\ tab \t line \n"), std::string("\x01\x7f\r") + '\0', std::string("é 𝄞 #")}) {
      Example written;
      written.name = name;
      written.steps = 999'999'999;
      written.rate = rate;
      written.tied = false;
      written.precision = "bf16";
      written.save = {"step 3", name, ""};
      written.depth = kNoLimit;
      written.edges = {1, 1000};
      written.basis = {{"sae", name}, {"4-b_C", ""}};
      ConfigWriter writer;
      written.declare(writer);
      CHECK(config.refusal(writer.text()).empty());
      CHECK(config.example.name == written.name);
      CHECK(config.example.steps == written.steps);
      CHECK(same_bits(config.example.rate, written.rate));
      CHECK(config.example.tied == written.tied);
      CHECK(config.example.precision == written.precision);
      CHECK(config.example.save == written.save);
      CHECK(config.example.depth == written.depth);
      CHECK(config.example.edges == written.edges);
      CHECK(config.example.basis == written.basis);
    }
  }
}

TEST_CASE("config: the text holds every key with its help, each table once and its own keys before inner tables") {
  ConfigWriter writer;
  Example().declare(writer);
  CHECK(writer.text() ==
        "name = \"first\"  # of the run\n"
        "\n[train]\n"
        "steps = 1000  # optimizer updates\n"
        "precision = \"fp32\"  # of matrix products\n"
        "save = [\"log\"]  # when to save a checkpoint\n"
        "\n[train.optimizer]\n"
        "rate = 0.001  # peak learning rate\n"
        "\n[model]\n"
        "tied = true  # input and output embedding are one\n"
        "depth = 2  # blocks\n"
        "\n[probes]\n"
        "edges = [1, 10]  # lowest rank of each bin\n"
        "basis = {}  # imported bases\n");
}

TEST_CASE("config: a key is explained by value, help and range") {
  ConfigWriter writer;
  Example().declare(writer);
  CHECK(writer.explain("train.optimizer.rate") ==
        "train.optimizer.rate = 0.001\n    peak learning rate\n    a number from 0 to 1\n");
  CHECK(writer.explain("model") ==
        "model.tied = true\n    input and output embedding are one\n    true or false\n"
        "model.depth = 2\n    blocks\n    an integer, 1 or more\n");
  CHECK(writer.explain("probes") ==
        "probes.edges = [1, 10]\n    lowest rank of each bin\n    a list, each element an integer from 1 to 1000\n"
        "probes.basis = {}\n    imported bases\n"
        "    a table of strings, {name = \"a\"}, names of letters, digits, - and _\n");
  CHECK_THROWS_WITH(writer.explain("train.lr"), "unknown key train.lr; did you mean train.save?");
}

TEST_CASE("config: a key declared twice is our bug, not the user's") {
  const TemporaryFolder folder;
  std::ofstream(folder.path / "run.toml") << "";
  ConfigReader reader(folder.path / "run.toml");
  std::int64_t n = 0;
  reader.key("n", n, 0, 1, "");
  try {
    reader.key("n", n, 0, 1, "");
    FAIL("declared twice and accepted");
  } catch (const Error& e) {
    CHECK(e.exit_code() == 1);
  }
}
