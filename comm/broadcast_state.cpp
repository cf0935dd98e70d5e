// SPDX-License-Identifier: Apache-2.0
#include "comm/broadcast_state.hpp"

#include "core/fnv.hpp"

#include <cstring>

namespace bora {

void broadcast_buffers(Collective& collective, const std::vector<Tensor*>& tensors, int root) {
  const auto n = collective.all_reduce(static_cast<int64_t>(tensors.size()), ReduceOp::max,
                                       "number of buffers to broadcast");
  const auto fewest = collective.all_reduce(static_cast<int64_t>(tensors.size()), ReduceOp::min,
                                            "number of buffers to broadcast");
  BORA_CHECK(n == fewest, "broadcast_buffers: this rank has ", tensors.size(),
             " tensors, others have ", fewest, " to ", n);
  for (size_t i = 0; i < tensors.size(); ++i) {
    BORA_CHECK(tensors[i] != nullptr, "broadcast_buffers: tensor ", i, " is null");
    collective.broadcast(*tensors[i], root, detail::join("buffer ", i));
  }
}

uint64_t hash_of(const Tensor& tensor) {
  BORA_CHECK(tensor.defined() && tensor.device() == cpu(), "hash_of: wants a host tensor");
  uint64_t h = fnv_step(kFnvOffset, static_cast<uint64_t>(tensor.dtype()));
  for (int i = 0; i < tensor.rank(); ++i) h = fnv_step(h, static_cast<uint64_t>(tensor.size(i)));
  // Whole words first: each step is a bijection of h, so a single changed word always shows.
  const auto* bytes = static_cast<const unsigned char*>(tensor.raw());
  int64_t i = 0;
  for (; i + 8 <= tensor.bytes(); i += 8) {
    uint64_t word = 0;
    std::memcpy(&word, bytes + i, 8);
    h = fnv_step(h, word);
    h ^= h >> 29;  // the product alone never carries high bits down
  }
  for (; i < tensor.bytes(); ++i) h = fnv_step(h, bytes[i]);
  return h;
}

void check_same_everywhere(Collective& collective,
                           const std::vector<std::pair<std::string, Tensor>>& tensors,
                           const std::string& what) {
  std::vector<int64_t> mine;
  for (const auto& [name, tensor] : tensors) {
    const uint64_t h = hash_of(tensor);
    mine.push_back(static_cast<int64_t>(fnv1a(name, h)));
  }
  const auto n = static_cast<int64_t>(mine.size());
  // The counts travel with the header of the operation: unequal ones are an error there.
  const Tensor row = Tensor::from<int64_t>({n}, mine);
  Tensor all = Tensor::empty({collective.size(), n}, DType::i64);
  collective.all_gather(row, all, what);
  const int64_t* hashes = all.data<int64_t>();
  for (int64_t i = 0; i < n; ++i) {
    for (int r = 1; r < collective.size(); ++r)
      BORA_CHECK(hashes[r * n + i] == hashes[i], what, ": '", tensors[static_cast<size_t>(i)].first,
                 "' on rank ", r, " differs from rank 0's");
  }
}

}  // namespace bora
