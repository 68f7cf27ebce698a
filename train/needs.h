// What a run needs of memory and disk, and what this machine has of them: asked before anything is taken.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace nascent {

struct Need {
  std::string what;  // "optimizer"
  double bytes;      // in floating point, which does not overflow
};
using Needs = std::vector<Need>;

struct Room {
  double bytes;
  std::string source;  // "MemAvailable"
};

// Memory that can still be taken: MemAvailable, or what the limit of a cgroup around this process leaves, where that is
// less (of what a cgroup uses, its inactive file cache is given back when asked for). root: another one than / in tests.
Room memory_room(const std::filesystem::path& root = "/");

// Free space of the disk where this path is or would be made, and what a file or folder there now takes, which goes
// before the new one comes.
Room disk_room(const std::filesystem::path& path);

// "memory: 1.2 MB parameters and gradients, 2.4 MB optimizer: 3.6 MB of 22905.1 MB (MemAvailable)"
std::string text(const std::string& kind, const Needs& needs, const Room& room);

// Throws (input), with both numbers, where the needs are more than the room.
void require_room(const std::string& kind, const Needs& needs, const Room& room);

}  // namespace nascent
