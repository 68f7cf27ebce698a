// The program from outside: what it refuses and how it says so, and a whole run on a text made here.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fmt/format.h>
#include <iterator>
#include <limits>
#include <set>
#include <string>
#include <sys/wait.h>
#include <vector>

#include "data/dataset.h"
#include "data/probe_sequences.h"
#include "data/token_file.h"
#include "data/tokenizer.h"
#include "kernels/philox.h"
#include "model/hugging_face.h"
#include "tests/catch.h"
#include "tests/commands.h"
#include "tests/memory.h"
#include "train/metrics_db.h"

namespace fs = std::filesystem;
using nascent::Random;
using namespace nascent::test;

TEST_CASE("a command line that cannot be read is refused in one line that lists the commands") {
  const TemporaryFolder folder;
  check_refused(folder,
                {{"", "nascent: a command is missing, expected one of: train, ...; see nascent --help"},
                 {"frobnicate", "nascent: unknown command frobnicate, expected one of: train, ...; see nascent --help"},
                 {"corpus",
                  "nascent corpus: a command is missing, expected one of: train-tokenizer, ...; see nascent corpus "
                  "--help"},
                 {"corpus frob",
                  "nascent corpus: unknown command frob, expected one of: train-tokenizer, ...; see nascent corpus "
                  "--help"},
                 {"train", "nascent train: config is required; see nascent train --help"},
                 {"train tiny.toml --frob", "nascent train: ...--frob; see nascent train --help"},
                 {"generate tiny --tokens x", "nascent generate: --tokens: ...; see nascent generate --help"}});
  CHECK(nascent_in(folder.path, "--help").exit_code == 0);
  CHECK(nascent_in(folder.path, "corpus tokenize --help").exit_code == 0);
}

TEST_CASE("a bad configuration is refused in one line that names place and expectation, and leaves no run") {
  const Workplace place;
  write(place.path / "typo.toml", std::string(kConfig) + "setps = 5\n");
  write(place.path / "type.toml", std::string(kConfig) + "micro_batch = \"two\"\n");
  write(place.path / "broken.toml", "name = \n");
  const std::string no_schedule =
      "is no schedule, expected \"every K\", \"log\", \"pythia\", \"log+K\", \"step S\" or \"never\"";
  const std::vector<Refused> files = {
      {"typo.toml", "typo.toml:14: unknown key train.setps; did you mean train.steps?"},
      {"type.toml", "train.micro_batch = \"two\" at type.toml:14: expected an integer from 0 to 16777216"},
      {"broken.toml", "broken.toml:1:..."},
      {"none.toml", "none.toml: cannot read this configuration: No such file or directory"},
      {".", ".: cannot read this configuration: Is a directory"}};
  for (const Refused& r : files) check_refused(place, {{"train " + r.arguments, "nascent: " + r.line}});

  // After --set.
  const std::vector<Refused> keys = {
      {"train.setps=3", "--set train.setps=3: unknown key train.setps; did you mean train.steps?"},
      {"train.steps=2.5", "train.steps = 2.5 given by --set: expected an integer from 1 to 1000000000"},
      {"train.steps=0", "train.steps = 0 given by --set: expected an integer from 1 to 1000000000"},
      {"train", "--set train: expected KEY=VALUE"},
      {"name=a/b", "name = \"a/b\": expected a name without slashes; the run's folder is runs/NAME"},
      {"data.tokens=none", "none.bin: cannot open the file: No such file or directory"},
      {"data.tokens=", "data.tokens is missing, expected a text"},
      {"data.tokenizer=none.model", "none.model: cannot open the file: No such file or directory"},
      {"data.sequence=100000",
       "data.sequence = 100000 with data.heldout = 0.1: the training documents hold ... tokens, expected "
       "100001 or more"},
      {"data.heldout=0.001",
       "data.sequence = 16 with data.heldout = 0.001: the held-out documents hold ... tokens, expected 17 or "
       "more"},
      {"model.heads=3", "model.heads = 3 does not divide model.width = 16"},
      {"model.layers=0", "model.layers = 0: expected 1 to 1024"},
      {"model.context=8", "data.sequence = 16 is longer than the model's context of 8"},
      {"model.vocab=100", "model.vocab = 100 is less than the tokenizer's 300"},
      {"model.vocab=100 --set data.tokenizer=", "tiny.bin: byte ... is outside the vocabulary of 100"},
      {"model.family=gpt3", "model.family = \"gpt3\" given by --set: expected one of \"...\""},
      {"model.preset=gpt3",
       "model.preset = \"gpt3\": family gpt2 has none of that name, expected one of: distilgpt2, ..."},
      {"train.micro_batch=3", "train.micro_batch = 3 does not divide train.batch = 4"},
      {"'probes.taps=[\"blocks.7.*\"]'",
       "probes.taps: \"blocks.7.*\" fits no tap of this model; expected a name like embed or ..."},
      {"'eval.at=[\"sometimes\"]'", "eval.at: \"sometimes\" " + no_schedule},
      {"'probes.norms.at=[\"every 0\"]'", "probes.norms.at: \"every 0\" " + no_schedule},
      // What is switched off is checked all the same: config.toml holds it.
      {"'probes.norms.at=[\"x\"]' --set probes.norms.on=false", "probes.norms.at: \"x\" " + no_schedule},
      {"'eval.at=[\"x\"]' --set data.heldout=0", "eval.at: \"x\" " + no_schedule},
      {"'name=\"a\\u0000b\"'", "name = \"a\\x00b\": expected no control characters and at most 255 bytes"},
      {"name=" + std::string(300, 'x'), "name = ...: expected no control characters and at most 255 bytes"}};
  for (const Refused& r : keys) check_refused(place, {{"train tiny.toml --set " + r.arguments, "nascent: " + r.line}});
  CHECK_FALSE(fs::exists(place.path / "runs"));
}

