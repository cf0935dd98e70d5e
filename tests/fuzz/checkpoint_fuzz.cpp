// SPDX-License-Identifier: Apache-2.0
// Any bytes as a checkpoint: as they are, which the checksum of the file refuses, and with a header
// that fits them, which only a writer of broken files makes: then every entry is looked at.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

#include "core/state.hpp"
#include "data/checkpoint.hpp"
#include "data/checkpoint_format.hpp"
#include "tests/fuzz/library_memory.hpp"
#include "tests/fuzz/named_error.hpp"
#include "tests/fuzz/scratch_file.hpp"

namespace {

using bora::data::CheckpointReader;
using bora::fuzz::try_to;

void read(const std::string& path) {
  try_to(path, [&] {
    CheckpointReader reader(path);
    for (const std::string& name : reader.names()) {
      try_to(path, [&] { reader.peek<int64_t>(name); });
      try_to(path, [&] { reader.peek<std::string>(name); });
      try_to(path, [&] { reader.peek<std::vector<double>>(name); });
      try_to(path, [&] { reader.peek<std::vector<std::string>>(name); });
      try_to(path, [&] {
        reader.describe(name);
        bora::Tensor tensor = bora::Tensor::zeros({2, 3, 4}, bora::DType::f32);
        reader.tensor(name, tensor);
      });
    }
  });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static bora::fuzz::ScratchFile scratch(".ckpt");
  bora::fuzz::keep_library_memory();
  read(scratch.with(data, size));
  constexpr size_t kHeader = bora::data::detail::kHeaderBytes;
  if (size <= kHeader) return 0;
  std::string bytes(reinterpret_cast<const char*>(data), size);
  const int64_t rest = static_cast<int64_t>(size - kHeader);
  bytes.replace(0, kHeader,
                bora::data::detail::checkpoint_header(static_cast<int64_t>(size),
                                                      bora::data::checksum(data + kHeader, rest)));
  read(scratch.with(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()));
  return 0;
}
