// SPDX-License-Identifier: Apache-2.0
#include "comm/arguments.hpp"

namespace bora {

void check_tensor(const Collective& comm, const Tensor& x, const char* op, std::string_view label) {
  BORA_CHECK(x.defined(), op, " '", label, "': the tensor is undefined");
  const bool fits = x.device().type == comm.device_type();
  BORA_CHECK(fits, op, " '", label, "': the tensor is on ", x.device(),
             ", this communicator works on ",
             comm.device_type() == DeviceType::cpu ? "cpu" : "cuda",
             " tensors; copy it over or use the communicator of its device");
}

void check_rows(const Collective& comm, const Tensor& one, const Tensor& many, const char* op,
                std::string_view label) {
  check_tensor(comm, one, op, label);
  check_tensor(comm, many, op, label);
  BORA_CHECK(one.dtype() == many.dtype(), op, " '", label, "': types differ: ", one.dtype(),
             " and ", many.dtype());
  bool fits = many.rank() == one.rank() + 1 && many.size(0) == comm.size();
  for (int i = 0; fits && i < one.rank(); ++i) fits = many.size(i + 1) == one.size(i);
  BORA_CHECK(fits, op, " '", label, "': one rank's part is ", one.shape(), ", so for ", comm.size(),
             " ranks the whole must be (", comm.size(), ", ...), but it is ", many.shape());
}

void check_root(const Collective& comm, int root, const char* op, std::string_view label) {
  BORA_CHECK(root >= 0 && root < comm.size(), op, " '", label, "': root ", root,
             " is not a rank of 0..", comm.size() - 1);
}

void check_peer(const Collective& comm, int peer, const char* op, std::string_view label) {
  BORA_CHECK(peer >= 0 && peer < comm.size() && peer != comm.rank(), op, " '", label, "': rank ",
             peer, " is not another rank of this group of ", comm.size(), "; this is rank ",
             comm.rank());
}

}  // namespace bora
