// SPDX-License-Identifier: Apache-2.0
#include <zlib.h>

#include <algorithm>
#include <cctype>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "data/atomic_file.hpp"
#include "data/nifti.hpp"
#include "data/nifti_header.hpp"

namespace bora::data {
namespace {

constexpr int64_t kPiece = int64_t{1} << 20;
constexpr int kLabel = 1002;  // NIFTI_INTENT_LABEL
// As nibabel: higher levels take many times as long for a few per cent.
constexpr int kLevel = 1;

bool ends_with(const std::string& path, std::string_view end) {
  return path.size() >= end.size() &&
         std::equal(end.rbegin(), end.rend(), path.rbegin(), [](char a, char b) {
           return a == std::tolower(static_cast<unsigned char>(b));
         });
}

/// Puts numbers into the bytes of a header in its order.
struct Patch {
  std::vector<std::byte>& bytes;
  bool is_swapped;
  template <class T>
  void put(int64_t offset, T value) {
    std::array<std::byte, sizeof(T)> b{};
    std::memcpy(b.data(), &value, sizeof value);
    if (is_swapped) std::reverse(b.begin(), b.end());
    std::copy(b.begin(), b.end(), bytes.begin() + offset);
  }
  void clear(int64_t offset, int64_t count) {
    std::fill_n(bytes.begin() + offset, count, std::byte{0});
  }
};

template <class Int>
void put_dims(Patch& out, int64_t offset, const NiftiHeader& like, int64_t channels) {
  // Axes that the other has beyond three go; fewer than three stay, and with them the affine.
  const int n = channels > 1 ? 4 : std::min(like.n_dims, 3);
  out.put(offset, static_cast<Int>(n));
  for (int64_t i = 1; i <= 7; ++i) {
    const int64_t d = i <= 3 ? like.dim[static_cast<size_t>(i - 1)] : i == 4 ? channels : 1;
    out.put(offset + i * int64_t{sizeof(Int)}, static_cast<Int>(d));
  }
}

/// The header of the new file with the four bytes that say that no extensions follow.
std::vector<std::byte> header_like(const NiftiHeader& like, DType type, int64_t channels) {
  std::vector<std::byte> bytes = like.bytes;
  const int64_t size = like.size();
  bytes.resize(static_cast<size_t>(size + 4), std::byte{0});
  Patch out{bytes, like.is_swapped};
  const auto code = static_cast<int16_t>(nifti_datatype(type));
  const auto bits = static_cast<int16_t>(size_of(type) * 8);
  const int intent = is_float(type) ? 0 : kLabel;
  if (like.version == 1) {
    put_dims<int16_t>(out, 40, like, channels);
    out.clear(56, 12);  // intent_p1 to p3
    out.put(68, static_cast<int16_t>(intent));
    out.put(70, code), out.put(72, bits);
    out.put(108, static_cast<float>(size + 4));
    out.put(112, 1.0F), out.put(116, 0.0F);
    out.clear(124, 8);   // cal_max, cal_min
    out.clear(140, 8);   // glmax, glmin
    out.clear(328, 16);  // intent_name
    std::memcpy(bytes.data() + 344, "n+1", 4);
  } else {
    out.put(12, code), out.put(14, bits);
    put_dims<int64_t>(out, 16, like, channels);
    out.clear(80, 24);
    out.put(168, size + 4);
    out.put(176, 1.0), out.put(184, 0.0);
    out.clear(192, 16);
    out.put(504, int32_t{intent});
    out.clear(508, 16);
    std::memcpy(bytes.data() + 4, "n+2", 4);
  }
  return bytes;
}

/// Bytes to a file, packed or not.
class Packer {
 public:
  Packer(AtomicFile& file, const std::string& path, bool is_gzip)
      : file_(file), path_(path), is_gzip_(is_gzip) {
    if (!is_gzip_) return;
    // No name and no time stand in zlib's default gzip header.
    BORA_CHECK(::deflateInit2(&stream_, kLevel, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) == Z_OK,
               "writing '", path_, "': zlib has no memory");
    out_.resize(static_cast<size_t>(kPiece));
  }
  ~Packer() {
    if (is_gzip_) ::deflateEnd(&stream_);
  }
  Packer(const Packer&) = delete;
  Packer& operator=(const Packer&) = delete;

