// SPDX-License-Identifier: Apache-2.0
#include "tests/nccl_double/traffic.hpp"

#include "comm/mpi_status.hpp"

#include <chrono>
#include <climits>
#include <cstring>
#include <mutex>
#include <thread>

namespace bora::nccl_double {
namespace {

MPI_Comm g_world = MPI_COMM_NULL;
int g_rank = 0;

}  // namespace

MPI_Comm world() { return g_world; }
int world_rank() { return g_rank; }

void open_world() {
  int level = MPI_THREAD_SINGLE;
  BORA_MPI(MPI_Query_thread(&level));
  BORA_CHECK(level == MPI_THREAD_MULTIPLE, "the double of NCCL wants an MPI that allows threads");
  BORA_MPI(MPI_Comm_dup(MPI_COMM_WORLD, &g_world));
  BORA_MPI(MPI_Comm_rank(g_world, &g_rank));
}

void close_world() { BORA_MPI(MPI_Comm_free(&g_world)); }

void Transfers::send(const void* data, size_t bytes, int to, int tag) {
  BORA_CHECK(bytes <= INT_MAX, "the double of NCCL sends at most 2 GiB, got ", bytes);
  Part& part = parts_.emplace_back();
  if (bytes > 0)
    part.bytes.assign(static_cast<const char*>(data), static_cast<const char*>(data) + bytes);
  const MpiGate gate = mpi_gate();
  // Synchronous, as NCCL's kernels are: a send without its receive must not end.
  BORA_MPI(MPI_Issend(part.bytes.data(), static_cast<int>(bytes), MPI_BYTE, to, tag, g_world,
                      &part.request));
}

void Transfers::receive(void* data, size_t bytes, int from, int tag) {
  BORA_CHECK(bytes <= INT_MAX, "the double of NCCL sends at most 2 GiB, got ", bytes);
  Part& part = parts_.emplace_back();
  part.bytes.resize(bytes);
  part.target = data;
  const MpiGate gate = mpi_gate();
  BORA_MPI(MPI_Irecv(part.bytes.data(), static_cast<int>(bytes), MPI_BYTE, from, tag, g_world,
                     &part.request));
}

bool Transfers::finish(const std::function<bool()>& give_up) {
  for (;;) {
    bool all = true;
    for (Part& part : parts_) {
      int done = 1;
      const MpiGate gate = mpi_gate();
      if (part.request != MPI_REQUEST_NULL)
        BORA_MPI(MPI_Test(&part.request, &done, MPI_STATUS_IGNORE));
      all = all && done != 0;
    }
    if (all) break;
    if (give_up()) return false;
    std::this_thread::sleep_for(std::chrono::microseconds(20));
  }
  for (const Part& part : parts_)
    if (part.target != nullptr && !part.bytes.empty())
      std::memcpy(part.target, part.bytes.data(), part.bytes.size());
  return true;
}

Transfers::~Transfers() {
  static std::mutex mutex;
  static auto* kept = new std::vector<Part>;  // never destroyed: MPI may still use them
  for (Part& part : parts_) {
    if (part.request == MPI_REQUEST_NULL) continue;
    {
      const MpiGate gate = mpi_gate();
      // Else a message that comes late would be taken for one of the next communicator's.
      if (part.target != nullptr) MPI_Cancel(&part.request);
      MPI_Request_free(&part.request);
    }
    const std::lock_guard lock(mutex);
    kept->push_back(std::move(part));
  }
}

}  // namespace bora::nccl_double
