// SPDX-License-Identifier: Apache-2.0
// The CPU backend: huge-page memory, loops, and streams that are always done.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <vector>

#include "core/backend.hpp"
#include "core/convert.hpp"

namespace bora {
namespace {

constexpr int64_t kRun = 512;  // elements converted at a time, in L1

std::atomic<int64_t> g_records{0}, g_waits{0}, g_synchronizes{0};

class CpuBackend final : public Backend {
 public:
  // Anonymous memory aligned to 2 MiB with MADV_HUGEPAGE: touching 64 MiB costs 4 ms so, and 300 ms
  // in 4 KiB pages.
  void* allocate(int64_t bytes, Device) override {
    constexpr size_t kHuge = size_t{2} << 20;
    const size_t wanted = static_cast<size_t>(bytes) + kHuge;
    void* raw = ::mmap(nullptr, wanted, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    BORA_CHECK(raw != MAP_FAILED, "out of host memory: ", bytes >> 20, " MiB were asked for (",
               std::strerror(errno), ")");
    char* begin = static_cast<char*>(raw);
    char* aligned =
        reinterpret_cast<char*>((reinterpret_cast<uintptr_t>(begin) + kHuge - 1) / kHuge * kHuge);
    if (aligned > begin) ::munmap(begin, static_cast<size_t>(aligned - begin));
    char* end = begin + wanted;
    char* used = aligned + bytes;
    used = reinterpret_cast<char*>((reinterpret_cast<uintptr_t>(used) + 4095) / 4096 * 4096);
    if (end > used) ::munmap(used, static_cast<size_t>(end - used));
    ::madvise(aligned, static_cast<size_t>(used - aligned),
              MADV_HUGEPAGE);  // advice only: failure costs time, not truth
    return aligned;
  }

  void free(void* data, int64_t bytes, Device) noexcept override {
    ::munmap(data, (static_cast<size_t>(bytes) + 4095) / 4096 * 4096);
  }

  void copy(Stream, void* dst, Device, const void* src, Device, int64_t bytes) override {
    std::memmove(dst, src, static_cast<size_t>(bytes));
  }

  void fill(Stream, void* dst, DType type, double value, int64_t n) override {
    if (value == 0.0 && !std::signbit(value)) {
      std::memset(dst, 0, static_cast<size_t>(n * size_of(type)));
      return;
    }
    dispatch_any(type, [&]<class T>() {
      T* out = static_cast<T*>(dst);
      const T v = static_cast<T>(static_cast<acc_t<T>>(value));
      for (int64_t i = 0; i < n; ++i) out[i] = v;
    });
  }

  void cast(Stream, void* dst, DType dst_type, const void* src, DType src_type,
            int64_t n) override {
    dispatch_any(dst_type, [&]<class To>() {
      dispatch_any(src_type, [&]<class From>() {
        To* const out = static_cast<To*>(dst);
        const From* const in = static_cast<const From*>(src);
#pragma omp parallel for schedule(static) if (n > 65536)
        for (int64_t i = 0; i < n; i += kRun) {
          const int64_t run = std::min(kRun, n - i);
          alignas(64) acc_t<From> in_buffer[kRun];
          alignas(64) acc_t<To> out_buffer[kRun];
          const acc_t<From>* const x = widen(in + i, run, in_buffer);
          acc_t<To>* const y = wide_target(out + i, out_buffer);
#pragma omp simd
          for (int64_t j = 0; j < run; ++j) y[j] = static_cast<acc_t<To>>(x[j]);
          narrow(y, out + i, run);
        }
      });
    });
  }

  void accumulate(Stream, void* dst, DType dst_type, const void* src, DType src_type,
                  int64_t n) override {
    dispatch_float(dst_type, "accumulate", [&]<class To>() {
      dispatch_float(src_type, "accumulate", [&]<class From>() {
        using A = acc_t<To>;
        To* const out = static_cast<To*>(dst);
        const From* const in = static_cast<const From*>(src);
#pragma omp parallel for schedule(static) if (n > 65536)
        for (int64_t i = 0; i < n; i += kRun) {
          const int64_t run = std::min(kRun, n - i);
          alignas(64) A sum_buffer[kRun];
          alignas(64) acc_t<From> in_buffer[kRun];
          const acc_t<From>* const x = widen(in + i, run, in_buffer);
          A* const sum = wide_target(out + i, sum_buffer);
          widen(out + i, run, sum_buffer);
#pragma omp simd
          for (int64_t j = 0; j < run; ++j) sum[j] += static_cast<A>(x[j]);
          narrow(sum, out + i, run);
        }
      });
    });
  }

  Stream default_stream(Device device) override { return {device, nullptr}; }
  Event record(Stream stream) override {
    ++g_records;
    return Event(stream.device, nullptr);
  }
  void wait(Stream, const Event&) override { ++g_waits; }
  bool done(const Event&) override { return true; }
  void synchronize(Stream) override { ++g_synchronizes; }
  void synchronize(const Event&) override { ++g_synchronizes; }
};

CpuBackend& cpu_backend() {
  static auto* instance = new CpuBackend();  // never destroyed: see allocator.cpp
  return *instance;
}

Backend* g_replacement[2] = {nullptr, nullptr};

thread_local std::vector<Stream> t_scopes;  // the open StreamScopes, innermost last

}  // namespace

void* Backend::allocate_pinned(int64_t bytes) { return cpu_backend().allocate(bytes, cpu()); }
void Backend::free_pinned(void* data, int64_t bytes) noexcept {
  cpu_backend().free(data, bytes, cpu());
}
Stream Backend::make_stream(Device device, bool) { return default_stream(device); }
void Backend::destroy_stream(Stream) noexcept {}
void Backend::begin_capture(Stream stream) {
  BORA_FAIL("capturing work on ", stream.device, ": this backend has no graphs");
}
Graph Backend::end_capture(Stream stream) {
  BORA_FAIL("capturing work on ", stream.device, ": this backend has no graphs");
}
void Backend::launch(Stream stream, const Graph&) {
  BORA_FAIL("launching a graph on ", stream.device, ": this backend has no graphs");
}

bool has_backend(DeviceType type) {
  return type == DeviceType::cpu || g_replacement[static_cast<int>(type)] != nullptr;
}

Backend& backend(DeviceType type) {
  if (Backend* b = g_replacement[static_cast<int>(type)]) return *b;
  BORA_CHECK(type == DeviceType::cpu,
             "no CUDA backend: this binary was built without CUDA, or no device was found");
  return cpu_backend();
}

void set_backend(DeviceType type, Backend* replacement) {
  g_replacement[static_cast<int>(type)] = replacement;
}

StreamCounters cpu_stream_counters() { return {g_records, g_waits, g_synchronizes}; }

bool Event::done() const { return backend(device_.type).done(*this); }
void Event::synchronize() const { backend(device_.type).synchronize(*this); }
Event Stream::record() const { return backend(device.type).record(*this); }
void Stream::wait(const Event& event) const { backend(device.type).wait(*this, event); }
void Stream::synchronize() const { backend(device.type).synchronize(*this); }

Stream current_stream(Device device) {
  for (auto s = t_scopes.rbegin(); s != t_scopes.rend(); ++s)
    if (s->device == device) return *s;
  return backend(device.type).default_stream(device);
}

StreamScope::StreamScope(Stream stream) { t_scopes.push_back(stream); }
StreamScope::~StreamScope() { t_scopes.pop_back(); }

}  // namespace bora
