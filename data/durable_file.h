// Files that are there whole or not at all: written aside, brought to the disk, then renamed. A crash, a kill
// or a full disk at any byte leaves the earlier file of that name as it was.
#pragma once

#include <cstddef>
#include <filesystem>

namespace nascent {

class DurableFile {
 public:
  // Opens PATH.partial for writing. Throws (input) when that cannot be made, naming path and reason.
  explicit DurableFile(std::filesystem::path path);
  ~DurableFile();  // removes PATH.partial unless committed
  DurableFile(const DurableFile&) = delete;
  DurableFile& operator=(const DurableFile&) = delete;

  // Appends. Throws (machine) when the disk is full or fails.
  void write(const void* data, std::size_t bytes);

  // Brings the file and its new name to the disk; from here on PATH is the new file. Throws (machine).
  void commit();

 private:
  std::filesystem::path path_;
  std::filesystem::path partial_;
  int file_ = -1;
};

// Waits until a file's content, or a folder's list of names, is on the disk. Throws (machine).
void sync_to_disk(const std::filesystem::path& path);

}  // namespace nascent
