// A run's folder: config.toml, metrics.db, checkpoints/step_00000512/, arrays/. Checkpoints are there whole
// or not at all.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "train/folder_lock.h"

namespace nascent {

class RunFolder {
 public:
  // Throws as create does where a folder of this path cannot become this run's; makes and removes nothing.
  static void require_free(const std::filesystem::path& path, bool overwrite);
  // Makes the folder, locked for this object and its copies, and its config.toml. Throws (input) when it exists,
  // unless `overwrite`, which removes an earlier run there but never a folder that is not a run, or one that another
  // process writes in; and when the folder cannot be made.
  static RunFolder create(const std::filesystem::path& path, const std::string& config, bool overwrite);
  // An earlier run's folder, to read. Throws (input) when it has no config.toml or no checkpoints folder.
  static RunFolder open(const std::filesystem::path& path);
  // The same to go on writing: locked, and without what a killed save left.
  static RunFolder open_to_write(const std::filesystem::path& path);

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path config() const { return path_ / "config.toml"; }
  std::filesystem::path metrics() const { return path_ / "metrics.db"; }
  std::filesystem::path arrays() const { return path_ / "arrays"; }
  std::filesystem::path checkpoints() const { return path_ / "checkpoints"; }
  std::filesystem::path checkpoint(std::int64_t step) const;  // checkpoints/step_00000512
  static std::string checkpoint_name(std::int64_t step);      // step_00000512

  // Steps of the finished checkpoints, ascending.
  std::vector<std::int64_t> checkpoint_steps() const;

  // Removes what a killed save left. Only for who writes the run: another process may be saving.
  void remove_partial_checkpoints() const;

  // Takes the name from the checkpoints after a step: step_00000512.before_attempt_2. They are kept, but no longer the
  // run's. Returns how many.
  std::int64_t set_aside_after(std::int64_t step, std::int64_t attempt) const;

 private:
  explicit RunFolder(std::filesystem::path path) : path_(std::move(path)) {}

  std::filesystem::path path_;
  std::shared_ptr<const FolderLock> lock_;  // none where it is only read
};

// Writes a checkpoint aside, in checkpoints/step_00000512.partial/. Until commit() returns, the earlier
// checkpoints, also one of the same step, are untouched; without it nothing stays.
class CheckpointWriter {
 public:
  // Throws (machine) when the folder cannot be made.
  CheckpointWriter(const RunFolder& run, std::int64_t step);
  ~CheckpointWriter();
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;

  // Where the caller writes the checkpoint's files.
  const std::filesystem::path& path() const { return partial_; }

  // Brings every file and folder to the disk, then gives the checkpoint its name, in place of an earlier one
  // of the same step. Throws (machine) when the disk is full or fails.
  void commit();

 private:
  std::filesystem::path final_;
  std::filesystem::path partial_;
};

}  // namespace nascent
