// What a run needs and what there is, and `nascent config --check`.
#include <filesystem>
#include <fstream>

#include "tests/catch.h"
#include "tests/commands.h"
#include "tests/errors.h"
#include "tests/golden.h"
#include "tests/small_run.h"
#include "train/needs.h"

using namespace nascent;
using namespace nascent::test;

namespace {

void plant(const fs::path& file, const std::string& text) {
  fs::create_directories(file.parent_path());
  write(file, text);
}

double bytes(const Needs& needs, const std::string& what) {
  for (const Need& need : needs) {
    if (need.what.starts_with(what)) return need.bytes;
  }
  FAIL("no need " << what);
  return 0;
}

}  // namespace

TEST_CASE("the room in memory is MemAvailable, or what the tightest cgroup around the process leaves") {
  const TemporaryFolder root;
  plant(root.path / "proc/meminfo", "MemTotal:       9000 kB\nMemAvailable:   4000 kB\n");
  CHECK(memory_room(root.path).bytes == 4000 * 1024);
  CHECK(memory_room(root.path).source == "MemAvailable");

  const fs::path group = root.path / "sys/fs/cgroup";
  plant(root.path / "proc/self/cgroup", "0::/user/job\n");
  plant(group / "user/memory.max", "max\n");
  plant(group / "user/memory.current", "77\n");
  plant(group / "user/job/memory.max", "3000000\n");
  plant(group / "user/job/memory.current", "1000000\n");
  plant(group / "user/job/memory.stat", "anon 5\ninactive_file 400000\nactive_file 7\n");
  CHECK(memory_room(root.path).bytes == 2400000);
  CHECK(memory_room(root.path).source == "limit of the cgroup");
  write(group / "user/memory.max", "1077\n");
  CHECK(memory_room(root.path).bytes == 1000);

  plant(root.path / "proc/self/cgroup", "5:cpu,cpuacct:/a\n4:memory:/b\n");
  plant(group / "memory/b/memory.limit_in_bytes", "2000\n");
  plant(group / "memory/b/memory.usage_in_bytes", "2500\n");
  CHECK(memory_room(root.path).bytes == 0);
}

TEST_CASE("the room on a disk counts what the earlier run there takes, and needs no folder to be there") {
  const TemporaryFolder folder;
  const double before = disk_room(folder.path / "runs/x").bytes;
  CHECK(before > 0);
  plant(folder.path / "runs/x/checkpoints/a", std::string(1 << 22, 'x'));
  // What others write meanwhile may change it too, but hardly by what is planted.
  CHECK(disk_room(folder.path / "runs/x").bytes > disk_room(folder.path / "runs/y").bytes + (1 << 21));
}

TEST_CASE("needs beyond the room are refused with both numbers") {
  const Needs needs = {{"a", 1.5e6}, {"b", 2e6}, {"none", 0}};
  CHECK(text("memory", needs, {9e6, "MemAvailable"}) == "memory: 1.5 MB a, 2.0 MB b: 3.5 MB of 9.0 MB (MemAvailable)");
  require_room("memory", needs, {3.5e6, "MemAvailable"});
  const Failure failure = failure_of([&] { require_room("disk", needs, {3.4e6, "free"}); });
  CHECK(failure.message == "disk: this run needs 3.5 MB, expected at most 3.4 MB (free)");
  CHECK(failure.exit_code == 2);
}

TEST_CASE("a plan knows to the byte what model and optimizer take, before they take it") {
  const RunPlace place;
  for (const bool with_probes : {false, true}) {
    Config config = small_config("planned");
    config.checkpoints.at = {"log", "step 33"};
    ProbeSet probes;
    configure(probes, with_probes ? kEverything : kNoProbes);
    RunPlan plan(config, probes);
    for (const Parameter& p : plan.model->parameters()) CHECK(!p.value);
    const Needs memory = plan.memory(), disk = plan.disk();
    CHECK((bytes(memory, "probes") > 0) == with_probes);
    CHECK(bytes(memory, "batch") == 2 * 6 * 17 * 4);
    // 0, 1, 2, 4, ... 32, and 33 and 50.
    double weights = 0;
    for (const Parameter& p : plan.model->parameters()) weights += static_cast<double>(p.value.bytes());
    CHECK(bytes(disk, "checkpoints (9)") == 9 * weights);

    const Trainer trainer(std::move(plan), "", true);
    CHECK(bytes(memory, "parameters") == static_cast<double>(trainer.model().parameters().bytes()));
    CHECK(bytes(memory, "activations") == static_cast<double>(trainer.model().activation_bytes()));
    CHECK(bytes(memory, "optimizer") == static_cast<double>(trainer.optimizer().bytes()));
    for (const Parameter& p : trainer.model().parameters()) CHECK(p.value);
  }
}

