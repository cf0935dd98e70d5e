// SPDX-License-Identifier: Apache-2.0
// The nccl* symbols: communicators, groups, states.  What operations do is in nccl_work.cpp.
#include "tests/nccl_double/nccl_double.hpp"

#include "tests/nccl_double/cuda_double.hpp"
#include "tests/nccl_double/nccl_work.hpp"

#include <cstring>
#include <map>
#include <utility>

namespace bora::nccl_double {
namespace {

std::mutex g_mutex;
Faults g_faults;
std::map<ncclComm*, std::shared_ptr<Group>> g_alive;
std::atomic<int64_t> g_misuses{0};
std::atomic<int> g_serial{1};

constexpr uint64_t kMagic = 0x426f7261446f7562;
struct Id {
  uint64_t magic = kMagic;
  int root = 0;  // rank of the world that made it
  int serial = 0;
};

struct Pending {
  std::shared_ptr<Group> group;
  Operation operation;
  CUstream_st* stream = nullptr;
};
thread_local int t_depth = 0;
thread_local std::vector<Pending> t_pending;

std::shared_ptr<Group> find(ncclComm_t comm) {
  const std::lock_guard lock(g_mutex);
  const auto found = g_alive.find(comm);
  if (found != g_alive.end()) return found->second;
  ++g_misuses;
  return nullptr;
}

ncclComm_t adopt(std::shared_ptr<Group> group) {
  auto* handle = reinterpret_cast<ncclComm*>(group.get());  // opaque to everybody
  const std::lock_guard lock(g_mutex);
  g_alive[handle] = std::move(group);
  return handle;
}

void forget(ncclComm_t comm) {
  const std::lock_guard lock(g_mutex);
  g_alive.erase(comm);
}

// Operations of one stream, in order; sends and receives of a group together.
ncclResult_t launch(std::vector<Pending> pending) {
  std::map<std::pair<Group*, CUstream_st*>, std::vector<Operation>> by_stream;
  std::map<Group*, std::shared_ptr<Group>> groups;
  for (Pending& p : pending) {
    groups[p.group.get()] = p.group;
    by_stream[{p.group.get(), p.stream}].push_back(p.operation);
  }
  ncclResult_t code = ncclSuccess;
  for (auto& [where, operations] : by_stream) {
    const auto& group = groups[where.first];
    if (group->polls_left > 0 || group->state() == ncclInProgress) ++g_misuses;
    const ncclResult_t answer = group->issue(std::move(operations), *where.second);
    if (answer != ncclSuccess) code = answer;
  }
  return code;
}

ncclResult_t add(ncclComm_t comm, const Operation& operation, cudaStream_t stream) {
  const auto group = find(comm);
  if (!group) return ncclInvalidArgument;
  Pending pending{group, operation, &stream_of(stream)};
  if (t_depth > 0) {
    t_pending.push_back(std::move(pending));
    return ncclSuccess;
  }
  return launch({std::move(pending)});
}

}  // namespace

Faults faults() {
  const std::lock_guard lock(g_mutex);
  return g_faults;
}

void set_faults(const Faults& faults) {
  const std::lock_guard lock(g_mutex);
  g_faults = faults;
}

int next_serial() { return g_serial++; }

void start() { open_world(); }
void stop() { close_world(); }

Counters counters() {
  Counters c;
  {
    const std::lock_guard lock(g_mutex);
    c.communicators = static_cast<int64_t>(g_alive.size());
  }
  c.streams = g_streams;
  c.events = g_events;
  c.allocations = g_allocations;
  c.operations = g_completed;
  c.misuses = g_misuses;
  return c;
}

}  // namespace bora::nccl_double

using namespace bora::nccl_double;  // the definitions below are NCCL's own names

