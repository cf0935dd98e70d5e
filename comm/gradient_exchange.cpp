// SPDX-License-Identifier: Apache-2.0
#include "comm/gradient_exchange.hpp"

#include "comm/same_text.hpp"

#include <sstream>
#include <string>

namespace bora {

void check_gradient_ranges(const char* who, const FlatBuffer& gradients,
                           const std::vector<Leaf*>& leaves, const Collective& collective) {
  const auto& ranges = gradients.layout().ranges();
  BORA_CHECK(leaves.size() == ranges.size(), who, ": ", leaves.size(), " leaves for a buffer of ",
             ranges.size(), " ranges");
  if (ranges.empty()) return;
  BORA_CHECK(is_float(gradients.all().dtype()), who, ": gradients of type ",
             gradients.all().dtype());
  BORA_CHECK(gradients.all().device().type == collective.device_type(), who,
             ": the gradients are on ", gradients.all().device(), ", the communicator works on ",
             Device{collective.device_type(), 0},
             ": make the model's arena on the communicator's kind of device");
  for (size_t i = 0; i < leaves.size(); ++i) {
    const Tensor part = gradients.part(static_cast<int>(i));
    BORA_CHECK(leaves[i] != nullptr && leaves[i]->gradient().defined() &&
                   leaves[i]->gradient().shape() == part.shape() &&
                   leaves[i]->gradient().dtype() == part.dtype() &&
                   leaves[i]->gradient().raw() == part.raw(),
               who, ": the gradient of leaf ", i, " does not lie in range ", i, " ('",
               ranges[i].name, "') of the buffer");
  }
}

void check_same_layout(const char* who, const FlatLayout& layout, const std::string& also,
                       Collective& collective) {
  std::string mine = also + "\n";
  for (const Range& r : layout.ranges()) mine += detail::join("'", r.name, "' ", r.shape, "\n");
  const auto all = texts_if_different(collective, mine, "layout of the gradients");
  for (size_t r = 1; r < all.size(); ++r) {
    if (all[r] == all[0]) continue;
    std::istringstream a(all[0]), b(all[r]);
    std::string line_a, line_b;
    do {
      if (!std::getline(a, line_a)) line_a = "nothing";
      if (!std::getline(b, line_b)) line_b = "nothing";
    } while (line_a == line_b);
    BORA_FAIL(who, ": the gradients differ between ranks: rank 0 has ", line_a, ", rank ", r,
              " has ", line_b);
  }
}

void refuse_unused(const char* who, const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "'" : ", '") + name + "'";
  BORA_CHECK(names.empty(), who, ": no gradient for ", text,
             ": the loss does not depend on them, or no backward pass has run; remove them from "
             "the model or let unused parameters count as zero (unused_as_zero)");
}

void average_gradients(const std::vector<Leaf*>& leaves, Collective& collective) {
  enum : int64_t { kNothing = 0, kBuffer = 1, kGradient = 2 };
  const auto n = static_cast<int64_t>(leaves.size());
  std::vector<int64_t> mine;
  for (const Leaf* leaf : leaves) {
    BORA_CHECK(leaf != nullptr, "average_gradients: a leaf is null");
    mine.push_back(leaf->has_gradient()         ? kGradient
                   : leaf->gradient().defined() ? kBuffer
                                                : kNothing);
  }
  Tensor all = Tensor::empty({collective.size(), n}, DType::i64);
  collective.control().all_gather(Tensor::from<int64_t>({n}, mine), all,
                                  "which gradients there are");
  std::vector<Leaf*> wanted;
  for (int64_t i = 0; i < n; ++i) {
    bool used = false;
    int lacks = -1;
    for (int r = 0; r < collective.size(); ++r) {
      const int64_t has = all.data<int64_t>()[r * n + i];
      used = used || has == kGradient;
      if (has == kNothing && lacks < 0) lacks = r;
    }
    if (!used) continue;
    Leaf* leaf = leaves[static_cast<size_t>(i)];
    BORA_CHECK(lacks < 0, "average_gradients: '", leaf->name(), "' has a gradient on some ranks, ",
               "on rank ", lacks, " not even a buffer for it; call set_gradient_buffer there");
    wanted.push_back(leaf);
  }
  std::vector<Work> works;
  for (Leaf* leaf : wanted) {
    Tensor gradient = leaf->gradient();
    if (!leaf->has_gradient()) gradient.fill(0.0);
    works.push_back(
        collective.all_reduce_async(gradient, ReduceOp::mean, "gradient of " + leaf->name()));
  }
  for (const Work& work : works) work.wait();
}

}  // namespace bora
