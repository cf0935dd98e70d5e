// SPDX-License-Identifier: Apache-2.0
#include "apps/bench/data_reads.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <thread>

#include "core/error.hpp"
#include "core/profile.hpp"
#include "core/rng.hpp"
#include "data/netcdf.hpp"

namespace bora::bench {

namespace {

/// body(thread) on threads; seconds from the first start to the last end.
double on_threads(int n, const std::function<void(int)>& body) {
  std::vector<std::exception_ptr> errors(static_cast<size_t>(n));
  std::vector<std::thread> threads;
  const double begin = now_s();
  for (int t = 0; t < n; ++t)
    threads.emplace_back([&, t] {
      try {
        body(t);
      } catch (...) {
        errors[static_cast<size_t>(t)] = std::current_exception();
      }
    });
  for (std::thread& t : threads) t.join();
  const double seconds = now_s() - begin;
  for (const auto& e : errors)
    if (e) std::rethrow_exception(e);
  return seconds;
}

}  // namespace

Tensor field_of_samples(const std::string& root, const Dims3& size, int first) {
  std::vector<std::string> paths;
  const std::string folder = root + "/wind_speed_filled";
  if (!std::filesystem::is_directory(folder))
    throw UsageError("bench_data: no folder '" + folder + "'; --samples wants the sample data's");
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    if (entry.path().extension() == ".nc") paths.push_back(entry.path().string());
  std::sort(paths.begin(), paths.end());
  BORA_CHECK(!paths.empty(), "bench_data: no .nc files in '", folder, "'");
  Tensor out = Tensor::zeros({size.d, size.h, size.w}, DType::f32);
  float* to = out.data<float>();
  size_t next = static_cast<size_t>(first);
  Dims3 step;
  for (Dims3 at; at.d < size.d; at.d += step.d)
    for (at.h = 0; at.h < size.h; at.h += step.h)
      for (at.w = 0; at.w < size.w; at.w += step.w) {
        const Tensor block = data::NetcdfFile::open(paths[next++ % paths.size()])
                                 .read("wind_speed", {"x", "y", "z"}, {});
        const float* from = block.data<float>();
        step = {block.size(0), block.size(1), block.size(2)};
        const int64_t w = std::min(step.w, size.w - at.w);
        for (int64_t i = 0; i < std::min(step.d, size.d - at.d); ++i)
          for (int64_t j = 0; j < std::min(step.h, size.h - at.h); ++j)
            std::copy_n(from + (i * step.h + j) * step.w, w,
                        to + ((at.d + i) * size.h + at.h + j) * size.w + at.w);
      }
  return out;
}

void write_field(const std::string& path, const Tensor& field, const data::hdf5::Storage& storage) {
  data::hdf5::File file = data::hdf5::File::create(path);
  file.write_dataset("raw", field, storage);
  file.close();
}

std::vector<Patch> random_patches(int n, int n_files, const Dims3& size, const Dims3& patch,
                                  uint64_t seed) {
  const RngKey key{seed, 0};
  std::vector<Patch> patches;
  uint64_t draw = 0;
  const auto below = [&](int64_t m) {
    return static_cast<int64_t>(key.bits(draw++) % static_cast<uint64_t>(m));
  };
  for (int i = 0; i < n; ++i) {
    Patch p;
    p.file = static_cast<int>(below(n_files));
    p.count = patch;
    p.begin = {below(size.d - patch.d + 1), below(size.h - patch.h + 1),
               below(size.w - patch.w + 1)};
    patches.push_back(p);
  }
  return patches;
}

void write_table(const std::string& path, const std::vector<Patch>& patches) {
  std::ofstream out(path);
  for (const Patch& p : patches)
    out << p.file << ' ' << p.begin.d << ' ' << p.begin.h << ' ' << p.begin.w << ' ' << p.count.d
        << ' ' << p.count.h << ' ' << p.count.w << '\n';
  out.close();
  BORA_CHECK(out.good(), "bench_data: cannot write '", path, "'");
}

Reading read_patches(const std::vector<std::string>& files, const std::vector<Patch>& patches,
                     int n_threads) {
  std::vector<double> sums(static_cast<size_t>(n_threads), 0);
  Reading r;
  r.seconds = on_threads(n_threads, [&](int t) {
    double sum = 0;
    for (size_t i = static_cast<size_t>(t); i < patches.size();
         i += static_cast<size_t>(n_threads)) {
      const Patch& p = patches[i];
      const std::array<int64_t, 3> begin{p.begin.d, p.begin.h, p.begin.w};
      const std::array<int64_t, 3> count{p.count.d, p.count.h, p.count.w};
      const Tensor values = data::hdf5::File::open(files[static_cast<size_t>(p.file)])
                                .open_dataset("raw")
                                .read(begin, count, DType::f32);
      const float* v = values.data<float>();
      for (int64_t k = 0; k < values.numel(); k += 4096) sum += static_cast<double>(v[k]);
    }
    sums[static_cast<size_t>(t)] = sum;
  });
  for (const double s : sums) r.sum += s;
  return r;
}

double copy_time_s(int n_threads, int64_t bytes) {
  constexpr int64_t kPart = int64_t{64} << 20;
  const int64_t share = bytes / n_threads;
  std::vector<std::vector<char>> from, to;
  for (int t = 0; t < n_threads; ++t) {
    from.emplace_back(static_cast<size_t>(kPart), char{1});
    to.emplace_back(static_cast<size_t>(kPart), char{2});
  }
  return on_threads(n_threads, [&](int t) {
    const auto i = static_cast<size_t>(t);
    for (int64_t done = 0; done < share; done += kPart)
      std::memcpy(to[i].data(), from[i].data(), static_cast<size_t>(std::min(kPart, share - done)));
  });
}

double plain_read_time_s(const std::string& path, int n_threads) {
  constexpr size_t kPart = size_t{64} << 20;
  std::vector<std::vector<char>> to(static_cast<size_t>(n_threads), std::vector<char>(kPart));
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  struct stat s {};
  BORA_CHECK(fd >= 0 && ::fstat(fd, &s) == 0, "bench_data: cannot open '", path, "'");
  const int64_t share = s.st_size / n_threads;
  const double seconds = on_threads(n_threads, [&](int t) {
    for (int64_t done = 0; done < share;) {
      const ssize_t n =
          ::pread(fd, to[static_cast<size_t>(t)].data(),
                  std::min(kPart, static_cast<size_t>(share - done)), t * share + done);
      BORA_CHECK(n > 0, "bench_data: reading '", path, "' failed");
      done += n;
    }
  });
  ::close(fd);
  return seconds;
}

}  // namespace bora::bench
