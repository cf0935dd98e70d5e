// SPDX-License-Identifier: Apache-2.0
#include "apps/bench/data_reads.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <exception>
#include <filesystem>
#include <fstream>
#include <functional>
#include <mutex>
#include <thread>

#include "core/error.hpp"
#include "core/profile.hpp"
#include "core/rng.hpp"
#include "data/netcdf.hpp"
#include "data/volume_file.hpp"

namespace bora::bench {

namespace {

/// Threads that stay, as a loader's (and as the peer's processes) do: what they keep for reading is
/// warm.
class Workers {
 public:
  ~Workers() {
    {
      const std::lock_guard lock(mutex_);
      ends_ = true;
    }
    start_.notify_all();
    for (std::thread& t : threads_) t.join();
  }
  /// body(thread) on `n` threads; seconds from the common start to the last end.
  double run(int n, const std::function<void(int)>& body) {
    std::unique_lock lock(mutex_);
    while (static_cast<int>(threads_.size()) < n)
      threads_.emplace_back([this, t = static_cast<int>(threads_.size())] { work(t); });
    body_ = &body;
    n_ = left_ = n;
    error_ = nullptr;
    ++round_;
    const double begin = now_s();
    start_.notify_all();
    done_.wait(lock, [&] { return left_ == 0; });
    const double seconds = now_s() - begin;
    if (error_) std::rethrow_exception(error_);
    return seconds;
  }

 private:
  void work(int t) {
    std::unique_lock lock(mutex_);
    for (int64_t seen = 0;;) {
      start_.wait(lock, [&] { return ends_ || (round_ != seen && t < n_); });
      if (ends_) return;
      seen = round_;
      lock.unlock();
      std::exception_ptr error;
      try {
        (*body_)(t);
      } catch (...) {
        error = std::current_exception();
      }
      lock.lock();
      if (error) error_ = error;
      if (--left_ == 0) done_.notify_one();
    }
  }
  std::mutex mutex_;
  std::condition_variable start_, done_;
  std::vector<std::thread> threads_;
  const std::function<void(int)>* body_ = nullptr;
  std::exception_ptr error_;
  int n_ = 0, left_ = 0;
  int64_t round_ = 0;
  bool ends_ = false;
};

double on_threads(int n, const std::function<void(int)>& body) {
  static Workers workers;
  return workers.run(n, body);
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
  // As old as training data are: of a file that is being written nothing is remembered.
  std::filesystem::last_write_time(
      path, std::filesystem::file_time_type::clock::now() - std::chrono::minutes(1));
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
  std::vector<double> sums(patches.size(), 0);  // in order, whoever reads what
  std::atomic<size_t> next{0};
  Reading r;
  r.seconds = on_threads(n_threads, [&](int) {
    for (size_t i = next++; i < patches.size(); i = next++) {
      const Patch& p = patches[i];
      const Tensor values = data::open_volume({files[static_cast<size_t>(p.file)], "raw", "xyz"})
                                ->read(p.begin, p.count, DType::f32);
      const float* v = values.data<float>();
      for (int64_t k = 0; k < values.numel(); k += 4096) sums[i] += static_cast<double>(v[k]);
    }
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
