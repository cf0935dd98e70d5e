// SPDX-License-Identifier: Apache-2.0
// Any bytes as a safetensors file: an Error that names the file, or tensors; nothing else.
#include <cstddef>
#include <cstdint>

#include "data/safetensors.hpp"
#include "tests/fuzz/named_error.hpp"
#include "tests/fuzz/scratch_file.hpp"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static bora::fuzz::ScratchFile file(".safetensors");
  const std::string& path = file.with(data, size);
  bora::fuzz::try_to(path, [&] {
    const bora::data::SafetensorsReader reader(path);
    for (const auto& [name, entry] : reader.entries()) reader.read(name);
  });
  return 0;
}
