// SPDX-License-Identifier: Apache-2.0
// Rows 75, 77, 90: eight threads read boxes of the same and of different files of every format,
// opening and closing them, while caches fill, files are replaced and epochs are left early.  What
// they get is what one thread gets.  Written for ThreadSanitizer (preset tsan), and short without
// it; BORA_LONG_READING=1 makes it long.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <thread>

#include "core/rng.hpp"
#include "data/hdf5.hpp"
#include "data/hdf5_chunks.hpp"
#include "data/loader.hpp"
#include "data/recent.hpp"
#include "data/volume_cache.hpp"
#include "data/volume_file.hpp"
#include "tests/data/pipeline_support.hpp"
#include "tests/data/reference_values.hpp"
#include "tests/data/volume_reference.hpp"

namespace bora::data::test {
namespace {

namespace fs = std::filesystem;
constexpr uint64_t kThreads = 8;

int64_t rounds(int64_t n) { return std::getenv("BORA_LONG_READING") != nullptr ? 50 * n : n; }

/// What is younger than seconds is not remembered (hdf5_stored.hpp).
void make_old(const std::string& path) {
  fs::last_write_time(path, fs::file_time_type::clock::now() - std::chrono::hours(1));
}

/// (20, 18, 16) of i32: `version` and the place.
Tensor numbered(int version) {
  Tensor t = Tensor::empty({20, 18, 16}, DType::i32);
  for (int64_t i = 0; i < t.numel(); ++i)
    t.data<int32_t>()[i] = static_cast<int32_t>(1000000 * version + i);
  return t;
}

void write_hdf5(const std::string& path, const Tensor& values, const hdf5::Storage& storage) {
  hdf5::File file = hdf5::File::create(path);
  file.write_dataset("raw", values, storage);
  file.write_dataset("label", Tensor::zeros(values.shape(), DType::u8), storage);
  file.close();
}

/// body(thread) on all threads at once.
void on_threads(const std::function<void(uint64_t)>& body) {
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < kThreads; ++t) threads.emplace_back([&body, t] { body(t); });
  for (std::thread& t : threads) t.join();
}

struct BoxToRead {
  size_t source;
  Dims3 begin, count;
};

class ReadingStress : public ::testing::Test {
 protected:
  struct Source {
    VolumeSource source;
    VolumeInfo info;
    Tensor whole;  // (X, Y, Z, C) f32, read by one thread
  };

  void SetUp() override {
    const hdf5::Storage chunked{.chunk = {8, 8, 8}, .deflate = 1, .shuffle = true};
    for (const bool old : {false, true}) {
      const std::string kind = old ? "old" : "young";
      const std::pair<std::string, hdf5::Storage> files[] = {
          {kind + "_plain.h5", {}},
          {kind + "_chunked.h5", chunked},
          {kind + "_checked.h5", {.chunk = {5, 18, 7}, .fletcher32 = true}}};
      for (const auto& [name, storage] : files) {
        write_hdf5(folder_.file(name), numbered(3), storage);
        if (old) make_old(folder_.file(name));
        add(folder_.file(name), "raw", "xyz");
      }
    }
    add(folder_.file("old_chunked.h5"), "raw", "zyx");  // the same data set, seen otherwise
    add(folder_.file("old_chunked.h5"), "label", "xyz");
    add(kReference + "packed.nc", "plain_f64", "");
    for (const char* name : {"int16_le.nii", "int16_be.nii", "two_be.nii", "packed.nii.gz"})
      add(kVolumes + name, "", "");
    add(kVolumes + "array_v3.npy", "", "");
  }
  void add(const std::string& path, const std::string& variable, const std::string& order) {
    const VolumeSource source{path, variable, order};
    const auto file = open_volume(source);
    sources_.push_back({source, file->info(), read_all(*file)});
  }
  static Tensor read_all(const VolumeFile& file) {
    return file.read({0, 0, 0}, file.info().grid, DType::f32);
  }

