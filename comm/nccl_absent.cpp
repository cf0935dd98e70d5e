// SPDX-License-Identifier: Apache-2.0
// In the place of the other nccl_*.cpp where CUDA is not built.
#include "comm/nccl_communicator.hpp"

namespace bora {

std::string nccl_missing() {
  return "this binary was built without CUDA (configure with -DBORA_CUDA=ON)";
}

std::unique_ptr<NcclCommunicator> make_nccl_communicator(Collective&, const NcclPlace&,
                                                         const NcclOptions&) {
  throw UsageError("NCCL communicator: " + nccl_missing());
}

}  // namespace bora
