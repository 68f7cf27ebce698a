#include "data/durable_file.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <string>
#include <unistd.h>
#include <utility>

#include "kernels/error.h"

namespace nascent {
namespace {

Error failure(const std::filesystem::path& path, const char* what, int reason) {
  return machine_error("{}: cannot {}: {}", path.string(), what, std::strerror(reason));
}

}  // namespace

DurableFile::DurableFile(std::filesystem::path path)
    : path_(std::move(path)), partial_(path_.string() + ".partial") {
  file_ = ::open(partial_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (file_ < 0) throw input_error("{}: cannot create: {}", partial_.string(), std::strerror(errno));
}

DurableFile::~DurableFile() {
  if (file_ < 0) return;
  ::close(file_);
  ::unlink(partial_.c_str());
}

void DurableFile::write(const void* data, std::size_t bytes) {
  const char* next = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t written = ::write(file_, next, bytes);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) throw failure(path_, "write", errno);
    next += written;
    bytes -= static_cast<std::size_t>(written);
  }
}

void DurableFile::commit() {
  if (::fsync(file_) != 0) throw failure(path_, "bring to the disk", errno);
  if (::rename(partial_.c_str(), path_.c_str()) != 0) throw failure(path_, "rename into place", errno);
  ::close(std::exchange(file_, -1));
  // The rename itself is durable only once the folder is.
  sync_to_disk(path_.has_parent_path() ? path_.parent_path() : ".");
}

void sync_to_disk(const std::filesystem::path& path) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) throw failure(path, "open", errno);
  const int reason = ::fsync(file) == 0 ? 0 : errno;
  ::close(file);
  if (reason != 0) throw failure(path, "bring to the disk", reason);
}

}  // namespace nascent
