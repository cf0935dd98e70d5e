// SPDX-License-Identifier: Apache-2.0
// NIfTI inside gzip.  The first byte of the input says what the rest is: even, the bytes of a file
// as they are; odd, what is packed, with a right checksum, so that mutations get behind it.
#include <zlib.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <vector>

#include "data/volume_file.hpp"
#include "tests/fuzz/scratch_file.hpp"
#include "tests/fuzz/volume_reads.hpp"

namespace {

std::vector<uint8_t> packed(const uint8_t* data, size_t size) {
  z_stream stream{};
  if (::deflateInit2(&stream, 1, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK) std::abort();
  std::vector<uint8_t> out(::deflateBound(&stream, size));
  stream.next_in = const_cast<uint8_t*>(data);
  stream.avail_in = static_cast<uInt>(size);
  stream.next_out = out.data();
  stream.avail_out = static_cast<uInt>(out.size());
  if (::deflate(&stream, Z_FINISH) != Z_STREAM_END) std::abort();
  out.resize(stream.total_out);
  ::deflateEnd(&stream);
  return out;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static bora::fuzz::ScratchFile file(".nii.gz");
  if (size == 0) return 0;
  std::vector<uint8_t> bytes(data + 1, data + size);
  if ((data[0] & 1) != 0) bytes = packed(data + 1, size - 1);
  const std::string& path = file.with(bytes.data(), bytes.size());
  bora::fuzz::try_to(path, [&] {
    bora::fuzz::read_every_way(*bora::data::open_volume({path, {}, {}}), path);
  });
  return 0;
}
