// SPDX-License-Identifier: Apache-2.0
#include "comm/library_reference.hpp"

#include "comm/mpi_status.hpp"

namespace bora {

void mpi_all_reduce_in_place(Tensor& x) {
  BORA_CHECK(x.defined() && x.dtype() == DType::f32 && x.numel() <= INT32_MAX,
             "mpi_all_reduce_in_place: wants an f32 tensor of less than 2^31 elements");
  int started = 0;
  BORA_MPI(MPI_Initialized(&started));
  BORA_CHECK(started != 0, "mpi_all_reduce_in_place: these ranks were not started by MPI");
  BORA_MPI(MPI_Allreduce(MPI_IN_PLACE, x.raw(), static_cast<int>(x.numel()), MPI_FLOAT, MPI_SUM,
                         MPI_COMM_WORLD));
}

}  // namespace bora