  void write(const std::byte* from, int64_t bytes) {
    if (!is_gzip_) return file_.write(from, bytes);
    while (bytes > 0) {
      const int64_t n = std::min(bytes, kPiece);
      stream_.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(from));
      stream_.avail_in = static_cast<uInt>(n);
      while (stream_.avail_in > 0) deflate_some(Z_NO_FLUSH);
      from += n, bytes -= n;
    }
  }
  void finish() {
    while (is_gzip_ && deflate_some(Z_FINISH) != Z_STREAM_END) {
    }
  }

 private:
  int deflate_some(int flush) {
    stream_.next_out = out_.data();
    stream_.avail_out = static_cast<uInt>(out_.size());
    const int code = ::deflate(&stream_, flush);
    BORA_CHECK(code == Z_OK || code == Z_STREAM_END || code == Z_BUF_ERROR, "writing '", path_,
               "': zlib: ", stream_.msg ? stream_.msg : "failed");
    file_.write(out_.data(), static_cast<int64_t>(out_.size()) - stream_.avail_out);
    return code;
  }
  AtomicFile& file_;
  const std::string& path_;
  bool is_gzip_;
  z_stream stream_{};
  std::vector<Bytef> out_;
};

/// Planes along x into an array in the file's order, x fastest.  Word: of the type's size.
template <class Word>
void transpose(const void* planes, int64_t n, int64_t first, const std::array<int64_t, 4>& extents,
               bool is_swapped, std::byte* volume) {
  // No structured binding: clang 14 lets no lambda capture one.
  const int64_t x_n = extents[0], y_n = extents[1], z_n = extents[2], c_n = extents[3];
  const auto* in = static_cast<const Word*>(planes);
  auto* out = reinterpret_cast<Word*>(volume);
  const auto put = [&](int64_t x, int64_t y, int64_t z, int64_t c) {
    Word w = in[((x * y_n + y) * z_n + z) * c_n + c];
    if constexpr (sizeof w == 4)
      if (is_swapped) w = __builtin_bswap32(w);
    if constexpr (sizeof w == 8)
      if (is_swapped) w = __builtin_bswap64(w);
    out[((c * z_n + z) * y_n + y) * x_n + first + x] = w;
  };
  // Squares, so that the lines that are read and written stay in the cache.
  constexpr int64_t kSide = 16;
  for (int64_t c = 0; c < c_n; ++c)
    for (int64_t y = 0; y < y_n; ++y)
      for (int64_t x0 = 0; x0 < n; x0 += kSide)
        for (int64_t z0 = 0; z0 < z_n; z0 += kSide)
          for (int64_t z = z0; z < std::min(z0 + kSide, z_n); ++z)
            for (int64_t x = x0; x < std::min(x0 + kSide, n); ++x) put(x, y, z, c);
}

}  // namespace

struct NiftiLikeWriter::Impl {
  std::string path;
  DType type = DType::f32;
  bool is_swapped = false, is_gzip = false;
  std::array<int64_t, 4> extents{};
  Dims3 grid;
  std::vector<std::byte> header;
  std::optional<AtomicFile> file;
  Tensor volume;  // bytes in the file's order
  int64_t n_written = 0;
};