extern "C" {

ncclResult_t ncclGetVersion(int* version) {
  const int other = faults().version;
  *version = other > 0 ? other : NCCL_VERSION_CODE;
  return ncclSuccess;
}

ncclResult_t ncclGetUniqueId(ncclUniqueId* out) {
  static_assert(sizeof(Id) <= sizeof(*out));
  Id id;
  id.root = world_rank();
  id.serial = next_serial();
  std::memset(out, 0, sizeof(*out));
  std::memcpy(out->internal, &id, sizeof(id));
  return ncclSuccess;
}

const char* ncclGetErrorString(ncclResult_t result) {
  switch (result) {
    case ncclSuccess:
      return "no error";
    case ncclSystemError:
      return "unhandled system error";
    case ncclRemoteError:
      return "remote process exited or there was a network error";
    case ncclInvalidUsage:
      return "invalid usage";
    case ncclInvalidArgument:
      return "invalid argument";
    case ncclInProgress:
      return "NCCL operation in progress";
    default:
      return "another error";
  }
}

const char* ncclGetLastError(ncclComm_t) { return "said by the double"; }

ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int nranks, ncclUniqueId unique, int rank,
                                    ncclConfig_t* config) {
  Id id;
  std::memcpy(&id, unique.internal, sizeof(id));
  if (id.magic != kMagic || config == nullptr || config->magic != 0xcafebeef || rank < 0 ||
      rank >= nranks)
    return ncclInvalidArgument;
  if (faults().init_fails) return ncclSystemError;
  auto group = std::make_shared<Group>(rank, nranks, config->blocking == 0);
  group->meet(id.root, id.serial);
  const bool wait = config->blocking != 0;
  Group& g = *group;
  *comm = adopt(std::move(group));
  while (wait && g.state() == ncclInProgress) std::this_thread::yield();
  return wait ? g.state() : ncclInProgress;
}

ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t* part, ncclConfig_t*) {
  const auto group = find(comm);
  if (!group) return ncclInvalidArgument;
  auto child = std::make_shared<Group>(-1, -1, true);
  child->meet_in(group, color, key);
  *part = adopt(std::move(child));
  return ncclInProgress;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* error) {
  const auto group = find(comm);
  if (!group) return ncclInvalidArgument;
  *error = group->poll();
  return ncclSuccess;
}

ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  const auto group = find(comm);
  if (!group) return ncclInvalidArgument;
  group->finalise();
  return ncclInProgress;
}

ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  const auto group = find(comm);
  if (!group) return ncclInvalidArgument;
  if (!group->finalised()) ++g_misuses;  // would block
  forget(comm);
  return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t comm) {
  const auto group = find(comm);
  if (!group) return ncclInvalidArgument;
  group->abort();
  forget(comm);
  return ncclSuccess;
}

ncclResult_t ncclGroupStart() {
  ++t_depth;
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd() {
  if (t_depth == 0) return ncclInvalidUsage;
  if (--t_depth > 0) return ncclSuccess;
  return launch(std::exchange(t_pending, {}));
}

ncclResult_t ncclAllReduce(const void* in, void* out, size_t count, ncclDataType_t type,
                           ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  return add(comm, {Kind::all_reduce, in, out, count, type, op, -1}, stream);
}

ncclResult_t ncclReduce(const void* in, void* out, size_t count, ncclDataType_t type,
                        ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream) {
  return add(comm, {Kind::reduce, in, out, count, type, op, root}, stream);
}

ncclResult_t ncclBroadcast(const void* in, void* out, size_t count, ncclDataType_t type, int root,
                           ncclComm_t comm, cudaStream_t stream) {
  return add(comm, {Kind::broadcast, in, out, count, type, ncclSum, root}, stream);
}

ncclResult_t ncclAllGather(const void* in, void* out, size_t count, ncclDataType_t type,
                           ncclComm_t comm, cudaStream_t stream) {
  return add(comm, {Kind::all_gather, in, out, count, type, ncclSum, -1}, stream);
}

ncclResult_t ncclReduceScatter(const void* in, void* out, size_t count, ncclDataType_t type,
                               ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  return add(comm, {Kind::reduce_scatter, in, out, count, type, op, -1}, stream);
}

ncclResult_t ncclSend(const void* in, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return add(comm, {Kind::send, in, nullptr, count, type, ncclSum, peer}, stream);
}

ncclResult_t ncclRecv(void* out, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return add(comm, {Kind::receive, nullptr, out, count, type, ncclSum, peer}, stream);
}

}  // extern "C"
