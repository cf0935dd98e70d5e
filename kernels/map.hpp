// SPDX-License-Identifier: Apache-2.0
// map: out[i] = f(in[i]...), the launch shape of pointwise kernels.
#pragma once

#include <algorithm>
#include <concepts>
#include <tuple>

#include "core/convert.hpp"
#include "kernels/launch.hpp"

namespace bora::kernels {

namespace detail {

/// One run of map_cpu, in the arithmetic types.
template <class F, class Out, class... In>
void map_run(int64_t n, const F& f, Out* out, const In*... in) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) out[i] = static_cast<Out>(f(in[i]...));
}

template <class T>
struct RunBuffer {
  static constexpr int64_t kRun = 512;  // floats: a few of them stay in L1
  alignas(64) acc_t<T> v[is_narrow<T> ? kRun : 1];
};

template <class F, class Out, class... In>
void map_cpu(int64_t n, const F& f, Out* out, const In*... in) {
  // Blocks are fixed by n, not by the number of threads: an element is always in the vector body or
  // always in the scalar tail, whose bits may differ (contraction to FMA).
  constexpr int64_t kBlock = 8192;
  const int64_t n_blocks = (n + kBlock - 1) / kBlock;
#pragma omp parallel for schedule(static) if (n > kThreadWorthy)
  for (int64_t block = 0; block < n_blocks; ++block) {
    const int64_t end = std::min(n, (block + 1) * kBlock);
    if constexpr (is_narrow<Out> || (is_narrow<In> || ...)) {
      constexpr int64_t kRun = RunBuffer<Half>::kRun;
      RunBuffer<Out> result;
      std::tuple<RunBuffer<In>...> buffers;
      for (int64_t i = block * kBlock; i < end; i += kRun) {
        const int64_t run = std::min(kRun, end - i);
        acc_t<Out>* const target = wide_target(out + i, result.v);
        std::apply(
            [&](RunBuffer<In>&... buffer) {
              map_run(run, f, target, widen(in + i, run, buffer.v)...);
            },
            buffers);
        narrow(target, out + i, run);
      }
    } else {
      map_run(end - block * kBlock, f, out + block * kBlock, (in + block * kBlock)...);
    }
  }
}

#if defined(BORA_DEVICE_CODE)

template <int W, class F, class Out, class... In>
__global__ void __launch_bounds__(kBlockThreads)
    map_cuda(int64_t n, F f, Out* out, const In*... in) {
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
  const int64_t first = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if constexpr (W > 1) {
    const int64_t n_packs = n / W;
    for (int64_t p = first; p < n_packs; p += step) {
      Pack<Out, W> result;
      const auto body = [&](const Pack<In, W>&... packs) {
        BORA_UNROLL
        for (int j = 0; j < W; ++j) result.v[j] = static_cast<Out>(f(load(packs.v[j])...));
      };
      body(reinterpret_cast<const Pack<In, W>*>(in)[p]...);
      reinterpret_cast<Pack<Out, W>*>(out)[p] = result;
    }
    for (int64_t i = n_packs * W + first; i < n; i += step)
      out[i] = static_cast<Out>(f(load(in[i])...));
  } else {
    for (int64_t i = first; i < n; i += step) out[i] = static_cast<Out>(f(load(in[i])...));
  }
}

template <class F, class Out, class... In>
void map_launch(Stream stream, int64_t n, const F& f, Out* out, const In*... in) {
  constexpr int kLargest =
      std::max({static_cast<int>(sizeof(Out)), static_cast<int>(sizeof(In))...});
  constexpr int W = 16 / kLargest;
  // Views may start anywhere: packs only where all pointers allow them.
  const auto fits = [](const auto* p) {
    return reinterpret_cast<uintptr_t>(p) % (sizeof(*p) * static_cast<size_t>(W)) == 0;
  };
  if ((fits(out) && ... && fits(in))) {
    launch("map", stream, {.grid = blocks_for(n / W + 1)}, map_cuda<W, F, Out, In...>, n, f, out,
           in...);
  } else {
    launch("map", stream, {.grid = blocks_for(n)}, map_cuda<1, F, Out, In...>, n, f, out, in...);
  }
}

#endif

}  // namespace detail

/// out[i] = f(in[i]...) for i < n over raw arrays of any types: f takes and returns values of the
/// arithmetic types (acc_t).  `out` may be one of the inputs, but must not overlap one otherwise.
template <class Out, class F, class... In>
void map_n(Stream stream, int64_t n, const F& f, Out* out, const In*... in) {
  BORA_CHECK(n >= 0, "map: count is ", n);
  if (n == 0) return;
  if (stream.device.type == DeviceType::cpu) return detail::map_cpu(n, f, out, in...);
#if defined(BORA_DEVICE_CODE)
  if constexpr (!kDeviceHasF64 &&
                (std::is_same_v<Out, double> || ... || std::is_same_v<In, double>)) {
    throw_host_only("map");
  } else {
    detail::map_launch(stream, n, f, out, in...);
  }
#else
  ::bora::detail::throw_built_without_cuda();
#endif
}

/// out[i] = f(in[i]...) over tensors of equal shape, floating type and device.  `what` names the
/// caller in messages.
template <class F, std::same_as<Tensor>... In>
void map(Stream stream, const char* what, const F& f, Tensor& out, const In&... in) {
  const auto check = [&](const Tensor& t) {
    BORA_CHECK(t.shape() == out.shape() && t.dtype() == out.dtype() && t.device() == out.device(),
               what, ": an input is ", t.shape(), ' ', t.dtype(), " on ", t.device(),
               ", the output is ", out.shape(), ' ', out.dtype(), " on ", out.device());
  };
  (check(in), ...);
  dispatch_float(out.dtype(), what, [&]<class T>() {
    map_n(stream, out.numel(), f, out.data<T>(), in.template data<T>()...);
  });
}

}  // namespace bora::kernels
