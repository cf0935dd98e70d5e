// SPDX-License-Identifier: Apache-2.0
// safetensors: named tensors in one file, the format in which weights are exchanged with Python.
//
// Layout: u64 little-endian n; n bytes of JSON, {"name": {"dtype": "F32", "shape": [2, 3],
// "data_offsets": [begin, end]}, ..., "__metadata__": {"key": "text", ...}}; then the bytes of the
// tensors, little-endian, C order, one behind the other without holes, offsets counted from the end
// of the JSON.  There is nothing in it that a load could execute.
// Source: the format's specification, huggingface.co/docs/safetensors.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/tensor.hpp"

namespace bora::data {

/// A tensor of a file, by name.
struct NamedTensor {
  std::string name;
  Tensor tensor;
};

/// Texts beside the tensors (`__metadata__`), by key.
using TextMap = std::map<std::string, std::string>;

/// Writes the tensors (dense, any device, of any DType) and texts to `path`, as a whole or not at
/// all (see AtomicFile).  Tensors lie in the order given, those of wide elements first, so that
/// each begins at a multiple of its element's size.  Throws Error naming the file for an undefined
/// tensor, a name given twice, an empty name or "__metadata__", text that is not UTF-8, and for
/// what the disk refuses.
void write_safetensors(const std::string& path, const std::vector<NamedTensor>& tensors,
                       const TextMap& metadata = {});

/// Reads a file.  The constructor reads the header and checks all of it, against the file's size
/// too; the bytes of tensors are read when asked for.
class SafetensorsReader {
 public:
  /// Largest header, bytes: that of the format's own implementation.
  static constexpr int64_t kMaxHeader = 100'000'000;

  struct Entry {
    DType dtype = DType::f32;
    Shape shape;
    int64_t begin = 0;  ///< of its bytes, from the end of the header
    int64_t end = 0;
  };

  /// Throws Error naming the file, the tensor and key, what was found and what was wanted: a header
  /// longer than the file or than kMaxHeader, JSON that does not parse or has a key twice, an
  /// unknown dtype, offsets that do not fit shape and dtype, overlap, leave holes, or go beyond the
  /// file.
  explicit SafetensorsReader(const std::string& path);

  const std::string& path() const { return path_; }
  const TextMap& metadata() const { return metadata_; }
  /// All tensors of the file by name, sorted.
  const std::map<std::string, Entry>& entries() const { return entries_; }
  /// A tensor on the CPU.  Throws Error if there is none of this name, or the file was cut since it
  /// was opened.
  Tensor read(const std::string& name) const;

 private:
  std::string path_;
  int64_t data_begin_ = 0;
  TextMap metadata_;
  std::map<std::string, Entry> entries_;
};

}  // namespace bora::data
