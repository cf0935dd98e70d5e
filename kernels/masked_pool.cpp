// SPDX-License-Identifier: Apache-2.0
#include "kernels/masked_pool.hpp"

#include <type_traits>

#include "kernels/for_each.hpp"
#include "kernels/volume.hpp"

namespace bora::kernels {
namespace {

template <class T>
struct MaskedMean {
  static constexpr bool kHostOnly = std::is_same_v<T, double>;
  Dims3 in, out, block;
  int64_t channels;
  const T* target;
  const uint8_t* region;  // or nullptr
  T* pooled;
  uint8_t* pooled_region;

  /// f(number of an input cell of the block at `v`, in memory order) for those in the region.
  template <class F>
  BORA_HD void cells(const VolumeIndex& v, const F& f) const {
    for (int64_t d = v.d * block.d; d < (v.d + 1) * block.d; ++d)
      for (int64_t h = v.h * block.h; h < (v.h + 1) * block.h; ++h)
        for (int64_t w = v.w * block.w; w < (v.w + 1) * block.w; ++w) {
          const int64_t cell = cell_number(v.n, d, h, w, in);
          if (region == nullptr || region[cell] != 0) f(cell);
        }
  }
  BORA_HD void operator()(int64_t i) const {
    const VolumeIndex v = volume_index(i, out);
    int64_t count = 0;
    cells(v, [&](int64_t) { ++count; });
    pooled_region[i] = 2 * count >= block.d * block.h * block.w ? 1 : 0;
    for (int64_t c = 0; c < channels; ++c) {
      double sum = 0;
      cells(v, [&](int64_t cell) { sum += static_cast<double>(target[cell * channels + c]); });
      pooled[i * channels + c] =
          static_cast<T>(count == 0 ? 0.0 : sum / static_cast<double>(count));
    }
  }
};

template <class T>
void run(Stream stream, const Volume& in, Dims3 out, Dims3 block, const Tensor& target,
         const Tensor& region, Tensor& pooled, Tensor& pooled_region) {
  for_each(stream, in.n * out.count(),
           MaskedMean<T>{in.size, out, block, in.c, target.data<T>(),
                         region.defined() ? region.data<uint8_t>() : nullptr, pooled.data<T>(),
                         pooled_region.data<uint8_t>()});
}

}  // namespace

Dims3 blocks_of(Dims3 volume, Dims3 block) {
  for (int axis = 0; axis < 3; ++axis)
    BORA_CHECK(block[axis] >= 1 && block[axis] <= volume[axis], "masked_mean_pool: blocks of ",
               block, " in a volume of ", volume);
  return {volume.d / block.d, volume.h / block.h, volume.w / block.w};
}

void masked_mean_pool(Stream stream, Dims3 block, const Tensor& target, const Tensor& region,
                      Tensor& pooled, Tensor& pooled_region) {
  const char* const what = "masked_mean_pool";
  const Volume in = volume_of(target, what);
  const Dims3 out = blocks_of(in.size, block);
  BORA_CHECK(target.dtype() == DType::f32 || target.dtype() == DType::f64, what, ": target is ",
             target.dtype(), ", wanted f32 (or f64)");
  if (region.defined())
    check_tensor(region, {in.n, in.size.d, in.size.h, in.size.w}, DType::u8, target.device(), what);
  check_tensor(pooled, {in.n, out.d, out.h, out.w, in.c}, target.dtype(), target.device(), what);
  check_tensor(pooled_region, {in.n, out.d, out.h, out.w}, DType::u8, target.device(), what);
  if (target.dtype() == DType::f64)
    run<double>(stream, in, out, block, target, region, pooled, pooled_region);
  else
    run<float>(stream, in, out, block, target, region, pooled, pooled_region);
}

}  // namespace bora::kernels
