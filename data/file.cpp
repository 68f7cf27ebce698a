#include "data/file.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

#include "kernels/error.h"

namespace nascent {
namespace {

constexpr std::size_t kBufferBytes = std::size_t{1} << 20;

// Call it before anything else can change errno.
Error system_error(const std::string& path, const char* action) {
  const int code = errno;
  switch (code) {
    case ENOENT:
    case ENOTDIR:
    case EISDIR:
    case EACCES:
    case EPERM:
    case EROFS:
    case ELOOP:
    case ENAMETOOLONG:
      return input_error("{}: cannot {}: {}", path, action, std::strerror(code));
    default:
      return machine_error("{}: cannot {}: {}", path, action, std::strerror(code));
  }
}

struct Descriptor {
  explicit Descriptor(int opened) : value(opened) {}
  ~Descriptor() {
    if (value >= 0) ::close(value);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  int value;
};

}  // namespace

void MappedFile::Unmap::operator()(const std::byte* memory) const { ::munmap(const_cast<std::byte*>(memory), size); }

MappedFile::MappedFile(const std::string& path) : path_(path) {
  // Not blocking: opening a named pipe must end in an error, not in a wait for its writer.
  const Descriptor descriptor{::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC)};
  if (descriptor.value < 0) throw system_error(path, "open the file");
  struct stat status{};
  if (::fstat(descriptor.value, &status) != 0) throw system_error(path, "read the file's size");
  if (S_ISDIR(status.st_mode)) throw input_error("{}: is a directory, expected a file", path);
  if (!S_ISREG(status.st_mode)) throw input_error("{}: is not a regular file", path);
  const auto size = static_cast<std::size_t>(status.st_size);
  if (size == 0) return;  // mmap refuses an empty range
  void* memory = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, descriptor.value, 0);
  if (memory == MAP_FAILED) throw system_error(path, "map the file");
  memory_ = {static_cast<const std::byte*>(memory), Unmap{size}};
}

std::string read_file(const std::string& path) { return std::string(MappedFile(path).text()); }

AtomicFile::AtomicFile(std::string path) : path_(std::move(path)), partial_(path_ + ".partial") {
  // Renaming would put a file in the place of a device such as /dev/null.
  struct stat status{};
  if (::stat(path_.c_str(), &status) == 0 && !S_ISREG(status.st_mode))
    throw input_error("{}: is a directory or a device, expected a file or nothing there", path_);
  descriptor_ = ::open(partial_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (descriptor_ < 0) throw system_error(partial_, "create the file");
}

AtomicFile::~AtomicFile() {
  if (descriptor_ < 0) return;
  ::close(descriptor_);
  ::unlink(partial_.c_str());
}

void AtomicFile::append(std::span<const std::byte> bytes) {
  if (buffer_.size() + bytes.size() < kBufferBytes) {
    buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
    return;
  }
  flush();
  write(bytes);  // not through the buffer: a copy of the largest tensor may not fit into memory
}

void AtomicFile::flush() {
  write(buffer_);
  buffer_.clear();
}

void AtomicFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) throw system_error(partial_, "write the file");
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
}

void AtomicFile::sync() {
  flush();
  if (::fsync(descriptor_) != 0) throw system_error(partial_, "make the file durable");
}

void AtomicFile::commit() {
  sync();
  if (::rename(partial_.c_str(), path_.c_str()) != 0) throw system_error(path_, "rename the finished file");
  ::close(std::exchange(descriptor_, -1));
  // The rename is durable only once the folder that holds the name is.
  sync_to_disk(std::filesystem::absolute(path_).parent_path());
}

void write_file(const std::string& path, std::string_view content) {
  AtomicFile file(path);
  file.append(content);
  file.commit();
}

void sync_to_disk(const std::string& path) {
  const Descriptor descriptor{::open(path.c_str(), O_RDONLY | O_CLOEXEC)};
  if (descriptor.value < 0) throw system_error(path, "open it");
  if (::fsync(descriptor.value) != 0) throw system_error(path, "make it durable");
}

}  // namespace nascent
