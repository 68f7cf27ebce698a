#include "data/digest.h"

#include <fmt/format.h>
#include <xxhash.h>

#include "data/file.h"

namespace nascent {

std::string digest(std::string_view bytes) {
  const XXH128_hash_t hash = XXH3_128bits(bytes.data(), bytes.size());
  return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
}

std::string file_digest(const std::string& path) { return digest(MappedFile(path).text()); }

}  // namespace nascent
