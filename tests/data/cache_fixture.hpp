// SPDX-License-Identifier: Apache-2.0
// Fields of known values behind a cache, and how often their "files" were read.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "data/volume_cache.hpp"
#include "tests/data/pipeline_support.hpp"

namespace bora::data::test {

inline double gib_of(int64_t bytes) {
  return static_cast<double>(bytes) / (1024.0 * 1024.0 * 1024.0);
}

/// Shared memory of this process that still has a name.
inline int named_segments(int64_t pid = ::getpid()) {
  int n = 0;
  const std::string prefix = "bora-" + std::to_string(pid) + "-";
  for (const auto& entry : std::filesystem::directory_iterator("/dev/shm"))
    n += entry.path().filename().string().starts_with(prefix);
  return n;
}

/// n fields, each cells (2..8, 1..6, 0..9) of a file's grid, and what a reader of their files
/// gives.
class CacheFixture {
 public:
  explicit CacheFixture(int n, DType type = DType::f32, int64_t channels = 0)
      : whole_reads(static_cast<size_t>(n)) {
    for (int i = 0; i < n; ++i) {
      CachedField f{.path = folder.file("field" + std::to_string(i)),
                    .variable = "v",
                    .begin = {2, 1, 0},
                    .count = {7, 6, 10},
                    .channels = channels,
                    .type = type,
                    .reading = "xyz"};
      write_file(f.path, "the file of field " + std::to_string(i));
      f.stamp = FileStamp::of(f.path);
      fields.push_back(f);
    }
  }
  CacheConfig config(const std::string& kind, double limit_gib = 1) const {
    return {.kind = kind, .limit_gib = limit_gib, .folder = folder.file("cache")};
  }

  /// A function of the field, the cell and the channel.
  Tensor box(size_t field, const Dims3& begin, const Dims3& count) const {
    const CachedField& f = fields[field];
    Shape shape{count.d, count.h, count.w};
    if (f.channels > 0) shape = shape.append(f.channels);
    Tensor t = Tensor::empty(shape, f.type);
    const auto channels = std::max<int64_t>(f.channels, 1);
    for (int64_t i = 0; i < t.numel(); ++i) {
      const int64_t c = i % channels, cell = i / channels;
      const int64_t z = begin.w + cell % count.w, y = begin.h + cell / count.w % count.h,
                    x = begin.d + cell / count.w / count.h;
      const int64_t value = (((static_cast<int64_t>(field) * 31 + x) * 31 + y) * 31 + z) * 3 + c;
      if (f.type == DType::f32) t.data<float>()[i] = static_cast<float>(value) * 0.37f;
      if (f.type == DType::u8) t.data<uint8_t>()[i] = static_cast<uint8_t>(value % 251);
      if (f.type == DType::i32) t.data<int32_t>()[i] = static_cast<int32_t>(value);
    }
    return t;
  }
  VolumeCache::ReadBox reader(size_t field) {
    return [this, field](const Dims3& begin, const Dims3& count) {
      if (count == fields[field].count) ++whole_reads[field];
      ++reads;
      return box(field, begin, count);
    };
  }
  /// Through the cache, and whether it is right.
  ::testing::AssertionResult reads_right(VolumeCache& cache, size_t field, const Dims3& begin,
                                         const Dims3& count) {
    const Tensor got = cache.read(field, begin, count, reader(field));
    const Tensor want = box(field, begin, count);
    if (got.shape() != want.shape() || got.dtype() != want.dtype())
      return ::testing::AssertionFailure() << "field " << field << ": " << got.shape();
    if (want.bytes() > 0 &&
        std::memcmp(got.raw(), want.raw(), static_cast<size_t>(want.bytes())) != 0)
      return ::testing::AssertionFailure() << "field " << field << ": other values";
    return ::testing::AssertionSuccess();
  }

  TempFolder folder;
  std::vector<CachedField> fields;
  std::vector<std::atomic<int>> whole_reads;  // of each field
  std::atomic<int> reads{0};
};

}  // namespace bora::data::test
