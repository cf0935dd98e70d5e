// SPDX-License-Identifier: Apache-2.0
// Where tests of device-independent code put their tensors: on the emulated device in a build with
// BORA_EMULATOR, else on the CPU.  One source, two suites.
#pragma once

#include <cstring>
#include <type_traits>
#include <vector>

#include "core/tensor.hpp"

#if defined(BORA_EMULATED_CUDA)
#include "kernels/simt/emulator.hpp"
#endif

namespace bora::test {

inline Device device() {
#if defined(BORA_EMULATED_CUDA)
  return cuda(0);
#else
  return cpu();
#endif
}

inline Stream stream() { return current_stream(device()); }

// Tensor's factories, for device().
inline Tensor empty(const Shape& shape, DType type) { return Tensor::empty(shape, type, device()); }
inline Tensor zeros(const Shape& shape, DType type) { return Tensor::zeros(shape, type, device()); }
inline Tensor full(const Shape& shape, double value, DType type) {
  return Tensor::full(shape, value, type, device());
}
template <class T>
Tensor from(const Shape& shape, const std::vector<T>& values) {
  return Tensor::from<T>(shape, values, device());
}

/// Element i of a tensor on any device, on the host.
template <class T>
T element(const Tensor& t, int64_t i) {
  return t.to(cpu()).data<T>()[i];
}

/// Overwrites element i of a tensor on any device.
template <class T>
void put(const Tensor& t, int64_t i, std::type_identity_t<T> value) {
  Tensor one = t.detach().view(i, {});
  one.copy_from(Tensor::scalar<T>(value));
}

/// The bytes of a tensor on any device.
inline std::vector<unsigned char> bytes_of(const Tensor& t) {
  const Tensor host = t.detach().to(cpu());
  std::vector<unsigned char> bytes(static_cast<size_t>(t.bytes()));
  if (!bytes.empty()) std::memcpy(bytes.data(), host.raw(), bytes.size());
  return bytes;
}

/// Same shape, type and bytes; undefined equals undefined.
inline bool same_bits(const Tensor& a, const Tensor& b) {
  if (a.defined() != b.defined()) return false;
  if (!a.defined()) return true;
  return a.shape() == b.shape() && a.dtype() == b.dtype() && bytes_of(a) == bytes_of(b);
}

}  // namespace bora::test
