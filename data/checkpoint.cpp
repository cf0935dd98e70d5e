// SPDX-License-Identifier: Apache-2.0
#include "data/checkpoint.hpp"

#include <fcntl.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <cstring>

#include "data/checkpoint_format.hpp"

namespace bora::data {
namespace {

constexpr std::string_view kMagic = "Bora checkpoint\n";
constexpr const char* kHeaderFormat =
    "Bora checkpoint\nformat %" PRId64 "\nbytes %" PRId64 "\nchecksum %016" PRIx64 "\n";

struct InputFile {
  explicit InputFile(const std::string& path) : fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
    BORA_CHECK(fd >= 0, std::strerror(errno));
  }
  ~InputFile() { ::close(fd); }
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;
  /// Up to `bytes` bytes; fewer only at the end of the file.
  std::string read(int64_t bytes) const {
    std::string out(static_cast<size_t>(bytes), '\0');
    size_t n = 0;
    while (n < out.size()) {
      const ssize_t got = ::read(fd, out.data() + n, out.size() - n);
      if (got < 0 && errno == EINTR) continue;
      BORA_CHECK(got >= 0, errno == EISDIR ? "a directory; wanted a file in it, best.h5 or last.h5"
                                           : std::strerror(errno));
      if (got == 0) break;
      n += static_cast<size_t>(got);
    }
    out.resize(n);
    return out;
  }
  const int fd;
};

void verify(const std::string& path) {
  const InputFile file(path);
  const std::string header = file.read(detail::kHeaderBytes);
  BORA_CHECK(!header.empty(), "the file is empty");
  if (header.substr(0, kMagic.size()) != kMagic) {
    BORA_CHECK(header.substr(0, 4) != "\x89HDF", "an HDF5 file, but not a Bora checkpoint");
    BORA_CHECK(kMagic.substr(0, header.size()) != header, "truncated: only ", header.size(),
               " bytes are left");
    BORA_FAIL("not a Bora checkpoint: it does not begin with 'Bora checkpoint'");
  }
  BORA_CHECK(header.size() == static_cast<size_t>(detail::kHeaderBytes), "truncated: only ",
             header.size(), " bytes are left");
  int64_t format = 0, bytes = 0;
  uint64_t sum = 0;
  // Scanning stays inside the header: the first zero byte ends it, and std::string adds one.
  const int n_read = std::sscanf(
      header.c_str(), "Bora checkpoint format %" SCNd64 " bytes %" SCNd64 " checksum %" SCNx64,
      &format, &bytes, &sum);
  if (n_read >= 1)
    BORA_CHECK(format <= kCheckpointVersion, "written in format version ", format,
               ", but this program reads up to version ", kCheckpointVersion);
  BORA_CHECK(n_read == 3 && format == kCheckpointVersion &&
                 header == detail::checkpoint_header(bytes, sum),
             "corrupt: its header (the first 512 bytes) is damaged");
  int64_t found = detail::kHeaderBytes;
  uint64_t actual = kChecksumStart;
  constexpr int64_t kPiece = int64_t{4} << 20;
  while (true) {
    // One byte more than the header promises, to see that nothing follows.
    const std::string piece = file.read(std::clamp<int64_t>(bytes - found + 1, 1, kPiece));
    if (piece.empty()) break;
    found += static_cast<int64_t>(piece.size());
    if (found > bytes) break;
    actual = checksum(piece.data(), static_cast<int64_t>(piece.size()), actual);
  }
  BORA_CHECK(found >= bytes, "truncated: ", found, " bytes of ", bytes);
  BORA_CHECK(found == bytes, "corrupt: bytes follow after its end at ", bytes);
  BORA_CHECK(actual == sum, "corrupt: its checksum is ", actual, ", the header says ", sum);
}

}  // namespace

uint64_t checksum(const void* data, int64_t bytes, uint64_t before) {
  BORA_CHECK(bytes >= 0 && (data != nullptr || bytes == 0), "checksum: wants memory, got ", bytes,
             " bytes at a null pointer or a negative count");
  if (bytes == 0) return before;  // zlib takes a null pointer as "give me the start value"
  const auto* at = static_cast<const Bytef*>(data);
  const uint64_t crc = crc32_z(before >> 32, at, static_cast<z_size_t>(bytes));
  const uint64_t adler = adler32_z(before & 0xffffffffu, at, static_cast<z_size_t>(bytes));
  return crc << 32 | adler;
}

uint64_t detail::joined_checksum(uint64_t first, uint64_t second, int64_t second_bytes) {
  const auto n = static_cast<z_off_t>(second_bytes);
  const uint64_t crc = crc32_combine(first >> 32, second >> 32, n);
  const uint64_t adler = adler32_combine(first & 0xffffffffu, second & 0xffffffffu, n);
  return crc << 32 | adler;
}

std::string detail::checkpoint_header(int64_t bytes, uint64_t checksum) {
  std::string header(static_cast<size_t>(kHeaderBytes), '\0');
  std::snprintf(header.data(), header.size(), kHeaderFormat, kCheckpointVersion, bytes, checksum);
  return header;
}

void verify_checkpoint(const std::string& path) {
  with_context("checkpoint '" + path + "'", [&] { verify(path); });
}

void save_checkpoint(const std::string& path, const StateFunction& state,
                     const std::string& keep_as) {
  BORA_CHECK(state, "save_checkpoint: wants a function that visits the state");
  CheckpointWriter writer;
  state(writer);
  writer.commit(path, keep_as);
}

void load_checkpoint(const std::string& path, const StateFunction& state, Unread unread) {
  BORA_CHECK(state, "load_checkpoint: wants a function that visits the state");
  CheckpointReader reader(path);
  state(reader);
  reader.finish(unread);
}

}  // namespace bora::data
