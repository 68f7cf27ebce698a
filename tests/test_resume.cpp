// Runs that stop and go on: what they are afterwards, to the bit.
#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <vector>
#include <xxhash.h>

#include "data/probe_sequences.h"
#include "data/safetensors.h"
#include "data/token_file.h"
#include "kernels/philox.h"
#include "model/hugging_face.h"
#include "tests/catch.h"
#include "tests/database.h"
#include "tests/errors.h"
#include "tests/golden.h"
#include "tests/temporary.h"
#include "train/branch.h"
#include "train/checkpoint.h"
#include "train/resume.h"

using namespace nascent;
using namespace nascent::test;
namespace fs = std::filesystem;

namespace {

constexpr std::int64_t kSequence = 17;

// A folder to run in, with a token file that has this many windows of 17 tokens.
class Workplace {
 public:
  explicit Workplace(std::int64_t windows) : back_(fs::current_path()) {
    fs::current_path(folder_.path);
    write_tokens("tokens", windows, 1);
    const TokenFile file("tokens");
    const TokenStream stream(file, split_documents(file.documents(), 0).train);
    const std::vector<std::uint64_t> chosen = {3, 1, 7};
    write_probe_set("set", stream, kSequence, chosen, 50, {});
  }
  ~Workplace() { fs::current_path(back_); }

  static void write_tokens(const std::string& prefix, std::int64_t windows, std::uint64_t seed) {
    TokenFileWriter writer(prefix, 50);
    const Random random(seed, "test", "documents");
    std::vector<std::int32_t> document;
    for (std::int64_t i = 0; i < windows * kSequence + 1; ++i) {
      document.push_back(static_cast<std::int32_t>(random.bits(static_cast<std::uint64_t>(i)) % 50));
      if (document.size() < 97) continue;
      writer.add_document(document);
      document.clear();
    }
    writer.add_document(document);
    writer.finish();
  }

 private:
  TemporaryFolder folder_;
  fs::path back_;
};

// A small run with every probe; more keys may follow.
std::unique_ptr<RunConfig> small_run(const std::string& name, std::vector<std::string> set = {}) {
  set.insert(set.begin(), "name=" + name);
  return std::make_unique<RunConfig>(ConfigReader::of_text(R"(
threads = 1
[model]
vocab = 50
width = 24
layers = 2
heads = 3
[data]
tokens = "tokens"
heldout = 0.0
sequence = 17
[train]
steps = 50
batch = 6
[schedule]
warmup = 5
[optimizer]
lr = 3e-3
[checkpoints]
at = ["never"]
[probes]
rank = 5
taps = ["embed", "blocks.1.resid_post", "blocks.0.mlp.post"]
)",
                                                           "small_run", set));
}

std::unique_ptr<Trainer> begin(RunConfig& run) {
  const std::string text = run.text();
  return std::make_unique<Trainer>(run.config, run.probes, text, false);
}

void go_to(Trainer& trainer, std::int64_t step) {
  while (trainer.steps_done() < step) trainer.step();
}

// Trains to a step and saves there, as a signal makes it.
void run_to(const std::string& name, std::int64_t step, const std::vector<std::string>& set = {}) {
  const auto run = small_run(name, set);
  const auto trainer = begin(*run);
  go_to(*trainer, step);
  trainer->save(SavedFor::kSignal);
}

using State = std::map<std::string, std::vector<double>>;  // weights, moments and the probes' state, by name

State state_of(const Trainer& trainer, const ProbeSet& probes) {
  State state;
  for (const Parameter& p : trainer.model().parameters()) state["weights/" + p.name] = values(p.value);
  for (const NamedView& moment : trainer.optimizer().moments()) state["moments/" + moment.name] = values(moment.view);
  for (const auto& [name, matrix] : probes.state()) state["probes/" + name] = matrix.data;
  return state;
}

State resumed_to(const std::string& name, std::int64_t step, const std::vector<std::string>& set = {}) {
  const Resumed resumed = open_resumed({"runs/" + name, set, {}});
  go_to(*resumed.trainer, step);
  resumed.trainer->save(SavedFor::kSignal);
  return state_of(*resumed.trainer, resumed.run->probes);
}

