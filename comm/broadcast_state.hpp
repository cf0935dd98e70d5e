// SPDX-License-Identifier: Apache-2.0
// The same parameters on every rank: sent at the start, checked on demand.
#pragma once

#include "core/collective.hpp"

#include <string>
#include <utility>
#include <vector>

namespace bora {

/// Root's bytes in all tensors of the list (parameters, running statistics, ...) on all ranks, in
/// the list's order.  Types and counts must agree; a difference is an Error on all ranks.
void broadcast_buffers(Collective& collective, const std::vector<Tensor*>& tensors, int root = 0);

/// A number that depends on type, shape and every byte of a host tensor (FNV-1a).
uint64_t hash_of(const Tensor& tensor);

/// Throws Error on all ranks unless every tensor has the same name, type, shape and bits on every
/// rank; names the first that differs and the ranks.  Moves 8 bytes a tensor.
void check_same_everywhere(Collective& collective,
                           const std::vector<std::pair<std::string, Tensor>>& tensors,
                           const std::string& what);

}  // namespace bora
