#include "train/needs.h"

#include <algorithm>
#include <fmt/format.h>
#include <fstream>
#include <limits>
#include <numeric>
#include <optional>

#include "kernels/error.h"

namespace nascent {
namespace fs = std::filesystem;
namespace {

// The number in a file of one, such as memory.max; nothing where there is no file or it says "max".
std::optional<double> number_in(const fs::path& file) {
  std::ifstream stream(file);
  double number = 0;
  return stream >> number ? std::optional(number) : std::nullopt;
}

// The number behind a word at the start of a line, such as "MemAvailable:".
std::optional<double> number_after(const fs::path& file, const std::string& word) {
  std::ifstream stream(file);
  for (std::string line; std::getline(stream, line);) {
    if (line.starts_with(word + " ")) return std::stod(line.substr(word.size()));
  }
  return std::nullopt;
}

struct CgroupFiles {
  const char *limit, *used, *cache;
};
constexpr CgroupFiles kVersion2{"memory.max", "memory.current", "inactive_file"};
constexpr CgroupFiles kVersion1{"memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"};

// What the limits of a cgroup and of those around it, up to `top`, leave.
void narrow(Room& room, const fs::path& top, const fs::path& below, const CgroupFiles& files) {
  fs::path folder = top;
  const auto look = [&] {
    const auto limit = number_in(folder / files.limit), used = number_in(folder / files.used);
    if (!limit || !used) return;
    const double cache = number_after(folder / "memory.stat", files.cache).value_or(0);
    const double left = std::max(*limit - *used + cache, 0.0);
    if (left < room.bytes) room = {left, "limit of the cgroup"};
  };
  look();
  for (const fs::path& part : below.relative_path()) {
    folder /= part;
    look();
  }
}

double bytes_of(const Needs& needs) {
  return std::accumulate(needs.begin(), needs.end(), 0.0, [](double sum, const Need& n) { return sum + n.bytes; });
}

double megabytes(double bytes) { return bytes * 1e-6; }

}  // namespace

Room memory_room(const fs::path& root) {
  const auto kilobytes = number_after(root / "proc/meminfo", "MemAvailable:");
  Room room{std::numeric_limits<double>::infinity(), "not known"};
  if (kilobytes) room = {*kilobytes * 1024, "MemAvailable"};
  // Lines are NUMBER:CONTROLLERS:PATH, of version 2 "0::PATH".
  std::ifstream stream(root / "proc/self/cgroup");
  for (std::string line; std::getline(stream, line);) {
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1), path = line.substr(second + 1);
    if (controllers.empty()) narrow(room, root / "sys/fs/cgroup", path, kVersion2);
    if (("," + controllers + ",").find(",memory,") != std::string::npos)
      narrow(room, root / "sys/fs/cgroup/memory", path, kVersion1);
  }
  return room;
}

Room disk_room(const fs::path& path) {
  fs::path there = fs::absolute(path);
  double old = 0;
  std::error_code none;  // what cannot be looked at counts as nothing
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(there, none)) {
    if (entry.is_regular_file(none)) old += static_cast<double>(entry.file_size(none));
  }
  while (!fs::exists(there, none) && there.has_parent_path() && there != there.parent_path())
    there = there.parent_path();
  const fs::space_info space = fs::space(there, none);
  if (none) return {std::numeric_limits<double>::infinity(), "not known"};
  return {static_cast<double>(space.available) + old, "free where " + path.string() + " will be"};
}

std::string text(const std::string& kind, const Needs& needs, const Room& room) {
  std::vector<std::string> parts;
  for (const Need& need : needs) {
    if (need.bytes > 0) parts.push_back(fmt::format("{:.1f} MB {}", megabytes(need.bytes), need.what));
  }
  return fmt::format("{}: {}: {:.1f} MB of {:.1f} MB ({})", kind, fmt::join(parts, ", "), megabytes(bytes_of(needs)),
                     megabytes(room.bytes), room.source);
}

void require_room(const std::string& kind, const Needs& needs, const Room& room) {
  if (bytes_of(needs) <= room.bytes) return;
  throw input_error("{}: this run needs {:.1f} MB, expected at most {:.1f} MB ({})", kind, megabytes(bytes_of(needs)),
                    megabytes(room.bytes), room.source);
}

}  // namespace nascent