NiftiLikeWriter::NiftiLikeWriter(const std::string& path, const NiftiLike& like)
    : impl_(std::make_unique<Impl>()) {
  Impl& w = *impl_;
  w.path = path;
  w.type = like.type;
  w.is_gzip = ends_with(path, ".nii.gz");
  BORA_CHECK(w.is_gzip || ends_with(path, ".nii"), "writing '", path,
             "': wants a name that ends in .nii or .nii.gz");
  BORA_CHECK(like.channels >= 1 && like.channels <= INT16_MAX, "writing '", path,
             "': ", like.channels, " channels, wanted 1 to ", INT16_MAX);
  with_context("writing '" + path + "'", [&] { return nifti_datatype(like.type); });
  const std::unique_ptr<VolumeFile> other = open_nifti_volume({like.file, {}, {}});
  const NiftiHeader header = read_nifti_header_of(like.file);
  w.grid = other->info().grid;
  w.extents = {w.grid.d, w.grid.h, w.grid.w, like.channels};
  w.is_swapped = header.is_swapped;
  w.header = header_like(header, like.type, like.channels);
  w.file.emplace(path);  // now, so that a folder that cannot be written to is told at once
  w.volume = Tensor::empty(Shape{w.grid.count() * like.channels}, like.type);
}

NiftiLikeWriter::~NiftiLikeWriter() = default;

const Dims3& NiftiLikeWriter::grid() const { return impl_->grid; }

void NiftiLikeWriter::write(const Tensor& planes) {
  Impl& w = *impl_;
  BORA_CHECK(w.file.has_value(), "writing '", w.path, "': the file is closed");
  BORA_CHECK(planes.defined() && planes.dtype() == w.type &&
                 planes.device().type == DeviceType::cpu &&
                 (planes.rank() == 4 || (planes.rank() == 3 && w.extents[3] == 1)),
             "writing '", w.path, "': planes that are not ", w.type, " of (n, Y, Z, C) on the CPU");
  BORA_CHECK(planes.size(1) == w.grid.h && planes.size(2) == w.grid.w &&
                 (planes.rank() == 3 || planes.size(3) == w.extents[3]),
             "writing '", w.path, "': planes of shape ", planes.shape(), " for a grid of ", w.grid,
             " with ", w.extents[3], " channels");
  const int64_t n = planes.size(0);
  BORA_CHECK(n <= w.grid.d - w.n_written, "writing '", w.path, "': ", n, " planes behind ",
             w.n_written, " of ", w.grid.d);
  auto* volume = static_cast<std::byte*>(w.volume.raw());
  const int64_t size = size_of(w.type);
  if (size == 1)
    transpose<uint8_t>(planes.raw(), n, w.n_written, w.extents, w.is_swapped, volume);
  else if (size == 4)
    transpose<uint32_t>(planes.raw(), n, w.n_written, w.extents, w.is_swapped, volume);
  else
    transpose<uint64_t>(planes.raw(), n, w.n_written, w.extents, w.is_swapped, volume);
  w.n_written += n;
}

void NiftiLikeWriter::close() {
  Impl& w = *impl_;
  BORA_CHECK(w.file.has_value(), "writing '", w.path, "': the file is closed");
  BORA_CHECK(w.n_written == w.grid.d, "writing '", w.path, "': ", w.n_written, " of ", w.grid.d,
             " planes were written");
  {
    Packer out(*w.file, w.path, w.is_gzip);
    out.write(w.header.data(), std::ssize(w.header));
    out.write(static_cast<const std::byte*>(w.volume.raw()), w.volume.bytes());
    out.finish();
  }
  w.file->commit();
  w.file.reset();
  w.volume = {};
}

void write_nifti_like(const std::string& path, const std::string& like, const Tensor& values) {
  BORA_CHECK(values.defined() && (values.rank() == 3 || values.rank() == 4), "writing '", path,
             "': wants values (X, Y, Z) or (X, Y, Z, C)");
  NiftiLikeWriter out(
      path,
      {.file = like, .type = values.dtype(), .channels = values.rank() == 4 ? values.size(3) : 1});
  BORA_CHECK(values.size(0) == out.grid().d, "writing '", path, "': values of shape ",
             values.shape(), " for the grid ", out.grid(), " of '", like, "'");
  out.write(values);
  out.close();
}

}  // namespace bora::data