TEST_CASE("corpus commands refuse what they cannot read, naming the file") {
  const Workplace place;
  write(place.path / "bytes.txt", "good\n\nbad \xff\n");
  check_refused(place, {{"corpus tokenize none.txt --tokenizer tiny.model --out x",
                         "nascent: none.txt: cannot open the file: No such file or directory"},
                        {"corpus tokenize tiny.txt --tokenizer tiny.txt --out x",
                         "nascent: tiny.txt: is not a SentencePiece model"}});
  const Outcome not_text = place.run("corpus tokenize bytes.txt --tokenizer tiny.model --out x");
  INFO(not_text.output);
  CHECK(not_text.exit_code == 2);
  CHECK(not_text.says("bytes.txt: byte 10"));
  CHECK_FALSE(fs::exists(place.path / "x.bin"));
  CHECK_FALSE(fs::exists(place.path / "x.idx"));
}

TEST_CASE("corpus probe-set writes a set that opens, says what each band reached, and never replaces one unasked") {
  const Workplace place;
  const std::string command = "corpus probe-set tiny --heldout 0.5 --sequence 16 --out set ";
  const Outcome first = place.run(command + "--tokens 320 --edges 1,3 --special 0,2");
  INFO(first.output);
  REQUIRE(first.exit_code == 0);
  CHECK(first.says("set: 20 sequences of 16, 320 tokens, of"));
  CHECK(first.says("\n  1-2 "));
  CHECK(first.says("\n  3-"));
  const nascent::ProbeSequences set((place.path / "set").string());
  CHECK(set.sequences() == 20);
  CHECK(set.length() == 16);
  CHECK(first.says("hash " + set.hash() + "\n"));

  // Each sequence is one of the windows that a run with the same data.heldout and data.sequence evaluates on.
  const nascent::TokenFile file((place.path / "tiny").string());
  const nascent::TokenStream heldout(file, nascent::split_documents(file.documents(), 0.5).heldout);
  const nascent::Windows windows(heldout, 16);
  using Row = std::pair<std::vector<std::int32_t>, std::vector<std::int32_t>>;
  std::set<Row> evaluated;
  Row row{std::vector<std::int32_t>(16), std::vector<std::int32_t>(16)};
  for (std::uint64_t k = 0; k < windows.count(); ++k) {
    windows.fill(k, row.first, row.second);
    evaluated.insert(row);
  }
  for (std::int64_t i = 0; i < set.sequences(); ++i) {
    set.read(i, 1, row.first, row.second);
    CHECK(evaluated.contains(row));
  }

  const std::string record = read(place.path / "set.json"), tokens = read(place.path / "set.bin");
  CHECK(record.find(nascent::hash_of_token_file((place.path / "tiny").string())) != std::string::npos);

  check_refused(place, {{command, "nascent: set.bin: already exists; ...--overwrite"}});
  CHECK(read(place.path / "set.json") == record);
  const Outcome again = place.run(command + "--tokens 335 --edges 1,3 --special 0,2 --overwrite");
  CHECK(again.output == first.output);
  CHECK(read(place.path / "set.bin") == tokens);
  CHECK(read(place.path / "set.json") == record);
  // As much as there is.
  const Outcome all = place.run(command + "--overwrite");
  CHECK(all.exit_code == 0);
  CHECK(all.says("32768 tokens were asked for: the held-out text has no more"));
}

