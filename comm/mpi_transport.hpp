// SPDX-License-Identifier: Apache-2.0
// Inner header of comm: bytes by MPI.
#pragma once

#include "comm/mpi_status.hpp"
#include "comm/transport.hpp"

namespace bora {

/// An MPI communicator.  Lets the threads of a process into MPI one at a time (mpi_gate).
class MpiTransport final : public Transport {
 public:
  enum class Ownership { borrowed, owned };
  /// `owned`: frees `comm` at the end; nobody else may use it then.
  MpiTransport(MPI_Comm comm, Ownership ownership);
  ~MpiTransport() override;

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  const char* name() const override { return "MPI"; }
  MPI_Comm comm() const { return comm_; }

  Request send(const void* data, int64_t bytes, int peer, int tag) override;
  Request receive(void* data, int64_t bytes, int peer, int tag) override;
  bool test(std::span<Request> requests) override;
  bool test_unwanted(Request& request) override;
  void cancel(Request& request) override;
  int take(void* data, int64_t bytes, int tag) override;
  void progress() override;
  void start_all_gather(const void* mine, int64_t bytes, void* all,
                        std::vector<Request>& requests) override;
  bool start_broadcast(void* data, int64_t bytes, int root,
                       std::vector<Request>& requests) override;
  std::vector<int> lowest_on_host() override;
  std::unique_ptr<Transport> split(int color, int key) override;

  static Request wrap(MPI_Request request);

 private:
  MPI_Comm comm_;
  Ownership ownership_;
  int rank_ = 0, size_ = 1;
};

}  // namespace bora