  BoxToRead draw(uint64_t thread, int64_t i) const {
    const RngKey key{thread, rng_stream("reading stress", static_cast<uint64_t>(i))};
    const auto below = [&](int64_t n, uint64_t word) {
      return static_cast<int64_t>(key.below(static_cast<uint64_t>(n), word));
    };
    BoxToRead box{static_cast<size_t>(below(std::ssize(sources_), 0)), {}, {}};
    const Dims3 grid = sources_[box.source].info.grid;
    box.begin = {below(grid.d, 1), below(grid.h, 2), below(grid.w, 3)};
    box.count = {1 + below(grid.d - box.begin.d, 4), 1 + below(grid.h - box.begin.h, 5),
                 1 + below(grid.w - box.begin.w, 6)};
    return box;
  }
  Tensor want(const BoxToRead& box) const {
    const Tensor& whole = sources_[box.source].whole;
    const int64_t channels = whole.size(3), row = box.count.w * channels;
    Tensor out = Tensor::empty({box.count.d, box.count.h, box.count.w, channels}, DType::f32);
    float* to = out.data<float>();
    for (int64_t x = 0; x < box.count.d; ++x)
      for (int64_t y = 0; y < box.count.h; ++y, to += row) {
        const int64_t line = (box.begin.d + x) * whole.size(1) + box.begin.h + y;
        std::memcpy(to, whole.data<float>() + (line * whole.size(2) + box.begin.w) * channels,
                    static_cast<size_t>(row) * sizeof(float));
      }
    return out;
  }
  bool is_right(const Tensor& got, const BoxToRead& box) const {
    const Tensor right = want(box);
    return got.dtype() == DType::f32 && got.shape() == right.shape() &&
           std::memcmp(got.raw(), right.raw(), static_cast<size_t>(right.bytes())) == 0;
  }
  Tensor read_from_file(const BoxToRead& box) const {
    return open_volume(sources_[box.source].source)->read(box.begin, box.count, DType::f32);
  }

