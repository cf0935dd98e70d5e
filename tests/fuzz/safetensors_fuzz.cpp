// SPDX-License-Identifier: Apache-2.0
// Any bytes as a safetensors file: an Error that names the file, or tensors; nothing else.
#include <cstddef>
#include <cstdint>

#include "core/error.hpp"
#include "data/safetensors.hpp"
#include "tests/fuzz/scratch_file.hpp"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static bora::fuzz::ScratchFile file(".safetensors");
  try {
    const bora::data::SafetensorsReader reader(file.with(data, size));
    for (const auto& [name, entry] : reader.entries()) reader.read(name);
  } catch (const bora::Error&) {
  }
  return 0;
}