State uninterrupted(const std::string& name, const std::vector<std::string>& set = {}, std::int64_t steps = 20) {
  const auto run = small_run(name, set);
  const auto trainer = begin(*run);
  go_to(*trainer, steps);
  return state_of(*trainer, run->probes);
}

std::vector<std::string> records(const std::string& name) { return records_of("runs/" + name + "/metrics.db"); }

// Runs of every kind, stopped at step `half` and resumed to twice that, are what they are uninterrupted.
void check_resumed_at(std::int64_t half) {
  struct Case {
    const char* name;
    std::int64_t windows;
    std::vector<std::string> set;
  };
  const std::int64_t samples = 6 * half, quarter = samples * 10 / 32;  // in the fourth epoch at `half`
  for (const Case& c :
       {Case{"in the first epoch", samples + 50, {}}, Case{"at the end of an epoch", samples, {}},
        Case{"in the fourth epoch", quarter, {}}, Case{"with micro-batches", quarter, {"train.micro_batch=2"}},
        Case{"in double precision", quarter, {"precision=fp64"}}, Case{"with a probe set", quarter, {"probes.set=set"}},
        Case{"with documents held out", 80, {"data.heldout=0.2", "eval.at=[\"every 5\"]"}},
        Case{"with probes now and then", quarter, {"probes.tangent.at=[\"every 7\"]", "probes.moments.on=false"}}}) {
    INFO(c.name);
    const Workplace workplace(c.windows);
    const State whole = uninterrupted("whole", c.set, 2 * half);
    run_to("stopped", half, c.set);
    const State resumed = resumed_to("stopped", 2 * half);
    CHECK(whole.size() > 100);
    CHECK(resumed == whole);
    CHECK(records("whole").size() > 1000);
    CHECK(difference(records("stopped"), records("whole")) == "");
  }
}

}  // namespace

TEST_CASE(
    "stopped at half of its steps and resumed, a run is what it is uninterrupted: weights, moments, probes, records") {
  check_resumed_at(6);
}

TEST_CASE("a run of 50 steps stopped at 25 and resumed is what it is uninterrupted", "[long]") { check_resumed_at(25); }

TEST_CASE("resumed twice, a run is what it is uninterrupted, each part recorded as its own attempt") {
  const Workplace workplace(61);
  const State whole = uninterrupted("whole");
  run_to("twice", 5);
  resumed_to("twice", 12);
  CHECK(resumed_to("twice", 20) == whole);
  CHECK(difference(records("twice"), records("whole")) == "");
  CHECK(query("runs/twice/metrics.db", "SELECT attempt, min(step), max(step) FROM steps GROUP BY attempt") ==
        std::vector<std::string>{"1|0|4", "2|5|11", "3|12|19"});
}

TEST_CASE("resumed after a step without an update, AdamW goes on from the number of updates, not of steps") {
  const Workplace workplace(61);
  const std::vector<std::string> set = {"train.not_finite=skip", "optimizer.clip=0.0"};
  // At step 3 embeddings so large that the norm of activations overflows.
  const auto to_10_past_a_skipped_step = [](Trainer& trainer) {
    go_to(trainer, 3);
    const Tensor table = trainer.model().parameters().find("transformer.wte.weight")->value;
    const std::vector<double> before = values(table);
    set_values(table, std::vector<double>(before.size(), 1e38));
    trainer.step();
    set_values(table, before);
    go_to(trainer, 10);
    REQUIRE(trainer.optimizer().updates() == 9);
  };
  const auto whole = small_run("whole", set), stopped = small_run("stopped", set);
  const auto trainer = begin(*whole);
  to_10_past_a_skipped_step(*trainer);
  go_to(*trainer, 20);
  {
    const auto other = begin(*stopped);
    to_10_past_a_skipped_step(*other);
    other->save(SavedFor::kSignal);
  }
  CHECK(resumed_to("stopped", 20) == state_of(*trainer, whole->probes));
  CHECK(difference(records("stopped"), records("whole")) == "");
}

TEST_CASE("a run whose probe set has changed is not resumed") {
  const Workplace workplace(61);
  run_to("set", 3, {"probes.set=set"});
  const TokenFile file("tokens");
  const TokenStream stream(file, split_documents(file.documents(), 0).train);
  const std::vector<std::uint64_t> others = {3, 2, 7};
  write_probe_set("set", stream, kSequence, others, 50, {});
  CHECK(failure_of([] { open_resumed({"runs/set", {}, {}}); }).message ==
        "probes.set = \"set\": not the probe set that was measured before");
}

