// SPDX-License-Identifier: Apache-2.0
// An optimizer's update, 8 parameters a thread: every array moves 16 bytes at a time.  The formula
// stays the functor of kernels/optim.cpp, which here works on a copy of the thread's 8 elements:
// the pointers of its buffers are turned to registers, so there is one formula for all devices.
// Floor (AdamW, f32 gradient, 16-bit copy): 16 bytes read and 14 written a parameter, 30 in all (28
// with a 16-bit gradient).
#pragma once

#include "kernels/cuda/vector.hpp"

namespace bora::kernels::cuda {

inline constexpr int kUpdateRun = 8;  // elements of a 16-bit pack

/// The `n` elements from p on (the others 0): whole packs where `whole`, which also says n is
/// kUpdateRun.
template <class T>
BORA_HD inline void load_run(const T* p, int n, bool whole, T (&out)[kUpdateRun]) {
  if (whole) {
    BORA_UNROLL
    for (int k = 0; k < kUpdateRun; k += kPack<T>) {
      const Bits128 bits = load_bits(p + k);
      BORA_UNROLL
      for (int j = 0; j < kPack<T>; ++j) {
        if constexpr (sizeof(T) == 2) {
          out[k + j].bits = static_cast<uint16_t>(bits.v[j / 2] >> (j % 2 * 16));
        } else if constexpr (sizeof(T) == 4) {
          out[k + j] = std::bit_cast<T>(bits.v[j]);
        } else {
          std::memcpy(&out[k + j], &bits.v[2 * j], sizeof(T));
        }
      }
    }
  } else {
    BORA_UNROLL
    for (int j = 0; j < kUpdateRun; ++j) out[j] = j < n ? p[j] : T(0.0f);
  }
}

template <class T>
BORA_HD inline void store_run(T* p, int n, bool whole, const T (&in)[kUpdateRun]) {
  if (whole) {
    BORA_UNROLL
    for (int k = 0; k < kUpdateRun; k += kPack<T>) {
      Bits128 bits{};
      BORA_UNROLL
      for (int j = 0; j < kPack<T>; ++j) {
        if constexpr (sizeof(T) == 2) {
          bits.v[j / 2] |= static_cast<uint32_t>(in[k + j].bits) << (j % 2 * 16);
        } else if constexpr (sizeof(T) == 4) {
          bits.v[j] = std::bit_cast<uint32_t>(in[k + j]);
        } else {
          std::memcpy(&bits.v[2 * j], &in[k + j], sizeof(T));
        }
      }
      store_bits(p + k, bits);
    }
  } else {
    BORA_UNROLL
    for (int j = 0; j < kUpdateRun; ++j)
      if (j < n) p[j] = in[j];
  }
}

#if defined(BORA_DEVICE_CODE)

/// Elements [at, at + n) by `update`, whose buffers are kernels/optim.cpp's.
template <bool kSlot0, bool kSlot1, class Update>
__device__ void update_run(const Update& update, int64_t at, int n, bool whole) {
  using G = std::remove_cvref_t<decltype(*update.b.gradient)>;
  using A = std::remove_cvref_t<decltype(*update.b.p)>;
  using W = std::remove_cvref_t<decltype(*update.b.working)>;
  constexpr bool kWorking = std::is_same_v<W, Half> || std::is_same_v<W, BFloat16>;
  G gradient[kUpdateRun];
  A p[kUpdateRun], slot0[kUpdateRun], slot1[kUpdateRun];
  W working[kUpdateRun];
  load_run(update.b.gradient + at, n, whole, gradient);
  load_run(update.b.p + at, n, whole, p);
  if constexpr (kSlot0) load_run(update.b.slot0 + at, n, whole, slot0);
  if constexpr (kSlot1) load_run(update.b.slot1 + at, n, whole, slot1);
  Update own = update;
  own.b.gradient = gradient;
  own.b.p = p;
  own.b.slot0 = kSlot0 ? slot0 : nullptr;
  own.b.slot1 = kSlot1 ? slot1 : nullptr;
  own.b.working = working;
  BORA_UNROLL
  for (int j = 0; j < kUpdateRun; ++j) own(j);
  store_run(update.b.p + at, n, whole, p);
  if constexpr (kSlot0) store_run(update.b.slot0 + at, n, whole, slot0);
  if constexpr (kSlot1) store_run(update.b.slot1 + at, n, whole, slot1);
  if constexpr (kWorking) store_run(update.b.working + at, n, whole, working);
}

template <bool kSlot0, bool kSlot1, bool kWhole, class Update, class Prepare>
__global__ void __launch_bounds__(kBlockThreads)
    update_packs_kernel(int64_t n, Update shared, Prepare prepare) {
  Update update = shared;
  if (!prepare(update)) return;
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x * kUpdateRun;
  for (int64_t at = (static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) * kUpdateRun;
       at < n; at += step) {
    const bool whole = n - at >= kUpdateRun;
    update_run<kSlot0, kSlot1>(update, at, whole ? kUpdateRun : static_cast<int>(n - at),
                               kWhole && whole);
  }
}

/// `update` for elements 0 .. n.  Update::kSlots: 2 where it has both slots always, 1 where it may
/// have slot0.  prepare(update) runs first on the device, once a thread: it may read numbers from
/// memory into it, and returns false if nothing is to be done.
template <class Update, class Prepare>
void update_packs(const char* what, Stream stream, int64_t n, const Update& update,
                  const Prepare& prepare) {
  if (n == 0) return;
  const auto& b = update.b;
  const bool whole = aligned(b.gradient) && aligned(b.p) && aligned(b.slot0) && aligned(b.slot1) &&
                     aligned(b.working);
  const LaunchShape shape{.grid = blocks_for((n + kUpdateRun - 1) / kUpdateRun)};
  const auto start = [&]<bool kSlot0, bool kSlot1>() {
    launch(what, stream, shape,
           whole ? update_packs_kernel<kSlot0, kSlot1, true, Update, Prepare>
                 : update_packs_kernel<kSlot0, kSlot1, false, Update, Prepare>,
           n, update, prepare);
  };
  if constexpr (Update::kSlots == 2) {
    start.template operator()<true, true>();
  } else {
    if (b.slot0 != nullptr) return start.template operator()<true, false>();
    start.template operator()<false, false>();
  }
}

#endif

}  // namespace bora::kernels::cuda
