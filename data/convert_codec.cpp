// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <mutex>
#include <thread>

#include "core/error.hpp"
#include "core/profile.hpp"
#include "core/rng.hpp"
#include "data/atomic_file.hpp"
#include "data/chunk_shape.hpp"
#include "data/convert.hpp"
#include "data/hdf5_chunks.hpp"

namespace bora::data {

std::string Codec::text() const {
  if (deflate == 0) return "none";
  return "deflate" + std::to_string(deflate) + (shuffle ? "+shuffle" : "");
}

Codec Codec::from(const std::string& text) {
  if (text == "none") return {};
  int level = 0, end = 0;
  std::sscanf(text.c_str(), "deflate%1d%n", &level, &end);
  const std::string rest = text.substr(static_cast<size_t>(end));
  if (level < 1 || (!rest.empty() && rest != "+shuffle"))
    throw UsageError("codec '" + text +
                     "': wanted auto, none, deflate1 to deflate9, or one of these with +shuffle");
  return {level, !rest.empty()};
}

namespace {

struct Trial {
  std::string path;
  CodecFigures figures;
  std::vector<double> patch_ms;
};

/// Milliseconds that one of `threads` needs for a patch while all read.
double time_patches(const std::string& path, const Dims3& grid, const Dims3& patch, int threads,
                    int n, uint64_t seed, DType type) {
  std::atomic<int> next{0};
  std::exception_ptr error;
  std::mutex mutex;
  const RngKey key{seed, 0};
  const double begin_s = now_s();
  std::vector<std::thread> workers;
  for (int t = 0; t < threads; ++t)
    workers.emplace_back([&] {
      try {
        for (int i = next++; i < n; i = next++) {
          std::array<int64_t, 3> begin{}, count{};
          for (int a = 0; a < 3; ++a) {
            const auto k = static_cast<size_t>(a);
            count[k] = std::min(grid[a], patch[a]);
            const auto places = static_cast<uint64_t>(grid[a] - count[k] + 1);
            begin[k] = static_cast<int64_t>(key.bits(static_cast<uint64_t>(3 * i + a)) % places);
          }
          hdf5::File::open(path).open_dataset("raw").read(begin, count, type);
        }
      } catch (...) {
        const std::lock_guard lock(mutex);
        error = std::current_exception();
      }
    });
  for (std::thread& w : workers) w.join();
  if (error) std::rethrow_exception(error);
  return 1e3 * (now_s() - begin_s) / n;
}

}  // namespace

std::vector<CodecFigures> measure_codecs(const VolumeSource& source, const ConvertOptions& options,
                                         const std::string& folder) {
  constexpr int64_t kMost = 128;
  constexpr int kRounds = 5;
  // Trials are small: all of their chunks would be kept, and no round but the first one unpack
  // them.
  const hdf5::NoChunkCache no_cache;
  BORA_CHECK(options.threads > 0, "measuring codecs: ", options.threads,
             " threads, wanted 1 or more");
  Dims3 grid, patch;
  Tensor values;
  std::string type;
  {
    const std::unique_ptr<VolumeFile> volume = open_volume(source);
    const VolumeInfo& info = volume->info();
    const auto most = [&](int64_t n) { return std::min(n, kMost); };
    grid = {most(info.grid.d), most(info.grid.h), most(info.grid.w)};
    const Dims3 begin{(info.grid.d - grid.d) / 2, (info.grid.h - grid.h) / 2,
                      (info.grid.w - grid.w) / 2};
    values = volume->read(begin, grid, info.type);
    type = info.is_scaled ? std::string(name_of(info.type))
                          : info.stored_type.substr(0, info.stored_type.find(','));
    const auto part = [&](int64_t wanted, int64_t n) {
      return wanted > 0 ? std::min(wanted, n) : n;
    };
    patch = {part(options.patch.d, grid.d), part(options.patch.h, grid.h),
             part(options.patch.w, grid.w)};
    if (info.channels > 1) {  // the first one stands for all
      Tensor first = Tensor::empty({grid.d, grid.h, grid.w}, values.dtype());
      const int64_t bytes = size_of(values.dtype());
      for (int64_t i = 0; i < first.numel(); ++i)
        std::copy_n(static_cast<const char*>(values.raw()) + i * info.channels * bytes, bytes,
                    static_cast<char*>(first.raw()) + i * bytes);
      values = first;
    }
    values = values.reshape({grid.d, grid.h, grid.w});
  }
  const Dims3 chunk = chunk_for_patch(grid, patch, size_of(values.dtype()));
  const std::string base = temporary_beside(folder + "/codecs.h5");
  std::vector<Trial> trials;
  struct Remove {
    std::vector<Trial>& trials;
    ~Remove() {
      std::error_code ignored;
      for (const Trial& t : trials) std::filesystem::remove(t.path, ignored);
    }
  } const remove{trials};
  for (const char* text : {"none", "deflate1", "deflate1+shuffle", "deflate4", "deflate4+shuffle",
                           "deflate6", "deflate6+shuffle"}) {
    const Codec codec = Codec::from(text);
    trials.push_back({base + "-" + std::to_string(trials.size()), {.codec = codec}, {}});
    const double begin_s = now_s();
    hdf5::File file = hdf5::File::create(trials.back().path);
    hdf5::Dataset d = file.create_dataset(
        "raw", values.shape(), type,
        {.chunk = {chunk.d, chunk.h, chunk.w}, .deflate = codec.deflate, .shuffle = codec.shuffle});
    d.write(values);
    const auto bytes = static_cast<double>(values.numel() * d.type().bytes);
    file.flush();
    const double stored = static_cast<double>(d.stored_bytes());
    CodecFigures& f = trials.back().figures;
    f.write_mb_per_s = 1e-6 * bytes / (now_s() - begin_s);
    f.size_ratio = bytes / stored;
    f.patch_bytes = bytes / static_cast<double>(values.numel()) *
                    static_cast<double>(patch.count()) * read_amplification(grid, chunk, patch) /
                    f.size_ratio;
    file.close();
  }
  // About as many bytes for every round whatever the patch.
  const auto n = static_cast<int>(
      std::clamp<int64_t>((int64_t{4} << 20) / patch.count(), 2 * options.threads, 64));
  for (int round = -1; round < kRounds; ++round)  // the first one warms up
    for (Trial& t : trials) {
      const double ms = time_patches(t.path, grid, patch, options.threads, n,
                                     static_cast<uint64_t>(round + 1), values.dtype());
      if (round >= 0) t.patch_ms.push_back(ms);
    }
  std::vector<CodecFigures> figures;
  for (Trial& t : trials) {
    // What other work on the machine takes only adds.
    t.figures.patch_ms = *std::min_element(t.patch_ms.begin(), t.patch_ms.end());
    figures.push_back(t.figures);
  }
  return figures;
}

size_t best_codec(const std::vector<CodecFigures>& figures, double storage_bytes_per_s) {
  BORA_CHECK(!figures.empty() && storage_bytes_per_s > 0, "best_codec: ", figures.size(),
             " codecs, storage of ", storage_bytes_per_s, " bytes/s");
  const auto time = [&](size_t i) { return figures[i].patch_ms_from(storage_bytes_per_s); };
  size_t fastest = 0;
  for (size_t i = 1; i < figures.size(); ++i)
    if (time(i) < time(fastest)) fastest = i;
  size_t best = fastest;
  for (size_t i = 0; i < figures.size(); ++i)
    if (time(i) <= 1.05 * time(fastest) && figures[i].size_ratio > figures[best].size_ratio)
      best = i;
  return best;
}

}  // namespace bora::data