TEST_CASE("a run that ended without saving repeats the steps after its last checkpoint and keeps what was recorded") {
  const Workplace workplace(61);
  const std::vector<std::string> set = {"checkpoints.at=[\"every 8\"]"};
  const State whole = uninterrupted("whole", set);
  {
    const auto run = small_run("cut", set);
    go_to(*begin(*run), 13);
  }
  CHECK(resumed_to("cut", 20) == whole);
  CHECK(difference(records("cut"), records("whole")) == "");
  CHECK(query("runs/cut/metrics.db", "SELECT attempt, loss FROM steps WHERE step IN (7, 12) ORDER BY step, attempt")
            .size() == 3);
}

TEST_CASE("a run made longer while its rate is constant is the longer run from the start") {
  const Workplace workplace(61);
  const std::vector<std::string> set = {"schedule.kind=constant", "probes.early.until=steps 8"};
  const State whole = uninterrupted("whole", set);
  std::vector<std::string> shorter = set;
  shorter.push_back("train.steps=10");
  run_to("longer", 10, shorter);
  CHECK(resumed_to("longer", 20, {"train.steps=50"}) == whole);
  CHECK(difference(records("longer"), records("whole")) == "");
  // config.toml holds the keys in force now.
  CHECK(RunConfig(ConfigReader("runs/longer/config.toml")).config.train.steps == 50);
}

TEST_CASE("a longer run under a schedule that falls says that the rates change") {
  const Workplace workplace(61);
  run_to("cosine", 10);
  const Resumed resumed = open_resumed({"runs/cosine", {"train.steps=60"}, {}});
  REQUIRE(resumed.notes.size() == 4);
  CHECK(resumed.notes[2] ==
        "train.steps = 60 (was 50): the cosine schedule depends on it, so from step 10 on the learning rates are those "
        "of "
        "a run of 60 steps\n");
}

TEST_CASE("a branch without changes goes on as its parent does, and is a run that can itself be resumed") {
  const Workplace workplace(47);
  const std::vector<std::string> set = {"checkpoints.resumable=[\"step 8\"]"};
  const State whole = uninterrupted("parent", set);
  const std::vector<std::string> parent = records("parent");
  {
    const Resumed branch = open_branch({"runs/parent", 8, "child", {}});
    go_to(*branch.trainer, 13);
    branch.trainer->save(SavedFor::kSignal);
  }
  fs::remove_all("runs/parent");
  CHECK(resumed_to("child", 20) == whole);
  const std::vector<std::string> child = records("child");
  REQUIRE(child.size() < parent.size());
  std::vector<std::string> later;  // the parent's from step 8 on
  for (const std::string& row : parent) {
    if (std::stoll(row) >= 8) later.push_back(row);
  }
  CHECK(difference(child, later) == "");
  const RunConfig config(ConfigReader("runs/child/config.toml"));
  CHECK(config.config.branch.parent == "runs/parent");
  CHECK(config.config.branch.step == 8);
}

TEST_CASE("a branch of other batch size goes on with the samples its parent has not seen") {
  const Workplace workplace(200);
  run_to("parent", 10);
  const Resumed branch =
      open_branch({"runs/parent", 10, "child", {"train.batch=4", "optimizer.lr=0", "probes.on=false"}});
  branch.trainer->step();
  CHECK(branch.trainer->samples_done() == 64);

  // The loss of the weights of step 10 on samples 60 to 63.
  const TokenFile file("tokens");
  const TokenStream stream(file, split_documents(file.documents(), 0).train);
  const Windows windows(stream, kSequence);
  Batches batches(windows, 1, 4, 4);
  batches.load(60);
  Stream s;
  Transformer model(branch.trainer->model().spec(), DType::kF32);
  load_weights("runs/parent/checkpoints/step_00000010", model);
  model.plan(4, kSequence, false, nullptr);
  model.forward(s, batches.inputs(0));
  double sum = 0;
  for (const double loss : values(model.losses(s, batches.targets(0)))) sum += loss;
  CHECK(branch.trainer->metrics().step(10)->loss == Approx(sum / (4 * kSequence)).epsilon(1e-6));
}

