// SPDX-License-Identifier: Apache-2.0
// Uses the installed headers and archive: makes a tensor, writes it, reads it, and meets an error.
#include <cstdio>
#include <vector>

#include "core/error.hpp"
#include "core/tensor.hpp"

int main() {
  bora::Tensor t = bora::Tensor::zeros(bora::Shape{2, 3}, bora::DType::f32);
  for (const float v : t.to_vector<float>()) {
    if (v != 0.0f) return std::fprintf(stderr, "zeros() holds %g\n", static_cast<double>(v)), 1;
  }
  t.fill(1.5);
  if (t.to_vector<float>() != std::vector<float>(6, 1.5f)) {
    return std::fprintf(stderr, "fill(1.5) did not fill\n"), 1;
  }
  try {
    t.data<double>();
  } catch (const bora::Error& e) {
    return std::printf("refused as it should be: %s\n", e.what()), 0;
  }
  return std::fprintf(stderr, "data<double>() of an f32 tensor was not refused\n"), 1;
}
