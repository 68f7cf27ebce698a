// One writer at a time in a folder.
#pragma once

#include <filesystem>

namespace nascent {

class FolderLock {
 public:
  static constexpr const char* kFile = "lock";  // its name in the folder; it stays there and means nothing by itself

  // Locks a folder that exists, for as long as this lives; the system gives it back when the process ends, however
  // that happens. Throws (input) when another process (or another lock of this one) has it, naming it; and when the
  // file cannot be written.
  explicit FolderLock(const std::filesystem::path& folder);
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  int descriptor_ = -1;
};

}  // namespace nascent
