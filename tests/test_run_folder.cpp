#include <csignal>
#include <fstream>
#include <optional>
#include <string>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

#include "data/safetensors.h"
#include "kernels/error.h"
#include "tests/catch.h"
#include "tests/temporary.h"
#include "train/run_folder.h"

using namespace nascent;
namespace fs = std::filesystem;

namespace {

std::string read_text(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void save(const RunFolder& run, std::int64_t step, const std::string& text) {
  CheckpointWriter writer(run, step);
  fs::create_directories(writer.path() / "tokenizer");
  std::ofstream(writer.path() / "tokenizer" / "words") << text;
  std::ofstream(writer.path() / "config.json") << text;
  writer.commit();
}

// Exit code and message of what `act` throws; 0 when it does not.
template <class F>
std::pair<int, std::string> failure(F&& act) {
  try {
    act();
    return {0, ""};
  } catch (const Error& e) {
    return {e.exit_code(), e.what()};
  }
}

// The exit status of `act` in a child of its own.
template <class F>
int in_child(F&& act) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(act());
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

}  // namespace

TEST_CASE("run folder: an existing run is refused unless overwritten, anything else always") {
  const TemporaryFolder folder;
  const fs::path path = folder.path / "runs" / "a";
  RunFolder::create(path, "steps = 3\n", false);
  const RunFolder run = RunFolder::open(path);
  CHECK(read_text(run.config()) == "steps = 3\n");
  CHECK(fs::is_directory(run.checkpoints()));
  save(run, 1, "old");
  std::ofstream(run.metrics()) << "x";

  const auto [code, message] = failure([&] { RunFolder::create(path, "", false); });
  CHECK(code == 2);
  CHECK(message.find("--overwrite") != std::string::npos);
  CHECK(RunFolder::open(path).checkpoint_steps() == std::vector<std::int64_t>{1});

  RunFolder::create(path, "steps = 4\n", true);
  CHECK(read_text(run.config()) == "steps = 4\n");
  CHECK(run.checkpoint_steps().empty());

  fs::create_directories(folder.path / "empty");
  CHECK_NOTHROW(RunFolder::create(folder.path / "empty", "", false));

  const fs::path precious = folder.path / "precious";
  fs::create_directories(precious);
  std::ofstream(precious / "thesis.tex") << "x";
  std::ofstream(precious / "config.toml") << "x";
  CHECK(failure([&] { RunFolder::create(precious, "", true); }).first == 2);
  CHECK(fs::exists(precious / "thesis.tex"));
  CHECK(failure([&] { RunFolder::create(precious / "thesis.tex", "", true); }).first == 2);
  CHECK(failure([&] { RunFolder::create(precious / "thesis.tex" / "a", "", false); }).first == 2);
  CHECK(failure([&] { RunFolder::open(precious); }).first == 2);

  // Other programs have a config.toml and checkpoints too.
  const fs::path theirs = folder.path / "theirs";
  fs::create_directories(theirs / "checkpoints");
  std::ofstream(theirs / "config.toml") << "x";
  std::ofstream(theirs / "checkpoints" / "model.pt") << "x";
  CHECK(failure([&] { RunFolder::create(theirs, "", true); }).first == 2);
  CHECK(fs::exists(theirs / "checkpoints" / "model.pt"));
}

TEST_CASE("run folder: one writer at a time, known by name, and none after it is gone") {
  const TemporaryFolder folder;
  const fs::path path = folder.path / "a";
  std::optional<RunFolder> writer = RunFolder::create(path, "first\n", false);
  std::ofstream(writer->metrics()) << "x";
  const std::string refusal = path.string() + ": process " + std::to_string(::getpid()) + " on ";
  CHECK(failure([&] { RunFolder::create(path, "", true); }).second.find(refusal) == 0);
  CHECK(failure([&] { RunFolder::open_to_write(path); }).second.find(refusal) == 0);
  CHECK(failure([&] { RunFolder::open_to_write(path); }).first == 2);
  CHECK(read_text(path / "config.toml") == "first\n");
  CHECK_NOTHROW(RunFolder::open(path));
  writer.reset();
  CHECK_NOTHROW(RunFolder::open_to_write(path));

  // A child that is killed while it has the lock.
  const int status = in_child([&] {
    const RunFolder run = RunFolder::open_to_write(path);
    fs::create_directories(run.checkpoints() / "step_00000002.partial");
    ::raise(SIGKILL);
    return 0;
  });
  CHECK(status == -1);
  const RunFolder again = RunFolder::open_to_write(path);
  CHECK_FALSE(fs::exists(again.checkpoints() / "step_00000002.partial"));
}

TEST_CASE("run folder: checkpoints after a step are set aside under another name and listed no more") {
  const TemporaryFolder folder;
  const RunFolder run = RunFolder::create(folder.path / "a", "", false);
  for (const std::int64_t step : {1, 2, 3}) save(run, step, "x");
  CHECK(run.set_aside_after(1, 2) == 2);
  CHECK(run.checkpoint_steps() == std::vector<std::int64_t>{1});
  CHECK(read_text(run.checkpoints() / "step_00000003.before_attempt_2" / "config.json") == "x");
  CHECK(run.set_aside_after(1, 3) == 0);
}

TEST_CASE("run folder: checkpoints are listed by step, and only finished ones") {
  const TemporaryFolder folder;
  const RunFolder run = RunFolder::create(folder.path / "a", "", false);
  CHECK(run.checkpoint(512).filename() == "step_00000512");
  for (const std::int64_t step : {1000, 0, 512, 123456789}) save(run, step, "x");
  fs::create_directories(run.checkpoints() / "step_00000007.partial" / "inner");
  fs::create_directories(run.checkpoints() / "step_8");
  std::ofstream(run.checkpoints() / "step_00000009") << "a file";
  CHECK(run.checkpoint_steps() == std::vector<std::int64_t>{0, 512, 1000, 123456789});
  run.remove_partial_checkpoints();
  CHECK_FALSE(fs::exists(run.checkpoints() / "step_00000007.partial"));
  CHECK(run.checkpoint_steps().size() == 4);
}

TEST_CASE("checkpoint: without commit nothing stays, and saving a step again replaces it whole") {
  const TemporaryFolder folder;
  const RunFolder run = RunFolder::create(folder.path / "a", "", false);
  save(run, 3, "first");
  {
    CheckpointWriter abandoned(run, 3);
    std::ofstream(abandoned.path() / "config.json") << "second";
  }
  CHECK(read_text(run.checkpoint(3) / "config.json") == "first");
  save(run, 3, "third");
  CHECK(read_text(run.checkpoint(3) / "config.json") == "third");
  CHECK(read_text(run.checkpoint(3) / "tokenizer" / "words") == "third");
  CHECK(std::distance(fs::directory_iterator(run.checkpoints()), {}) == 1);
}

TEST_CASE("checkpoint: a writer killed before commit leaves the earlier ones, and its leftover is removed") {
  const TemporaryFolder folder;
  const RunFolder run = RunFolder::create(folder.path / "a", "", false);
  save(run, 1, "first");
  const int status = in_child([&] {
    CheckpointWriter writer(run, 2);
    std::ofstream(writer.path() / "config.json") << "half";
    ::_exit(7);
    return 0;
  });
  CHECK(status == 7);
  CHECK(fs::exists(run.checkpoints() / "step_00000002.partial"));
  CHECK(run.checkpoint_steps() == std::vector<std::int64_t>{1});
  run.remove_partial_checkpoints();
  CHECK(std::distance(fs::directory_iterator(run.checkpoints()), {}) == 1);
  CHECK(read_text(run.checkpoint(1) / "config.json") == "first");
}

TEST_CASE("checkpoint: a full disk is blamed on the machine and leaves the earlier checkpoint whole") {
  const TemporaryFolder folder;
  const RunFolder run = RunFolder::create(folder.path / "a", "", false);
  const std::vector<float> x(100000, 2.0f);
  const auto save_tensor = [&](std::int64_t step) {
    CheckpointWriter writer(run, step);
    write_safetensors(writer.path() / "model.safetensors", {{"x", View(x.data(), DType::kF32, {100000})}});
    writer.commit();
  };
  save_tensor(1);
  const int status = in_child([&] {
    // A limit on file size fails a write as a full disk does.
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{4096, 4096};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    return failure([&] { save_tensor(2); }).first;
  });
  CHECK(status == 1);
  CHECK(run.checkpoint_steps() == std::vector<std::int64_t>{1});
  CHECK_FALSE(fs::exists(run.checkpoints() / "step_00000002.partial"));
  CHECK(SafetensorsFile(run.checkpoint(1) / "model.safetensors").at("x").data<float>()[99999] == 2.0f);
}

TEST_CASE("checkpoint: a folder that cannot be made is named with the reason") {
  const TemporaryFolder folder;
  const RunFolder run = RunFolder::create(folder.path / "a", "", false);
  fs::remove_all(run.checkpoints());
  std::ofstream(run.checkpoints()) << "a file where the folder must be";
  const auto [code, message] = failure([&] { CheckpointWriter(run, 2); });
  CHECK(code == 1);
  CHECK(message.find("step_00000002.partial: cannot make this checkpoint's folder: Not a directory") !=
        std::string::npos);
}
