// Files, mapped for reading and written so that no reader ever sees half a file. Every error names the file
// and the system's reason. What a user can repair (no such file, no permission) is an input error, what only
// the machine can (disk full, input/output error) a machine error.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace nascent {

// A regular file mapped read-only: pages are read when touched, so a file larger than memory is fine.
class MappedFile {
 public:
  // Throws an input error when the path is missing, unreadable or not a regular file.
  explicit MappedFile(const std::string& path);

  const std::string& path() const { return path_; }
  std::size_t size() const { return memory_.get_deleter().size; }
  std::span<const std::byte> bytes() const { return {memory_.get(), size()}; }
  std::string_view text() const { return {reinterpret_cast<const char*>(memory_.get()), size()}; }

 private:
  struct Unmap {
    std::size_t size;  // 0 by unique_ptr's default
    void operator()(const std::byte* memory) const;
  };

  std::string path_;
  std::unique_ptr<const std::byte, Unmap> memory_;  // null for an empty file
};

// The whole file; throws as MappedFile does.
std::string read_file(const std::string& path);

// A file written aside as PATH.partial. commit() makes it durable under its own name in one step; without
// commit() the partial file is removed and whatever stood under PATH stays as it was.
class AtomicFile {
 public:
  // Throws when PATH.partial cannot be created, or when PATH is there and no regular file.
  explicit AtomicFile(std::string path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  const std::string& path() const { return path_; }

  // Throws when the disk is full; then the file can only be dropped.
  void append(std::span<const std::byte> bytes);
  void append(std::string_view text) { append(std::as_bytes(std::span(text))); }

  // Brings to the disk what was appended, still aside: after it only the renaming can fail.
  void sync();

  // sync, rename, fsync of the folder: after it returns the file survives a power cut.
  void commit();

 private:
  void flush();
  void write(std::span<const std::byte> bytes);

  std::string path_;
  std::string partial_;
  std::vector<std::byte> buffer_;  // what append() gathered and the system has not seen yet
  int descriptor_ = -1;
};

// Replaces `path` by `content`, wholly or not at all.
void write_file(const std::string& path, std::string_view content);

// Waits until a file's content, or a folder's list of names, would survive a power cut.
void sync_to_disk(const std::string& path);

}  // namespace nascent
