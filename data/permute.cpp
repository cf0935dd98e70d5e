// SPDX-License-Identifier: Apache-2.0
#include "data/permute.hpp"

#include <array>
#include <cstring>

#include "core/error.hpp"

namespace bora::data {

Tensor permute(const Tensor& x, const std::vector<int>& order) {
  const int rank = x.rank();
  BORA_CHECK(x.defined() && x.device().type == DeviceType::cpu, "permute: wants a CPU tensor");
  BORA_CHECK(static_cast<int>(order.size()) == rank, "permute: ", order.size(),
             " axes for a tensor of shape ", x.shape());
  std::array<bool, Shape::kMaxRank> seen{};
  bool identity = true;
  Shape shape;
  for (int i = 0; i < rank; ++i) {
    const int axis = order[static_cast<size_t>(i)];
    BORA_CHECK(axis >= 0 && axis < rank && !seen[static_cast<size_t>(axis)],
               "permute: the order does not name each of ", rank, " axes once");
    seen[static_cast<size_t>(axis)] = true;
    identity = identity && axis == i;
    shape = shape.append(x.size(axis));
  }
  if (identity) return x;

  std::array<int64_t, Shape::kMaxRank> stride{}, step{}, at{};  // step: of x along each new axis
  int64_t s = 1;
  for (int i = rank - 1; i >= 0; --i) {
    stride[static_cast<size_t>(i)] = s;
    s *= x.size(i);
  }
  for (int i = 0; i < rank; ++i)
    step[static_cast<size_t>(i)] = stride[static_cast<size_t>(order[static_cast<size_t>(i)])];

  Tensor out = Tensor::empty(shape, x.dtype());
  const size_t bytes = static_cast<size_t>(size_of(x.dtype()));
  const auto* in = static_cast<const char*>(x.raw());
  auto* to = static_cast<char*>(out.raw());
  int64_t from = 0;
  for (int64_t n = x.numel(); n > 0; --n) {
    std::memcpy(to, in + from * static_cast<int64_t>(bytes), bytes);
    to += bytes;
    for (int i = rank - 1; i >= 0; --i) {  // count up like an odometer
      const size_t a = static_cast<size_t>(i);
      from += step[a];
      if (++at[a] < shape[i]) break;
      from -= step[a] * shape[i];
      at[a] = 0;
    }
  }
  return out;
}

}  // namespace bora::data