  TempFolder folder_;
  std::vector<Source> sources_;
};

TEST_F(ReadingStress, ManyThreadsOpenReadAndCloseFilesOfEveryFormat) {
  std::atomic<int> n_wrong{0};
  on_threads([&](uint64_t thread) {
    for (int64_t i = 0; i < rounds(30); ++i) {
      const BoxToRead box = draw(thread, i);
      if (!is_right(read_from_file(box), box)) ++n_wrong;
    }
  });
  EXPECT_EQ(n_wrong, 0);
  EXPECT_EQ(hdf5::open_objects(), 0);
}

TEST_F(ReadingStress, CachesFillWhileManyThreadsReadThem) {
  int64_t bytes = 0;
  std::vector<CachedField> fields;
  for (const Source& s : sources_) {
    fields.push_back({.path = s.source.path,
                      .stamp = FileStamp::of(s.source.path),
                      .variable = s.source.variable,
                      .begin = {0, 0, 0},
                      .count = s.info.grid,
                      .channels = s.info.channels,
                      .type = DType::f32,
                      .reading = s.source.order});
    bytes += fields.back().bytes();
  }
  for (const char* kind : {"ram", "shared", "disk"}) {
    // Half of the data, so that some fields are refused while others are being kept.
    const double limit_gib = static_cast<double>(bytes / 2) / 0x1p30;
    const auto cache = VolumeCache::make(
        {.kind = kind, .limit_gib = limit_gib, .folder = folder_.file("cache")}, fields, nullptr);
    std::atomic<int> n_wrong{0};
    on_threads([&](uint64_t thread) {
      for (int64_t i = 0; i < rounds(25); ++i) {
        const BoxToRead box = draw(100 + thread, i);
        const Tensor got = cache->read(box.source, box.begin, box.count,
                                       [&](const Dims3& begin, const Dims3& count) {
                                         return read_from_file({box.source, begin, count});
                                       });
        if (!is_right(got, box)) ++n_wrong;
      }
    });
    EXPECT_EQ(n_wrong, 0) << kind;
    const VolumeCache::Counts counts = cache->counts();
    EXPECT_GT(counts.kept, 0) << kind;
    EXPECT_GT(counts.from_cache, 0) << kind;
    EXPECT_GT(counts.from_file, 0) << kind;
    EXPECT_LE(counts.bytes, bytes / 2) << kind;
  }
  EXPECT_EQ(hdf5::open_objects(), 0);
}

// A reader sees the file of one moment, or is told; never a bit of each.
TEST_F(ReadingStress, AFileThatIsReplacedIsReadAsOneOrTheOther) {
  const std::string path = folder_.file("replaced.h5");
  const auto replace = [&](int version) {
    const std::string next = folder_.file("next.h5");
    // As large as the others, stored otherwise each time.
    write_hdf5(next, numbered(version), {.chunk = {8, 8, 8 + version % 3}, .deflate = version % 2});
    make_old(next);
    fs::rename(next, path);
  };
  replace(1);
  std::atomic<bool> done{false};
  std::atomic<int> n_wrong{0}, n_right{0}, n_told{0};
  std::thread writer([&] {
    for (int version = 2; !done; version = version % 100 + 1) replace(version);
  });
  on_threads([&](uint64_t) {
    for (int64_t i = 0; i < rounds(25); ++i) {
      try {
        const Tensor got =
            open_volume({path, "raw", "xyz"})->read({1, 2, 3}, {17, 9, 11}, DType::i32);
        const int32_t* v = got.data<int32_t>();
        const int32_t version = v[0] / 1000000;
        bool right = true;
        for (int64_t k = 0; k < got.numel(); ++k) {
          const int64_t x = 1 + k / (9 * 11), y = 2 + k / 11 % 9, z = 3 + k % 11;
          right = right && v[k] == 1000000 * version + (x * 18 + y) * 16 + z;
        }
        ++(right ? n_right : n_wrong);
      } catch (const Error& e) {
        if (std::string(e.what()).find("was replaced while it was read") == std::string::npos) {
          ADD_FAILURE() << e.what();
          ++n_wrong;
        }
        ++n_told;
      }
    }
  });
  done = true;
  writer.join();
  EXPECT_EQ(n_wrong, 0);
  EXPECT_GT(n_right, 0);
  EXPECT_EQ(n_right + n_told, rounds(25) * static_cast<int64_t>(kThreads));
  EXPECT_EQ(hdf5::open_objects(), 0);
}

// Epochs that are left in their middle: nothing of them comes later.
TEST_F(ReadingStress, EpochsThatAreLeftEarlyLeaveNothingBehind) {
  struct Item {
    Slot slot;
    bool is_right;
  };
  Loader<Item> loader({.n_threads = static_cast<int>(kThreads)}, [&](const Slot& slot) {
    const BoxToRead box = draw(static_cast<uint64_t>(200 + slot.epoch), slot.index);
    return Item{slot, is_right(read_from_file(box), box)};
  });
  for (int64_t epoch = 0; epoch < rounds(16); ++epoch) {
    std::vector<Slot> slots;
    for (int64_t i = 0; i < 24; ++i) slots.push_back({i, i, epoch, false});
    loader.start(slots);
    for (int64_t i = 0; i < epoch % 24; ++i) {
      const std::optional<Item> item = loader.next();
      ASSERT_TRUE(item.has_value());
      EXPECT_EQ(item->slot, slots[static_cast<size_t>(i)]);
      EXPECT_TRUE(item->is_right);
    }
  }
}

TEST(RecentStress, GivesTheRightValueOrNoneWhileOthersDropThem) {
  Recent<const std::string> recent(4);
  std::atomic<int> n_wrong{0}, n_found{0};
  on_threads([&](uint64_t thread) {
    const RngKey key{thread, rng_stream("recent stress")};
    for (int64_t i = 0; i < rounds(500); ++i) {
      const std::string name = std::to_string(key.below(12, static_cast<uint64_t>(2 * i)));
      auto found = recent.find(name);
      if (found) ++n_found;
      if (!found) found = recent.keep(name, std::make_shared<const std::string>(name));
      if (*found != name) ++n_wrong;
      if (key.below(20, static_cast<uint64_t>(2 * i + 1)) == 0) recent.drop_oldest();
    }
  });
  EXPECT_EQ(n_wrong, 0);
  EXPECT_GT(n_found, 0);
  EXPECT_LE(recent.size(), 4u);
}

// The HDF5 library may be one that is not thread-safe.
TEST(Hdf5Lock, ACallWithoutTheLockIsRefusedBeforeItIsMade) {
  int n_calls = 0;
  const auto call = [&] { return ++n_calls; };
  EXPECT_THAT(message_of([&] { BORA_HDF5(call()); }),
              ::testing::HasSubstr("a call of the library without the Lock: call()"));
  EXPECT_EQ(n_calls, 0);
  {
    const hdf5::Lock lock;
    { const hdf5::Lock again; }
    EXPECT_EQ(BORA_HDF5(call()), 1);
    {
      const hdf5::detail::Unlocked unlocked;
      EXPECT_FALSE(hdf5::detail::holds_lock());
    }
    std::thread([&] { EXPECT_FALSE(hdf5::detail::holds_lock()); }).join();
    EXPECT_EQ(BORA_HDF5(call()), 2);
  }
  EXPECT_FALSE(hdf5::detail::holds_lock());
}

}  // namespace
}  // namespace bora::data::test