TEST_CASE("a model planned first and given its memory later computes the same") {
  for (const TransformerSpec& spec : tiny_specs()) {
    Stream s;
    Memory m;
    const Tensor tokens = m.ids("tokens", {2, 7}, 11);
    const auto losses = [&](Transformer::Memory memory) {
      Transformer model(spec, DType::kF64, memory);
      model.plan(2, 7, true, nullptr);
      if (memory == Transformer::Memory::kLater) model.allocate();
      randomize(model.parameters());
      model.forward(s, tokens);
      return values(model.losses(s, tokens));
    };
    CHECK(losses(Transformer::Memory::kLater) == losses(Transformer::Memory::kAtOnce));
  }
}

TEST_CASE("operations of a step are six for each token and matrix parameter, and attention's seven half products") {
  TransformerSpec spec = tiny_spec();  // width 6, hidden 10, 2 layers, 11 tokens
  const double matrices = 2 * (4 * 36 + 2 * 60) + 66;
  CHECK(step_operations(spec, 3, 5) == 15 * 6 * matrices + 3 * 2 * 7 * 6 * 25);
}

TEST_CASE("config --check tells memory, disk and time, refuses what train refuses, and leaves no run") {
  const Workplace place;
  const Outcome checked = place.run("config tiny.toml --check");
  INFO(checked.output);
  CHECK(checked.exit_code == 0);
  for (const char* words : {"tiny: gpt2, ", "\nmemory: ", " MB parameters and gradients", " MB (MemAvailable)",
                            "\ndisk: ", " MB checkpoints (4)", "\ntime: about ", "; an estimate"}) {
    INFO(words);
    CHECK(checked.says(words));
  }
  for (const char* set : {"train.setps=3", "model.heads=3", "data.tokens=none", "'eval.at=[\"sometimes\"]'",
                          "'probes.taps=[\"blocks.7.*\"]'", "model.context=8", "data.sequence=100000"}) {
    const Outcome check = place.run(fmt::format("config tiny.toml --check --set {}", set));
    const Outcome train = place.run(fmt::format("train tiny.toml --set {}", set));
    INFO(set);
    CHECK(check.exit_code == 2);
    CHECK(check.output == train.output);
  }
  // A thousand layers as wide as can be; as many checkpoints as steps.
  const std::string wide = "--set model.width=65536 --set model.layers=1024";
  const std::string many = R"(--set model.width=512 --set train.steps=10000000 --set 'checkpoints.at=["every 1"]')";
  for (const std::string& command : {"config tiny.toml --check " + wide, "train tiny.toml " + wide}) {
    const Outcome refused = place.run(command);
    INFO(refused.output);
    CHECK(refused.exit_code == 2);
    CHECK(refused.says("nascent: memory: this run needs "));
    CHECK(refused.says(" MB, expected at most "));
  }
  for (const std::string& command : {"config tiny.toml --check " + many, "train tiny.toml " + many}) {
    const Outcome refused = place.run(command);
    INFO(refused.output);
    CHECK(refused.exit_code == 2);
    CHECK(refused.says("nascent: disk: this run needs "));
  }
  CHECK_FALSE(fs::exists(place.path / "runs"));

  const Outcome trained = place.run("train tiny.toml --check-nan");
  INFO(trained.output);
  REQUIRE(trained.exit_code == 0);
  CHECK(trained.says("\nmemory: "));
  check_refused(place, {{"config tiny.toml --check",
                         "nascent: runs/tiny: this run exists; choose another name for the run, or --overwrite to "
                         "remove the earlier one"},
                        {"config tiny.toml", "nascent config: config requires --check; see nascent config --help"}});
  CHECK(place.run("config tiny.toml --check --overwrite").exit_code == 0);
  CHECK(fs::exists(place.weights("tiny", 3)));
}
