// SPDX-License-Identifier: Apache-2.0
// How many threads a rank computes with.
#pragma once

namespace bora::apps {

/// Cores that this process may run on, from its affinity mask (never the host's total).
int cores_in_mask();
/// Sets the threads of compute loops: OMP_NUM_THREADS if it is set, else the cores in the mask
/// shared among the ranks of the host (ranks that are bound to cores of their own do not share).
/// Prepares their heaps (apps/common/heap.hpp).  Returns the number.  log_launch() warns when
/// threads outnumber cores.
int set_compute_threads(int local_size);
/// The number set.
int compute_threads();

}  // namespace bora::apps
