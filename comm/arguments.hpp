// SPDX-License-Identifier: Apache-2.0
// Inner header of comm: checks that every communicator makes before anything is sent.
#pragma once

#include "core/collective.hpp"

namespace bora {

/// x is defined and on the communicator's kind of device.
void check_tensor(const Collective& comm, const Tensor& x, const char* op, std::string_view label);
/// `many` is (size, shape of one) and of its type.
void check_rows(const Collective& comm, const Tensor& one, const Tensor& many, const char* op,
                std::string_view label);
void check_root(const Collective& comm, int root, const char* op, std::string_view label);
/// Another rank of the group.
void check_peer(const Collective& comm, int peer, const char* op, std::string_view label);

}  // namespace bora
