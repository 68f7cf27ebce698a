#include "train/run_folder.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <optional>
#include <string_view>
#include <utility>

#include "data/file.h"
#include "kernels/error.h"

namespace nascent {
namespace fs = std::filesystem;
namespace {

constexpr std::string_view kStep = "step_";
constexpr std::string_view kPartial = ".partial";

// The step of a finished checkpoint's name; nothing for any other name.
std::optional<std::int64_t> step_of(const std::string& name) {
  std::int64_t step = 0;
  if (!name.starts_with(kStep)) return std::nullopt;
  std::from_chars(name.data() + kStep.size(), name.data() + name.size(), step);
  return name == RunFolder::checkpoint_name(step) ? std::optional(step) : std::nullopt;
}

void make_folders(const fs::path& path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (error) throw input_error("{}: cannot make this folder: {}", path.string(), error.message());
}

bool is_free(const fs::path& path) {
  if (!fs::exists(path)) return true;
  return fs::is_directory(path) && std::ranges::all_of(fs::directory_iterator(path), [](const fs::directory_entry& e) {
           return e.path().filename() == FolderLock::kFile;
         });
}

// All but the lock, which stays in force meanwhile.
void remove_contents(const fs::path& path) {
  for (const fs::directory_entry& entry : fs::directory_iterator(path)) {
    std::error_code error;
    if (entry.path().filename() != FolderLock::kFile) fs::remove_all(entry.path(), error);
    if (error) throw input_error("{}: cannot remove the earlier run: {}", path.string(), error.message());
  }
}

bool is_run_folder(const RunFolder& run) { return fs::exists(run.config()) && fs::is_directory(run.checkpoints()); }

// Other programs' folders have config.toml and checkpoints too. Ours may lack metrics.db where it was killed at its
// start; then it has no checkpoint yet.
bool may_be_removed(const RunFolder& run) {
  return is_run_folder(run) && (fs::exists(run.metrics()) || fs::is_empty(run.checkpoints()));
}

}  // namespace

void RunFolder::require_free(const fs::path& path, bool overwrite) {
  if (is_free(path)) return;
  if (!may_be_removed(RunFolder(path))) {
    throw input_error("{}: exists and is not a run; choose another name for the run", path.string());
  }
  if (!overwrite) {
    throw input_error("{}: this run exists; choose another name for the run, or --overwrite to remove the earlier one",
                      path.string());
  }
}

RunFolder RunFolder::create(const fs::path& path, const std::string& config, bool overwrite) {
  require_free(path, overwrite);
  RunFolder run(path);
  if (!is_free(path)) {
    run.lock_ = std::make_shared<FolderLock>(path);
    remove_contents(path);
  }
  make_folders(run.checkpoints());
  if (!run.lock_) run.lock_ = std::make_shared<FolderLock>(path);
  write_file(run.config(), config);
  return run;
}

RunFolder RunFolder::open(const fs::path& path) {
  RunFolder run(path);
  if (!is_run_folder(run)) {
    throw input_error("{}: not a run's folder: expected config.toml and checkpoints in it", path.string());
  }
  return run;
}

RunFolder RunFolder::open_to_write(const fs::path& path) {
  RunFolder run = open(path);
  run.lock_ = std::make_shared<FolderLock>(path);
  run.remove_partial_checkpoints();
  return run;
}

std::string RunFolder::checkpoint_name(std::int64_t step) { return fmt::format("{}{:08}", kStep, step); }

fs::path RunFolder::checkpoint(std::int64_t step) const { return checkpoints() / checkpoint_name(step); }

std::vector<std::int64_t> RunFolder::checkpoint_steps() const {
  std::vector<std::int64_t> steps;
  std::error_code none;  // no folder, no checkpoints
  for (const fs::directory_entry& entry : fs::directory_iterator(checkpoints(), none)) {
    if (const auto step = step_of(entry.path().filename()); step && entry.is_directory()) {
      steps.push_back(*step);
    }
  }
  std::sort(steps.begin(), steps.end());
  return steps;
}

std::int64_t RunFolder::set_aside_after(std::int64_t step, std::int64_t attempt) const {
  std::int64_t count = 0;
  for (const std::int64_t later : checkpoint_steps()) {
    if (later <= step) continue;
    const fs::path from = checkpoint(later), to = fmt::format("{}.before_attempt_{}", from.string(), attempt);
    std::error_code error;
    fs::rename(from, to, error);
    if (error) throw machine_error("{}: cannot rename to {}: {}", from.string(), to.string(), error.message());
    ++count;
  }
  return count;
}

void RunFolder::remove_partial_checkpoints() const {
  std::error_code none;
  for (const fs::directory_entry& entry : fs::directory_iterator(checkpoints(), none)) {
    if (entry.path().extension() != kPartial) continue;
    std::error_code error;
    fs::remove_all(entry.path(), error);
    if (error) throw machine_error("{}: cannot remove: {}", entry.path().string(), error.message());
  }
}

CheckpointWriter::CheckpointWriter(const RunFolder& run, std::int64_t step) : final_(run.checkpoint(step)) {
  partial_ = final_.string() + std::string(kPartial);
  std::error_code error;
  fs::remove_all(partial_, error);
  if (!error) fs::create_directories(partial_, error);
  if (error) {
    throw machine_error("{}: cannot make this checkpoint's folder: {}", partial_.string(), error.message());
  }
}

CheckpointWriter::~CheckpointWriter() {
  std::error_code ignored;  // a leftover is removed when the run starts again
  fs::remove_all(partial_, ignored);
}

void CheckpointWriter::commit() {
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(partial_)) {
    sync_to_disk(entry.path());
  }
  sync_to_disk(partial_);
  // An earlier checkpoint of this step changes places with the new one, so that at any moment one of them has
  // the name; the destructor then removes it.
  const unsigned flags = fs::exists(final_) ? RENAME_EXCHANGE : 0;
  if (::renameat2(AT_FDCWD, partial_.c_str(), AT_FDCWD, final_.c_str(), flags) != 0) {
    throw machine_error("{}: cannot rename into place: {}", final_.string(), std::strerror(errno));
  }
  sync_to_disk(final_.parent_path());
}

}  // namespace nascent
