// SPDX-License-Identifier: Apache-2.0
#include "comm/mpi_transport.hpp"

#include <cstring>

namespace bora {
namespace {

// MPI's handle is a pointer or an int, never of value 0; ours is 0 when done.
MPI_Request unwrap(const Request& request) {
  MPI_Request out = MPI_REQUEST_NULL;
  if (request.id != 0) std::memcpy(&out, &request.id, sizeof(out));
  return out;
}

int as_count(int64_t bytes) {
  BORA_CHECK(bytes >= 0 && bytes <= INT32_MAX, "a message of ", bytes,
             " bytes; MPI takes at most 2^31 - 1 at once");
  return static_cast<int>(bytes);
}

}  // namespace

MpiGate mpi_gate() {
  static std::mutex mutex;
  return MpiGate(mutex);
}

Request MpiTransport::wrap(MPI_Request request) {
  static_assert(sizeof(MPI_Request) <= sizeof(uint64_t));
  Request out;
  if (request != MPI_REQUEST_NULL) std::memcpy(&out.id, &request, sizeof(request));
  return out;
}

MpiTransport::MpiTransport(MPI_Comm comm, Ownership ownership)
    : comm_(comm), ownership_(ownership) {
  BORA_MPI(MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN));
  BORA_MPI(MPI_Comm_rank(comm_, &rank_));
  BORA_MPI(MPI_Comm_size(comm_, &size_));
}

MpiTransport::~MpiTransport() {
  if (ownership_ == Ownership::owned) BORA_MPI_WARN(MPI_Comm_free(&comm_));
}

Request MpiTransport::send(const void* data, int64_t bytes, int peer, int tag) {
  MPI_Request request = MPI_REQUEST_NULL;
  const MpiGate gate = mpi_gate();
  BORA_MPI(MPI_Isend(data, as_count(bytes), MPI_BYTE, peer, tag, comm_, &request));
  return wrap(request);
}

Request MpiTransport::receive(void* data, int64_t bytes, int peer, int tag) {
  MPI_Request request = MPI_REQUEST_NULL;
  const MpiGate gate = mpi_gate();
  BORA_MPI(MPI_Irecv(data, as_count(bytes), MPI_BYTE, peer, tag, comm_, &request));
  return wrap(request);
}

bool MpiTransport::test(std::span<Request> requests) {
  // As MPI wants them: side by side.  Only what is under way.
  thread_local std::vector<MPI_Request> handles;
  handles.clear();
  for (const Request& request : requests)
    if (request.id != 0) handles.push_back(unwrap(request));
  if (handles.empty()) return true;
  int done = 0;
  {
    const MpiGate gate = mpi_gate();
    BORA_MPI(
        MPI_Testall(static_cast<int>(handles.size()), handles.data(), &done, MPI_STATUSES_IGNORE));
  }
  if (!done) return false;  // then MPI has changed none of them
  for (Request& request : requests) request = {};
  return true;
}

bool MpiTransport::test_unwanted(Request& request) {
  MPI_Request handle = unwrap(request);
  int done = 0;
  const MpiGate gate = mpi_gate();
  MPI_Test(&handle, &done, MPI_STATUS_IGNORE);
  request = wrap(handle);
  return done != 0 || request.id == 0;
}

void MpiTransport::cancel(Request& request) {
  if (request.id == 0) return;
  MPI_Request handle = unwrap(request);
  const MpiGate gate = mpi_gate();
  BORA_MPI(MPI_Cancel(&handle));
}

int MpiTransport::take(void* data, int64_t bytes, int tag) {
  int there = 0;
  MPI_Status status;
  const MpiGate gate = mpi_gate();
  BORA_MPI(MPI_Iprobe(MPI_ANY_SOURCE, tag, comm_, &there, &status));
  if (!there) return -1;
  const int from = status.MPI_SOURCE;
  BORA_MPI(MPI_Recv(data, as_count(bytes), MPI_BYTE, from, tag, comm_, MPI_STATUS_IGNORE));
  return from;
}

void MpiTransport::progress() {
  constexpr int kAnyTag = 2;  // which one does not matter
  int there = 0;
  const MpiGate gate = mpi_gate();
  BORA_MPI(MPI_Iprobe(MPI_ANY_SOURCE, kAnyTag, comm_, &there, MPI_STATUS_IGNORE));
}

void MpiTransport::start_all_gather(const void* mine, int64_t bytes, void* all,
                                    std::vector<Request>& requests) {
  MPI_Request request = MPI_REQUEST_NULL;
  const int n = as_count(bytes);
  const MpiGate gate = mpi_gate();
  BORA_MPI(MPI_Iallgather(mine, n, MPI_BYTE, all, n, MPI_BYTE, comm_, &request));
  requests.push_back(wrap(request));
}

bool MpiTransport::start_broadcast(void* data, int64_t bytes, int root,
                                   std::vector<Request>& requests) {
  MPI_Request request = MPI_REQUEST_NULL;
  const MpiGate gate = mpi_gate();
  BORA_MPI(MPI_Ibcast(data, as_count(bytes), MPI_BYTE, root, comm_, &request));
  requests.push_back(wrap(request));
  return true;
}

std::vector<int> MpiTransport::lowest_on_host() {
  MPI_Comm local = MPI_COMM_NULL;
  BORA_MPI(MPI_Comm_split_type(comm_, MPI_COMM_TYPE_SHARED, rank_, MPI_INFO_NULL, &local));
  int lowest = rank_;
  BORA_MPI(MPI_Bcast(&lowest, 1, MPI_INT, 0, local));
  BORA_MPI(MPI_Comm_free(&local));
  std::vector<int> all(static_cast<size_t>(size_));
  BORA_MPI(MPI_Allgather(&lowest, 1, MPI_INT, all.data(), 1, MPI_INT, comm_));
  return all;
}

std::unique_ptr<Transport> MpiTransport::split(int color, int key) {
  MPI_Comm part = MPI_COMM_NULL;
  BORA_MPI(MPI_Comm_split(comm_, color, key, &part));
  return std::make_unique<MpiTransport>(part, Ownership::owned);
}

}  // namespace bora
