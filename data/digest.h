// Checksums of files: they find what a disk or a copy has changed, not what an adversary has.
#pragma once

#include <string>
#include <string_view>

namespace nascent {

// XXH3's 128 bits as 32 hexadecimal digits.
std::string digest(std::string_view bytes);
std::string file_digest(const std::string& path);  // of the content; throws as MappedFile does

}  // namespace nascent
