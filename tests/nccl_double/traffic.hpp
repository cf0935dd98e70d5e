// SPDX-License-Identifier: Apache-2.0
// Inner header of the double: messages between ranks that can be given up at any time.
#pragma once

#include <mpi.h>

#include <atomic>
#include <cstddef>
#include <functional>
#include <vector>

namespace bora::nccl_double {

using Bytes = std::vector<char>;

/// The double's own MPI communicator; its ranks are those of the world.
MPI_Comm world();
int world_rank();
void open_world();
void close_world();

/// A set of sends and receives that is waited for together.  What is given up is left behind with
/// its buffers, since MPI may still touch them.
class Transfers {
 public:
  ~Transfers();
  void send(const void* data, size_t bytes, int to, int tag);
  /// Into `data` when all have arrived.
  void receive(void* data, size_t bytes, int from, int tag);
  /// False if given up, which is asked for between polls.
  bool finish(const std::function<bool()>& give_up);

 private:
  struct Part {
    MPI_Request request = MPI_REQUEST_NULL;
    Bytes bytes;
    void* target = nullptr;
  };
  std::vector<Part> parts_;
};

}  // namespace bora::nccl_double
