// SPDX-License-Identifier: Apache-2.0
// The MPI library's own blocking all-reduction, to hold ours against.
#pragma once

#include "core/tensor.hpp"

namespace bora {

/// MPI_Allreduce(MPI_IN_PLACE, ..., MPI_SUM, MPI_COMM_WORLD) of a contiguous f32 tensor of less
/// than 2^31 elements: what a program without this library would call.  No checks of what other
/// ranks do, no time limit: for benchmarks alone.
void mpi_all_reduce_in_place(Tensor& x);

}  // namespace bora
