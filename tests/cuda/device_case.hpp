// SPDX-License-Identifier: Apache-2.0
// What tests of device kernels share: tensors on cuda(0) at aligned and odd addresses, and running
// a body under every schedule of the emulator.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "core/backend.hpp"
#include "core/tensor.hpp"
#include "kernels/portable.hpp"
#include "tests/support/random.hpp"
#include "tests/support/tolerance.hpp"

#if defined(BORA_EMULATED_CUDA)
#include "kernels/simt/emulator.hpp"
#endif

namespace bora::test {

/// Channel counts below, at and around a pack of 8, of 4 and of 2, and larger than a block.
inline const std::vector<int64_t> kChannelCounts = {1, 2, 3, 4, 5, 6, 7, 8, 9, 16, 24, 32, 320};

/// Types that device code has: f64 on the emulator alone.
inline const std::vector<DType> kDeviceFloats = {
    DType::f16,
    DType::bf16,
    DType::f32,
#if defined(BORA_EMULATED_CUDA)
    DType::f64,
#endif
};

/// A fixture that is skipped where there is no device.
class OnDevice : public testing::Test {
 protected:
  void SetUp() override {
    if (!has_backend(DeviceType::cuda)) GTEST_SKIP() << "no CUDA device";
  }
};

inline Stream device_stream() { return current_stream(cuda(0)); }

/// Values on the device; `shift` elements behind an address that packs could start at.
inline Tensor on_device(const Shape& shape, const std::vector<double>& values, DType type,
                        int64_t shift = 0) {
  const Tensor host = make_tensor(shape, values, type, cpu());
  Tensor all = Tensor::empty({shape.numel() + shift}, type, cuda(0));
  Tensor view = all.view(shift, shape);
  view.copy_from(host);
  return view;
}

inline Tensor empty_on_device(const Shape& shape, DType type, int64_t shift = 0) {
  Tensor all = Tensor::zeros({shape.numel() + shift}, type, cuda(0));
  return all.view(shift, shape);
}

inline Tensor to_host(const Tensor& t) { return t.defined() ? t.detach().to(cpu()) : t; }
inline std::vector<double> host_values(const Tensor& t) { return values_of(to_host(t)); }

inline std::vector<unsigned char> host_bytes(const Tensor& t) {
  const Tensor host = to_host(t);
  std::vector<unsigned char> bytes(static_cast<size_t>(host.bytes()));
  if (!bytes.empty()) std::memcpy(bytes.data(), host.raw(), bytes.size());
  return bytes;
}

/// body() under the emulator's three schedules (once on a real device); what it returns, tensors,
/// must be the same bits each time.  Returns the last.
template <class Body>
std::vector<Tensor> under_all_schedules(const Body& body) {
  std::vector<Tensor> first = body();
  const auto again = [&] {
    const std::vector<Tensor> other = body();
    for (size_t i = 0; i < first.size(); ++i)
      EXPECT_EQ(host_bytes(first[i]), host_bytes(other[i])) << "result " << i;
  };
#if defined(BORA_EMULATED_CUDA)
  for (const simt::ScheduleKind kind :
       {simt::ScheduleKind::backward, simt::ScheduleKind::shuffled}) {
    const simt::ScheduleScope scope({kind, 7});
    again();
  }
#else
  again();
#endif
  return first;
}

}  // namespace bora::test