TEST_CASE("corpus probe-set refuses what makes no probe set in one line, and leaves nothing") {
  const Workplace place;
  write(place.path / "cut.bin", read(place.path / "tiny.bin").substr(0, 100));
  write(place.path / "cut.idx", read(place.path / "tiny.idx"));
  {
    nascent::TokenFileWriter writer((place.path / "wild").string(), std::int64_t{1} << 31);
    for (int document = 0; document < 20; ++document) writer.add_document(std::vector<std::int32_t>(40, 2147483647));
    writer.finish();
  }
  const auto probe_set = [](const std::string& rest) { return "corpus probe-set " + rest + " --out x"; };
  check_refused(
      place,
      {{probe_set("tiny --heldout 0"), "nascent: --heldout 0: expected more than 0 and less than 1;..."},
       {probe_set("tiny --heldout 1"), "nascent: --heldout 1: expected more than 0 and less than 1;..."},
       {probe_set("tiny --heldout nan"), "nascent: --heldout nan: expected more than 0 and less than 1;..."},
       {probe_set("tiny --heldout 1e-9"), "nascent: windows: the documents hold 0 tokens, one window of 256 needs 257"},
       {probe_set("tiny --heldout 0.9999999"),
        "nascent: tiny.bin: --heldout 0.9999999 leaves no training token to rank types by"},
       {probe_set("tiny --tokens 255"), "nascent: --tokens 255: expected at least one sequence of 256"},
       {probe_set("tiny --tokens 0"), "nascent corpus probe-set: --tokens: ...; see nascent corpus probe-set --help"},
       {probe_set("tiny --sequence 100000 --tokens 100000"),
        "nascent: windows: the documents hold ... tokens, one window of 100000 needs 100001"},
       {probe_set("tiny --edges 2,3"), "nascent: edges: the first edge is rank 2, expected 1"},
       {probe_set("tiny --edges 1,x"), "nascent corpus probe-set: ...; see nascent corpus probe-set --help"},
       {probe_set("tiny --special 300000"), "nascent: bins: special id 300000 is outside the vocabulary of ..."},
       {probe_set("none"), "nascent: none.bin: cannot open the file: No such file or directory"},
       {probe_set("cut"), "nascent: cut.idx: sequence ..."},
       {probe_set("wild"), "nascent: wild.bin: the largest token id is 2147483647, expected at most 16777215"},
       {"corpus probe-set tiny --sequence 16 --out none/x",
        "nascent: none/x.bin.partial: cannot create the file: No such file or directory"},
       {"corpus probe-set tiny --out tiny --overwrite",
        "nascent: tiny.bin: --out is the data itself, expected another PREFIX"}});
  for (const char* ending : {".bin", ".idx", ".json", ".bin.partial"})
    CHECK_FALSE(fs::exists(place.path / (std::string("x") + ending)));
}

