// SPDX-License-Identifier: Apache-2.0
#include "data/byte_source.hpp"

#include <zlib.h>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "core/crash_note.hpp"
#include "core/error.hpp"
#include "data/hdf5_mark.hpp"
#include "data/read_at.hpp"

namespace bora::data {
namespace {

// The most that deflate makes of a byte (zlib's technical notes: 1032 to 1), and a little for the
// few bytes of an empty stream.
constexpr int64_t kDensest = 1032;
constexpr int64_t kBuffer = int64_t{1} << 16;

class PlainFile final : public ByteSource {
 public:
  explicit PlainFile(const std::string& path) : ByteSource(path) {
    fd_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);  // a FIFO must not block
    BORA_CHECK(fd_ >= 0, "reading '", path, "': ", std::strerror(errno));
    struct stat status {};
    const int code = ::fstat(fd_, &status) == 0 ? 0 : errno;
    const bool is_plain = code == 0 && S_ISREG(status.st_mode);
    if (!is_plain) ::close(std::exchange(fd_, -1));
    BORA_CHECK(code == 0, "reading '", path, "': ", std::strerror(code));
    BORA_CHECK(is_plain, "reading '", path, "': this is ",
               S_ISDIR(status.st_mode) ? "a folder" : "not a plain file");
    bytes_ = status.st_size;
  }
  ~PlainFile() override {
    if (fd_ >= 0) ::close(fd_);
  }
  bool is_gzip() const override { return false; }
  int64_t file_bytes() const override { return bytes_; }
  int64_t most_bytes() const override { return bytes_; }
  int64_t read_some(int64_t offset, void* to, int64_t bytes) override {
    const int64_t done = read_at(fd_, offset, bytes, to);
    BORA_CHECK(done >= 0, "reading '", path(), "': ", std::strerror(static_cast<int>(-done)));
    return done;
  }
  void check_to_end() override {}

 private:
  int fd_ = -1;
  int64_t bytes_ = 0;
};

class GzipFile final : public ByteSource {
 public:
  explicit GzipFile(std::unique_ptr<ByteSource> packed)
      : ByteSource(packed->path()), packed_(std::move(packed)), in_(kBuffer) {
    BORA_CHECK(::inflateInit2(&stream_, 15 + 16) == Z_OK, "reading '", path(),
               "': zlib has no memory");  // +16: gzip
  }
  ~GzipFile() override { ::inflateEnd(&stream_); }
  bool is_gzip() const override { return true; }
  int64_t file_bytes() const override { return packed_->file_bytes(); }
  int64_t most_bytes() const override {
    int64_t most = 0;
    return __builtin_mul_overflow(file_bytes(), kDensest, &most) ? INT64_MAX : most;
  }

  int64_t read_some(int64_t offset, void* to, int64_t bytes) override {
    if (offset < at_) restart();
    while (at_ < offset) {
      if (skipped_.empty()) skipped_.resize(kBuffer);
      if (inflate_some(skipped_.data(), std::min(kBuffer, offset - at_)) == 0) return 0;
    }
    int64_t done = 0;
    while (done < bytes) {
      const int64_t n = inflate_some(static_cast<unsigned char*>(to) + done, bytes - done);
      if (n == 0) break;
      done += n;
    }
    return done;
  }

  void check_to_end() override {
    if (is_whole_) return;
    if (skipped_.empty()) skipped_.resize(kBuffer);
    while (inflate_some(skipped_.data(), kBuffer) > 0) {
    }
    is_whole_ = true;
  }

 private:
  void restart() {
    ::inflateReset(&stream_);
    stream_.avail_in = 0;
    at_ = packed_at_ = 0;
    in_member_ = true, at_end_ = false;
  }

  /// More packed bytes if there are none; false at the end of the file.
  bool refill() {
    if (stream_.avail_in > 0) return true;
    const int64_t n = packed_->read_some(packed_at_, in_.data(), kBuffer);
    packed_at_ += n;
    stream_.next_in = in_.data();
    stream_.avail_in = static_cast<uInt>(n);
    return n > 0;
  }

  /// Behind a member: another one, zeros up to the end, or a fault.
  void begin_next_member() {
    while (refill() && *stream_.next_in == 0) ++stream_.next_in, --stream_.avail_in;
    at_end_ = !refill();
    if (at_end_) return;
    BORA_CHECK(*stream_.next_in == 0x1f, "reading '", path(),
               "': bytes that are not gzip's follow the end of the stream, at byte ",
               packed_at_ - stream_.avail_in, " of ", file_bytes());
    ::inflateReset(&stream_);
    in_member_ = true;
  }

  /// Up to `bytes` more, at least one unless the end is reached.
  int64_t inflate_some(unsigned char* to, int64_t bytes) {
    if (!in_member_ && !at_end_) begin_next_member();
    stream_.next_out = to;
    const int64_t wanted = std::min(bytes, int64_t{1} << 30);
    stream_.avail_out = static_cast<uInt>(wanted);
    while (!at_end_ && stream_.avail_out == static_cast<uInt>(wanted)) {
      BORA_CHECK(refill(), "reading '", path(), "': the gzip stream is cut off after ",
                 file_bytes(), " bytes (", at_, " unpacked)");
      const int code = ::inflate(&stream_, Z_NO_FLUSH);
      BORA_CHECK(code == Z_OK || code == Z_STREAM_END || code == Z_BUF_ERROR, "reading '", path(),
                 "': the gzip stream is damaged (", stream_.msg ? stream_.msg : "zlib",
                 ") at about byte ", packed_at_ - stream_.avail_in, " of ", file_bytes());
      if (code != Z_STREAM_END) continue;
      in_member_ = false;
      if (stream_.avail_out == static_cast<uInt>(wanted)) begin_next_member();
    }
    const int64_t n = wanted - stream_.avail_out;
    at_ += n;
    return n;
  }

  std::unique_ptr<ByteSource> packed_;
  z_stream stream_{};
  std::vector<unsigned char> in_, skipped_;
  int64_t at_ = 0, packed_at_ = 0;
  bool in_member_ = true, at_end_ = false, is_whole_ = false;
};

}  // namespace

void ByteSource::read(int64_t offset, void* to, int64_t bytes) {
  const CrashNote note(path());
  const int64_t n = read_some(offset, to, bytes);
  BORA_CHECK(n == bytes, "reading '", path(), "': it ends after ", offset + n,
             is_gzip() ? " unpacked bytes, " : " bytes, ", offset + bytes, " were wanted");
}

std::unique_ptr<ByteSource> open_bytes(const std::string& path) {
  BORA_CHECK(!path.empty(), "open_bytes: wants a path, got an empty one");
  std::unique_ptr<ByteSource> file = std::make_unique<PlainFile>(path);
  std::array<unsigned char, 2> mark{};
  if (file->read_some(0, mark.data(), 2) == 2 && mark[0] == 0x1f && mark[1] == 0x8b)
    return std::make_unique<GzipFile>(std::move(file));
  return file;
}

bool has_hdf5_mark(ByteSource& file) {
  return !file.is_gzip() &&
         has_hdf5_mark(file.file_bytes(), [&](int64_t at, void* to, int64_t bytes) {
           return file.read_some(at, to, bytes);
         });
}

}  // namespace bora::data
