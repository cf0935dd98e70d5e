// SPDX-License-Identifier: Apache-2.0
#include "tests/data/picture.hpp"

#include <png.h>

#include "core/error.hpp"

namespace bora::data::test {

Picture::Picture(const std::string& path) {
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  BORA_CHECK(png_image_begin_read_from_file(&image, path.c_str()) != 0, path, ": ", image.message);
  image.format = PNG_FORMAT_RGB;
  width = image.width;
  height = image.height;
  rgb.resize(PNG_IMAGE_SIZE(image));
  BORA_CHECK(png_image_finish_read(&image, nullptr, rgb.data(), 0, nullptr) != 0, path, ": ",
             image.message);
}

}  // namespace bora::data::test