TEST_CASE("a tiny run leaves config.toml, metrics.db and checkpoints that generate and info read") {
  const Workplace place;
  const Outcome trained = place.run("train tiny.toml");
  INFO(trained.output);
  REQUIRE(trained.exit_code == 0);
  CHECK(trained.says("training, step 2"));
  CHECK(trained.says("held out, final model"));
  CHECK(trained.says("blocks.0.resid_post"));
  const fs::path run = place.path / "runs" / "tiny";
  CHECK(fs::exists(run / "config.toml"));
  CHECK(fs::exists(run / "metrics.db"));
  CHECK_FALSE(fs::exists(run / "metrics.db-wal"));
  for (const int step : {0, 1, 2, 3}) {
    const fs::path checkpoint = place.weights("tiny", step).parent_path();
    INFO(checkpoint);
    CHECK(fs::exists(checkpoint / "config.json"));
    CHECK(fs::exists(checkpoint / "model.safetensors"));
    CHECK(read(checkpoint / "tokenizer.model") == read(place.path / "tiny.model"));
  }
  CHECK(read(place.weights("tiny", 0)) != read(place.weights("tiny", 3)));

  const Outcome text = place.run("generate runs/tiny --prompt 'the king' --tokens 5 --seed 3");
  CHECK(text.exit_code == 0);
  CHECK(text.output.starts_with("the king"));
  CHECK(place.run("generate runs/tiny --prompt 'the king' --tokens 5 --seed 3").output == text.output);
  const Outcome info = place.run("info runs/tiny");
  CHECK(info.exit_code == 0);
  CHECK(info.says("runs/tiny: checkpoints of steps 0, 1, 2, 3"));
  CHECK(place.run("info runs/tiny/checkpoints/step_00000003").says("family gpt2"));
}

TEST_CASE("an existing run is removed only with --overwrite, and not by a configuration that is refused") {
  const Workplace place;
  REQUIRE(place.run("train tiny.toml").exit_code == 0);
  const std::string before = read(place.weights("tiny", 3));
  check_refused(place, {{"train tiny.toml",
                         "nascent: runs/tiny: this run exists; choose another name for the run, or "
                         "--overwrite to remove the earlier one"},
                        {"train tiny.toml --overwrite --set model.context=8",
                         "nascent: data.sequence = 16 is longer than the model's context of 8"},
                        {"train tiny.toml --overwrite --set data.tokens=none",
                         "nascent: none.bin: cannot open the file: No such file or directory"}});
  CHECK(read(place.weights("tiny", 3)) == before);
  CHECK(place.run("train tiny.toml --overwrite --set train.steps=1").exit_code == 0);
  CHECK_FALSE(fs::exists(place.weights("tiny", 3)));
  CHECK(fs::exists(place.weights("tiny", 1)));
}

TEST_CASE("a run from another run's config.toml, in place or under another name, has the same weights to the bit") {
  const Workplace place;
  REQUIRE(place.run("train tiny.toml").exit_code == 0);
  const std::string weights = read(place.weights("tiny", 3)), config = read(place.path / "runs/tiny/config.toml");
  REQUIRE(place.run("train runs/tiny/config.toml --set name=again").exit_code == 0);
  CHECK(read(place.weights("again", 3)) == weights);
  REQUIRE(place.run("train runs/tiny/config.toml --overwrite").exit_code == 0);
  CHECK(read(place.weights("tiny", 3)) == weights);
  CHECK(read(place.path / "runs/tiny/config.toml") == config);

  REQUIRE(place.run("train runs/tiny/config.toml --set name=unprobed --set probes.on=false").exit_code == 0);
  CHECK(read(place.weights("unprobed", 3)) == weights);
  REQUIRE(place.run("train runs/tiny/config.toml --set name=seeded --set seed.init=2").exit_code == 0);
  CHECK(read(place.weights("seeded", 3)) != weights);
}