TEST_CASE("a branch with another order of samples begins that order at its first sample") {
  const Workplace workplace(200);
  run_to("parent", 10);
  const Resumed branch = open_branch({"runs/parent", 10, "child", {"seed.data=2"}});
  branch.trainer->step();
  CHECK(branch.trainer->samples_done() == 6);
}

TEST_CASE("the stream of samples is one, whatever the batch size, where it is cut, and how long it becomes") {
  const Workplace workplace(47);
  const TokenFile file("tokens");
  const TokenStream stream(file, split_documents(file.documents(), 0).train);
  const Windows windows(stream, kSequence);
  REQUIRE(windows.count() == 47);
  // Over samples [0, total), in steps of `batch`; from `cut` on in another object.
  const auto hash = [&](std::int64_t batch, std::int64_t total, std::int64_t cut) {
    XXH3_state_t* state = XXH3_createState();
    XXH3_64bits_reset(state);
    for (const auto& [from, to] : {std::pair<std::int64_t, std::int64_t>(0, cut), {cut, total}}) {
      Batches batches(windows, 3, batch, batch);
      for (std::int64_t first = from; first < to; first += batch) {
        batches.load(first);
        for (std::int64_t i = 0; i < std::min(batch, total - first); ++i) {
          for (const View& part : {batches.inputs(0), batches.targets(0)}) {
            XXH3_64bits_update(state, part.data<std::int32_t>() + i * kSequence, kSequence * sizeof(std::int32_t));
          }
        }
      }
    }
    const XXH64_hash_t value = XXH3_64bits_digest(state);
    XXH3_freeState(state);
    return value;
  };
  const XXH64_hash_t expected = hash(1, 192, 192);
  for (const std::int64_t batch : {1, 4, 32}) {
    INFO(batch);
    for (const std::int64_t cut : {192, 32, 96, 160}) CHECK(hash(batch, 192, cut) == expected);
  }
  CHECK(hash(4, 196, 196) != expected);
  CHECK(hash(4, 192, 47 * 4) == expected);  // cut between epochs

  // A run that stops takes up the stream where it left it.
  run_to("stopped", 9);
  CHECK(open_resumed({"runs/stopped", {"train.steps=500"}, {}}).trainer->samples_done() == 54);
}

TEST_CASE("the last two checkpoints, the last of a signal, a branch's first and those asked for keep the optimizer") {
  const Workplace workplace(61);
  const auto run = small_run("kept", {"checkpoints.at=[\"every 2\"]", "checkpoints.resumable=[\"step 5\"]"});
  {
    const auto trainer = begin(*run);
    go_to(*trainer, 3);
    trainer->save(SavedFor::kSignal);
    go_to(*trainer, 7);
    trainer->save(SavedFor::kSignal);
    go_to(*trainer, 13);
    const RunFolder& folder = trainer->folder();
    CHECK(folder.checkpoint_steps() == std::vector<std::int64_t>{0, 2, 3, 4, 5, 6, 7, 8, 10, 12});
    CHECK(resumable_steps(folder) == std::vector<std::int64_t>{5, 7, 10, 12});
    for (const std::int64_t step : folder.checkpoint_steps()) {
      INFO(step);
      const fs::path checkpoint = folder.checkpoint(step);
      const bool whole = is_resumable(checkpoint);
      CHECK(fs::exists(checkpoint / "model.safetensors"));
      CHECK(fs::exists(checkpoint / "state.json"));
      CHECK(fs::exists(checkpoint / "probes.safetensors") == whole);
      CHECK(failure_of([&] { read_resumable(checkpoint); }).exit_code == (whole ? 0 : 2));
    }
  }
  const Resumed branch = open_branch({"runs/kept", 5, "child", {}});
  go_to(*branch.trainer, 13);
  CHECK(resumable_steps(branch.trainer->folder()) == std::vector<std::int64_t>{5, 10, 12});
}

