// SPDX-License-Identifier: Apache-2.0
#include "kernels/cudnn/add_bias.hpp"

#include "kernels/for_each.hpp"

namespace bora::kernels::cudnn {
namespace {

template <class T>
struct AddBias {
  static constexpr bool kHostOnly = std::is_same_v<T, double>;
  const T* bias;
  T* y;
  int64_t columns;
  BORA_HD int64_t row(int64_t r) const { return r * columns; }
  BORA_HD void operator()(int64_t row, int64_t c) const {
    y[row + c] = static_cast<T>(load(y[row + c]) + load(bias[c]));
  }
};

}  // namespace

void add_bias(Stream stream, const Tensor& bias, Tensor& y) {
  const int64_t columns = y.size(-1);
  BORA_CHECK(bias.shape() == Shape{columns} && bias.dtype() == y.dtype(), "add_bias: bias ",
             bias.shape(), ' ', bias.dtype(), ", wanted (", columns, ") ", y.dtype());
  if (y.numel() == 0) return;
  dispatch_float(y.dtype(), "add_bias", [&]<class T>() {
    for_each_row(stream, y.numel() / columns, columns,
                 AddBias<T>{bias.data<T>(), y.data<T>(), columns});
  });
}

}  // namespace bora::kernels::cudnn