TEST_CASE("generate and info refuse a folder without a checkpoint or without a tokenizer") {
  const Workplace place;
  fs::create_directories(place.path / "runs/empty/checkpoints");
  write(place.path / "runs/empty/config.toml", "");
  REQUIRE(place.run("train tiny.toml --set data.tokenizer= --set model.vocab=300").exit_code == 0);
  check_refused(
      place,
      {{"generate runs/empty", "nascent: runs/empty: the run has no checkpoint yet"},
       {"generate none", "nascent: none: not a run's folder: expected config.toml and checkpoints in it"},
       {"generate runs/tiny", "nascent: runs/tiny/checkpoints/step_00000003: no tokenizer.model in this checkpoint"}});
  const Outcome info = place.run("info none");
  CHECK(info.exit_code == 2);
  CHECK(info.says("nascent: none: neither a run (no metrics.db) nor a checkpoint (no config.json)\n"));
}

TEST_CASE("a checkpoint of impossible sizes is refused in one line that names it, before any memory is taken for it") {
  const Workplace place;
  REQUIRE(place.run("train tiny.toml --set train.steps=1").exit_code == 0);
  const fs::path config = place.weights("tiny", 1).parent_path() / "config.json";
  const std::string good = read(config), name = "runs/tiny/checkpoints/step_00000001";
  const auto refused = [&](const std::string& key, const std::string& value, const std::string& line) {
    const std::size_t at = good.find(key) + key.size() + 3, end = good.find(',', at);
    write(config, good.substr(0, at) + value + good.substr(end));
    for (const char* command : {"info ", "generate "}) {
      const Outcome outcome = place.run(command + name);
      INFO(command << key << " " << value << ": " << outcome.output);
      CHECK(outcome.exit_code == 2);
      CHECK(outcome.says("nascent: " + name + "/config.json: " + line + "\n"));
    }
  };
  refused("n_layer", "-1", "model.layers = -1: expected 1 to 1024");
  refused("n_layer", "1000000000", "model.layers = 1000000000: expected 1 to 1024");
  refused("n_layer", "18446744073709551615", "n_layer is of the wrong kind, expected an integer");
  refused("n_layer", "1e999", "holds a number beyond a double's range");
  refused("n_head", "0", "model.heads = 0: expected 1 to 1024");
  refused("n_head", "3", "model.heads = 3 does not divide model.width = 16");
  refused("n_embd", "4611686018427387904", "model.width = 4611686018427387904: expected 1 to 65536");
  refused("n_positions", "1000000000000", "model.context = 1000000000000: expected 1 to 1048576");
  refused("layer_norm_epsilon", "-1", "the norm's epsilon is -1, expected a number above 0");
}

TEST_CASE("generate refuses weights that hold NaN and a tokenizer of more tokens than the model") {
  const Workplace place;
  REQUIRE(place.run("train tiny.toml --set train.steps=1").exit_code == 0);
  const fs::path checkpoint = place.weights("tiny", 1).parent_path();
  REQUIRE(place.run("corpus train-tokenizer tiny.txt --vocab 310 --out large.model").exit_code == 0);
  const std::string tokenizer = read(checkpoint / "tokenizer.model");
  write(checkpoint / "tokenizer.model", read(place.path / "large.model"));
  const std::string name = "runs/tiny/checkpoints/step_00000001";
  check_refused(place, {{"generate runs/tiny", "nascent: " + name + ": its tokenizer has 310 tokens, the model 300"}});

  write(checkpoint / "tokenizer.model", tokenizer);
  check_refused(place, {{"generate runs/tiny --temperature nan", "nascent: temperature is nan, expected 0 or more"}});
  const auto model = nascent::load_pretrained(checkpoint);
  model->parameters().find("transformer.ln_f.bias")->value.data<float>()[3] = std::numeric_limits<float>::quiet_NaN();
  nascent::save_pretrained(checkpoint, *model);
  check_refused(place, {{"generate runs/tiny", "nascent: " + name + ": the model gives logits that are not finite"}});
}