TEST_CASE("any byte of a checkpoint that changes is found, and its file named") {
  const Workplace workplace(61);
  run_to("bytes", 2);
  const fs::path checkpoint = RunFolder::open("runs/bytes").checkpoint(2);
  std::size_t files = 0;
  for (const auto& entry : fs::directory_iterator(checkpoint)) {
    ++files;
    const auto size = static_cast<std::int64_t>(fs::file_size(entry.path()));
    for (const std::int64_t at : {std::int64_t{0}, size / 2, size - 4}) {
      INFO(entry.path() << " byte " << at);
      const auto flip = [&] {
        std::fstream file(entry.path(), std::ios::in | std::ios::out | std::ios::binary);
        file.seekg(at);
        const int byte = file.get();
        file.seekp(at);
        file.put(static_cast<char>(byte ^ 1));
      };
      flip();
      const Failure failure = failure_of([&] { read_resumable(checkpoint); });
      CHECK(failure.exit_code == 2);
      CHECK(failure.says(entry.path().filename().string()));
      flip();
      CHECK(read_resumable(checkpoint).step == 2);
    }
  }
  CHECK(files == 5);
}

TEST_CASE(
    "moments that are missing, of another shape, of other parameters or of another step are refused, never zero") {
  const Workplace workplace(61);
  run_to("moments", 3);
  const fs::path checkpoint = RunFolder::open("runs/moments").checkpoint(3);
  const CheckpointState state = read_resumable(checkpoint);
  const auto run = small_run("other");
  Trainer trainer(RunPlan(run->config, run->probes));
  SafetensorsFile saved(checkpoint / "optimizer.safetensors");
  const std::vector<float> zeros(7);
  const auto refused = [&](const std::string& drop, const std::vector<NamedView>& add, const std::string& updates) {
    const TemporaryFolder broken;
    fs::copy(checkpoint, broken.path);
    std::vector<NamedView> tensors = add;
    for (const std::string& name : saved.names()) {
      if (name != drop) tensors.push_back({name, saved.at(name)});
    }
    write_safetensors(broken.path / "optimizer.safetensors", tensors, {{"updates", updates}});
    return failure_of([&] { trainer.load(broken.path, state); });
  };
  const std::string name = "transformer.ln_f.bias.second";
  CHECK(refused("", {}, "3").message == "");
  CHECK(refused(name, {}, "3").says("no tensor " + name + ", the optimizer cannot go on without it"));
  CHECK(refused(name, {{name, View(zeros.data(), DType::kF32, {7})}}, "3")
            .says(name + " is f32 of shape (7), expected f32 of shape (24)"));
  CHECK(refused("", {{"more.first", View(zeros.data(), DType::kF32, {7})}}, "3").says("expected two for each of"));
  CHECK(refused("", {}, "4").says("holds the moments after 4 updates, expected 3"));
}

TEST_CASE(
    "probes that were off or elsewhere before a checkpoint cannot be resumed there, those that were on may pause") {
  const Workplace workplace(61);
  run_to("off", 3, {"probes.on=false"});
  const Failure failure = failure_of([] { open_resumed({"runs/off", {"probes.on=true"}, {}}); });
  CHECK(failure.exit_code == 2);
  CHECK(failure.says("checkpoints/step_00000003: the probes kept no step/blocks.0.mlp.post/start/"));
  run_to("on", 3);
  const Resumed resumed = open_resumed({"runs/on", {"probes.norms.on=false", "probes.moments.at=[\"every 9\"]"}, {}});
  go_to(*resumed.trainer, 5);
  CHECK(query("runs/on/metrics.db",
              "SELECT DISTINCT probe FROM points JOIN series ON id = series WHERE step = 4 ORDER BY 1") ==
        std::vector<std::string>{"gradient_energy", "statistics", "tangent"});
}

TEST_CASE("what probes keep is refused by name where it is no matrix of doubles") {
  const TemporaryFolder folder;
  const std::vector<float> single = {1, 2};
  const std::vector<double> twice = {1, 2};
  const auto refusal = [&](const View& stored) {
    write_safetensors(folder.file("probes.safetensors"), {{"kept", stored}});
    return failure_of([&] { load_probe_state(folder.path); });
  };
  CHECK(refusal(View(twice.data(), DType::kF64, {1, 2})).message.empty());
  for (const View& stored : {View(single.data(), DType::kF32, {2, 1}), View(twice.data(), DType::kF64, {2}),
                             View(twice.data(), DType::kF64, {2, 1, 1})}) {
    const Failure failure = refusal(stored);
    CHECK(failure.exit_code == 2);
    CHECK(failure.says("probes.safetensors: kept is f"));
  }
}
