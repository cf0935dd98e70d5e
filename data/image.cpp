// SPDX-License-Identifier: Apache-2.0
#include "data/image.hpp"

#include <png.h>

#include "core/error.hpp"
#include "data/atomic_file.hpp"
#include "data/output_place.hpp"

namespace bora::data {
namespace {

// libpng reports errors by a function that must not return; an exception may pass through its
// frames, which were compiled with unwind tables on every platform we build for.
[[noreturn]] void on_error(png_structp, png_const_charp message) { BORA_FAIL("libpng: ", message); }
void on_warning(png_structp, png_const_charp) {}

void append(png_structp png, png_bytep data, size_t bytes) {
  static_cast<std::string*>(png_get_io_ptr(png))->append(reinterpret_cast<char*>(data), bytes);
}
void nothing_to_flush(png_structp) {}

struct Writer {
  Writer() : png(png_create_write_struct(PNG_LIBPNG_VER_STRING, nullptr, on_error, on_warning)) {
    BORA_CHECK(png != nullptr, "libpng: out of memory, or of another version than its header");
    info = png_create_info_struct(png);
  }
  ~Writer() { png_destroy_write_struct(&png, &info); }
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;
  png_structp png;
  png_infop info = nullptr;
};

}  // namespace

void write_png(const std::string& path, int64_t width, int64_t height, std::span<const uint8_t> rgb,
               int64_t pixels_per_metre) {
  require_suffix(path, {".png"}, "picture '" + path + "'");
  constexpr int64_t kMaxExtent = 1 << 20;  // above, libpng's own limit answers less clearly
  BORA_CHECK(width >= 1 && height >= 1 && width <= kMaxExtent && height <= kMaxExtent,
             "write_png: ", path, ": a picture of ", width, " x ", height, " pixels cannot be");
  BORA_CHECK(static_cast<int64_t>(rgb.size()) == 3 * width * height, "write_png: ", path, ": ",
             width, " x ", height, " pixels want ", 3 * width * height, " bytes, got ", rgb.size());
  std::string file;
  with_context("writing " + path, [&] {
    Writer w;
    BORA_CHECK(w.info != nullptr, "libpng: out of memory");
    png_set_write_fn(w.png, &file, append, nothing_to_flush);
    png_set_IHDR(w.png, w.info, static_cast<png_uint_32>(width), static_cast<png_uint_32>(height),
                 8, PNG_COLOR_TYPE_RGB, PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT,
                 PNG_FILTER_TYPE_DEFAULT);
    if (pixels_per_metre > 0) {
      const auto density = static_cast<png_uint_32>(pixels_per_metre);
      png_set_pHYs(w.png, w.info, density, density, PNG_RESOLUTION_METER);
    }
    png_write_info(w.png, w.info);
    for (int64_t y = 0; y < height; ++y) png_write_row(w.png, rgb.data() + 3 * width * y);
    png_write_end(w.png, w.info);
  });
  write_file_atomic(path, file);
}

}  // namespace bora::data