TEST_CASE("output that cannot be written is a failure") {
  const Workplace place;
  REQUIRE(place.run("train tiny.toml --set train.steps=1").exit_code == 0);
  for (const char* command : {"generate runs/tiny --tokens 2", "info runs/tiny", "config", "--help"}) {
    INFO(command);
    CHECK(place.run(std::string(command) + " >/dev/full").exit_code == 1);
  }
}

TEST_CASE(
    "generate draws from the k largest logits behind the last tokens that fit, each token with a number of its own") {
  const Workplace place;
  REQUIRE(place.run("train tiny.toml --set optimizer.lr=0.01").exit_code == 0);
  const fs::path folder = place.weights("tiny", 3).parent_path();
  const nascent::Tokenizer tokenizer = nascent::Tokenizer::load(folder / "tokenizer.model");
  const auto model = nascent::load_pretrained(folder);
  const std::int64_t context = model->spec().context;
  model->plan(1, context, false, nullptr);
  const std::string prompt = "the old king went up to the deep water and said in days of light the house over";
  const std::vector<std::int32_t> begin = tokenizer.encode(prompt);
  REQUIRE(static_cast<std::int64_t>(begin.size()) > context);

  struct Case {
    std::string prompt;
    double temperature;
    std::int64_t top_k;
  };
  nascent::Stream s;
  nascent::test::Memory m(nascent::DType::kF32);
  for (const Case& c : {Case{prompt, 0, 0}, Case{prompt, 2, 3}, Case{"the king", 1, 0}, Case{"the king", 0.1, 0}}) {
    std::vector<std::int32_t> ids = tokenizer.encode(c.prompt);
    const Random random(5, "generate");
    for (std::uint64_t i = 0; i < 20; ++i) {
      const auto length = std::min(static_cast<std::int64_t>(ids.size()), context);
      const nascent::Tensor window = m.zeros({1, context}, nascent::DType::kI32);
      std::copy(ids.end() - length, ids.end(), window.data<std::int32_t>());
      model->forward(s, window);
      const nascent::Tensor all = m.zeros({context, 300});
      model->logits(s, all, 0);
      std::vector<std::pair<double, std::int32_t>> ranked;  // the largest logit first
      for (std::int32_t id = 0; id < 300; ++id)
        ranked.emplace_back(-nascent::test::Memory::get(all, (length - 1) * 300 + id), id);
      std::sort(ranked.begin(), ranked.end());
      ranked.resize(c.temperature == 0 ? 1 : c.top_k > 0 ? static_cast<std::size_t>(c.top_k) : ranked.size());
      std::vector<double> up_to;  // cumulative weights
      for (const auto& [minus_logit, id] : ranked) {
        const double exponent = c.temperature == 0 ? 0 : (ranked[0].first - minus_logit) / c.temperature;
        up_to.push_back((up_to.empty() ? 0 : up_to.back()) + std::exp(exponent));
      }
      const double at = random.uniform(i) * up_to.back();
      ids.push_back(
          ranked[static_cast<std::size_t>(std::lower_bound(up_to.begin(), up_to.end(), at) - up_to.begin())].second);
    }
    const Outcome text =
        place.run(fmt::format("generate runs/tiny --prompt '{}' --tokens 20 --seed 5 --temperature {} --top-k {}",
                              c.prompt, c.temperature, c.top_k));
    INFO("temperature " << c.temperature << ", top k " << c.top_k);
    CHECK(text.output == tokenizer.decode(ids) + "\n");
  }
}

