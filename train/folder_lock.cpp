#include "train/folder_lock.h"

#include <array>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <string>
#include <sys/file.h>
#include <unistd.h>

#include "data/file.h"
#include "kernels/error.h"

namespace nascent {
namespace {

// "process 1234 on host", for those who look for the other writer.
std::string this_process() {
  std::array<char, 256> host{};
  ::gethostname(host.data(), host.size() - 1);
  return fmt::format("process {} on {}", ::getpid(), host.data());
}

}  // namespace

FolderLock::FolderLock(const std::filesystem::path& folder) {
  const std::string path = folder / kFile;
  descriptor_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (descriptor_ < 0) throw input_error("{}: cannot write here: {}", path, std::strerror(errno));
  if (::flock(descriptor_, LOCK_EX | LOCK_NB) != 0) {
    const int reason = errno;
    ::close(descriptor_);
    if (reason != EWOULDBLOCK) throw machine_error("{}: cannot lock this file: {}", path, std::strerror(reason));
    const std::string owner = read_file(path);
    throw input_error("{}: {} writes in this run's folder; wait until it ends", folder.string(),
                      owner.empty() ? "another process" : owner);
  }
  // Only for the message above: a disk too full for it does not matter here.
  const std::string owner = this_process();
  if (::ftruncate(descriptor_, 0) == 0) {
    [[maybe_unused]] const auto written = ::pwrite(descriptor_, owner.data(), owner.size(), 0);
  }
}

FolderLock::~FolderLock() { ::close(descriptor_); }

}  // namespace nascent
