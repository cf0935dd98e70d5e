// SPDX-License-Identifier: Apache-2.0
#include "apps/common/threads.hpp"

#include <omp.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "apps/common/heap.hpp"

namespace bora::apps {

int cores_in_mask() {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  if (::sched_getaffinity(0, sizeof mask, &mask) != 0) return 1;
  return std::max(1, CPU_COUNT(&mask));
}

int set_compute_threads(int local_size) {
  const int cores = cores_in_mask();
  if (std::getenv("OMP_NUM_THREADS") == nullptr) {
    // A rank whose mask is the whole host shares it with the others; a bound rank has its cores to
    // itself.
    const bool bound = cores < static_cast<int>(::sysconf(_SC_NPROCESSORS_ONLN));
    omp_set_num_threads(bound ? cores : std::max(1, cores / std::max(1, local_size)));
  }
  const int threads = omp_get_max_threads();
  prepare_heap();
  return threads;
}

int compute_threads() { return omp_get_max_threads(); }

}  // namespace bora::apps
