// SPDX-License-Identifier: Apache-2.0
// Plain pictures.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace bora::data {

/// Writes rgb (height, width, 3), rows from the top, as a PNG with 8 bits per channel; atomically.
/// `pixels_per_metre` > 0 is noted in the file (for printing).  Throws UsageError for a name
/// that does not end in .png, Error naming the path if the sizes do not fit, or if the file cannot
/// be written.
void write_png(const std::string& path, int64_t width, int64_t height, std::span<const uint8_t> rgb,
               int64_t pixels_per_metre = 0);

}  // namespace bora::data