TEST_CASE("a run ends with what metrics.db holds: first, last and held-out loss, n-grams, and each tap's last shares") {
  const Workplace place;
  const Outcome trained = place.run("train tiny.toml --set eval.ngrams=true --set optimizer.lr=0.01");
  INFO(trained.output);
  REQUIRE(trained.exit_code == 0);
  const auto metrics = nascent::MetricsDb::open_for_reading(place.path / "runs/tiny/metrics.db");
  CHECK(trained.says(fmt::format("training, step 0          {:.4f}\n", metrics.step(0)->loss)));
  CHECK(trained.says(fmt::format("training, step 2          {:.4f}\n", metrics.step(2)->loss)));
  const auto value = [&](int step, const char* key, const char* labels) {
    return metrics.value(step, "eval", "", key, labels).value();
  };
  CHECK(trained.says(fmt::format("held out, unigram         {:.4f}\n", value(0, "ngram_loss", "order=1"))));
  CHECK(trained.says(fmt::format("held out, bigram          {:.4f}\n", value(0, "ngram_loss", "order=2"))));
  CHECK(trained.says(fmt::format("held out, trigram         {:.4f}\n", value(0, "ngram_loss", "order=3"))));
  CHECK(trained.says(fmt::format("held out, final model     {:.4f}\n", value(3, "loss", "split=heldout_all"))));
  const auto energy = [&](const char* key, const char* labels) {
    return metrics.value(2, "gradient_energy", "blocks.0.resid_post", key, labels).value();
  };
  CHECK(trained.says(fmt::format("  {:<22} {:>7} {:>8.3f} {:>8.3f} {:>8.3f} {:>8.3f}\n", "blocks.0.resid_post", 2,
                                 energy("share", "basis=init"), energy("share", "basis=current"),
                                 energy("chance", "basis=current"), energy("ceiling", "basis=current"))));
}

TEST_CASE("a signal ends a run after its step and saves it, another only saves it") {
  const Workplace place;
  // The shell waits for the folder of a checkpoint before it sends what is asked, so nothing hangs on time.
  const auto run_and_send = [&](const std::string& name, const std::string& commands) {
    write(place.path / "signal.sh", fmt::format(R"('{}' train tiny.toml --set name={} --set train.steps=10000000 \
    --set 'checkpoints.at=["step 1"]' --set probes.on=false &
await() {{ until [ -e "runs/{}/checkpoints/$1" ]; do kill -0 $! || exit 99; done; }}
await step_00000001
{}
wait $!
)",
                                                NASCENT_PROGRAM, name, name, commands));
    const std::string command = fmt::format("cd '{}' && sh signal.sh 2>&1", place.path.string());
    std::FILE* pipe = ::popen(command.c_str(), "r");
    REQUIRE(pipe != nullptr);
    Outcome outcome;
    for (int c = 0; (c = std::fgetc(pipe)) != EOF;) outcome.output += static_cast<char>(c);
    outcome.exit_code = WEXITSTATUS(::pclose(pipe));
    return outcome;
  };
  const auto checkpoints = [&](const std::string& name) {
    return std::distance(fs::directory_iterator(place.path / "runs" / name / "checkpoints"), fs::directory_iterator());
  };
  const Outcome ended = run_and_send("ended", "kill -TERM $!");
  INFO(ended.output);
  CHECK(ended.exit_code == 128 + 15);
  CHECK(ended.says("Signal 15 ended it after"));
  CHECK(ended.says("is saved."));
  CHECK(checkpoints("ended") == 2);

  const Outcome saved = run_and_send("saved", R"(for saved in 2 3; do
kill -USR1 $!
while [ $(ls runs/saved/checkpoints | grep -cv partial) -lt $saved ]; do kill -0 $! || exit 99; done
done
kill -INT $!)");
  INFO(saved.output);
  // A shell without job control gives its background children SIGINT ignored; the program takes it over all the same.
  CHECK(saved.exit_code == 128 + 2);
  // The step that INT ends may be the one that USR1 saved.
  CHECK(checkpoints("saved") >= 3);
}
