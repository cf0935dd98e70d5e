// SPDX-License-Identifier: Apache-2.0
#include "comm/same_text.hpp"

#include "core/fnv.hpp"

namespace bora {

std::vector<std::string> texts_if_different(Collective& collective, const std::string& text,
                                            std::string_view label) {
  const auto hash = static_cast<int64_t>(fnv1a(text));
  Tensor most = Tensor::from<int64_t>({2}, std::vector<int64_t>{hash, ~hash});
  collective.control().all_reduce(most, ReduceOp::max, label);
  const int64_t* m = most.data<int64_t>();
  // The largest is also the smallest: equal everywhere, and every rank sees it.
  if (m[0] == ~m[1]) return {};
  return collective.all_gather_text(text, label);
}

}  // namespace bora
