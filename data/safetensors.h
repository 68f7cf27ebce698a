// Tensors in Hugging Face's safetensors files (https://github.com/huggingface/safetensors, "Format"): 8 bytes
// of header length (little-endian), a JSON header {name: {dtype, shape, data_offsets}}, then the elements,
// row-major and without holes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "data/file.h"
#include "kernels/view.h"

namespace nascent {

struct NamedView {
  std::string name;
  View view;  // on the CPU
};

// Writes the file whole or not at all (see AtomicFile). Metadata "format" is "pt" unless given: transformers
// asks for it. Elements lie sorted by size of element, then by name, so each tensor is aligned for its type
// wherever the file is mapped. Throws (machine) on a full disk, a name given twice or a tensor on a device;
// (input) on a path that cannot be written.
void write_safetensors(const std::string& path, std::vector<NamedView> tensors,
                       std::map<std::string, std::string> metadata = {});

// A file mapped into memory; its views live as long as it does. The header may come from anyone: whatever
// does not hold (lengths, offsets, shapes, types) throws an input error that names the file, the tensor and
// what was expected.
class SafetensorsFile {
 public:
  explicit SafetensorsFile(const std::string& path);

  struct Entry {
    std::string dtype;  // as the file names it: "F32", "BF16", "I64", ...
    Shape shape;
    std::span<const std::byte> bytes;  // in the mapped file, aligned to nothing
  };

  const std::vector<std::string>& names() const { return names_; }  // sorted
  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  bool has(const std::string& name) const { return entries_.contains(name); }

  // Throws (input) when the file holds no such tensor.
  const Entry& entry(const std::string& name) const;

  // An F32, F64 or I32 tensor; throws (input) for another dtype. A tensor that is not aligned for its type in
  // a foreign file is copied, once per call.
  View at(const std::string& name);

  // An F32 or F64 tensor, or a BF16 one as F32, which holds it exactly; throws (input) for another dtype.
  View floats(const std::string& name);

 private:
  MappedFile file_;
  std::vector<std::string> names_;
  std::map<std::string, std::string> metadata_;
  std::map<std::string, Entry> entries_;
  std::vector<std::unique_ptr<std::byte[]>> copies_;
};

}  // namespace nascent
