// SPDX-License-Identifier: Apache-2.0
// How NCCL communicators come to be: the start over a host group, and splitting.
#include "comm/nccl_communicator.hpp"

#include "comm/nccl_group.hpp"
#include "comm/nccl_pairs.hpp"

#include <cuda_runtime_api.h>

#include <cstdio>
#include <cstring>
#include <functional>

namespace bora {
namespace {

void check_options(const NcclOptions& options) {
  const auto wants = [](bool fine, const auto&... parts) {
    if (!fine) throw UsageError(detail::join("NCCL communicator: ", parts...));
  };
  wants(options.timeout_s > 0 && options.first_timeout_s > 0 && options.inquest_s > 0,
        "time limits must be positive, got ", options.timeout_s, ", ", options.first_timeout_s,
        " and ", options.inquest_s, " s");
  wants(options.poll_s >= 0 && options.check_every >= 0 && options.max_ctas >= 0, "poll_s ",
        options.poll_s, ", check_every ", options.check_every, ", max_ctas ", options.max_ctas,
        ": wants no negative values");
}

/// Devices that this process sees; `why` says why there are none.
int visible_devices(std::string& why) {
  int n = 0;  // stays as it is when the call fails
  const cudaError_t code = cudaGetDeviceCount(&n);
  if (code != cudaSuccess) {
    why = CudaStatus::text(code);
    return 0;
  }
  if (n == 0) why = "the driver shows none";
  return n;
}

std::string uuid_text(const cudaUUID_t& uuid) {
  std::string text = "GPU-";
  for (size_t i = 0; i < sizeof(uuid.bytes); ++i) {
    char digits[4];
    std::snprintf(digits, sizeof(digits), "%02x", static_cast<unsigned char>(uuid.bytes[i]));
    text += digits;
    if (i == 3 || i == 5 || i == 7 || i == 9) text += '-';
  }
  return text;
}

std::string version_text() {
  int nccl = 0, runtime = 0;
  BORA_NCCL(ncclGetVersion(&nccl));
  BORA_CUDART(cudaRuntimeGetVersion(&runtime));
  return detail::join("NCCL ", nccl / 10000, '.', nccl / 100 % 100, '.', nccl % 100, ", CUDA ",
                      runtime / 1000, '.', runtime % 1000 / 10);
}

DeviceClaim claim_device(int rank, const NcclPlace& place, const NcclOptions& options) {
  std::string why;
  const int n_visible = visible_devices(why);
  if (n_visible == 0)
    throw UsageError(
        detail::join("NCCL communicator: no CUDA device on host ", place.host, ": ", why));
  DeviceClaim claim;
  claim.rank = rank;
  claim.host = place.host;
  claim.device = device_for(options.devices, place, n_visible);
  // Before anything else: what allocates memory or makes a stream must not do so on device 0.
  BORA_CUDART(cudaSetDevice(claim.device));
  cudaDeviceProp properties{};
  BORA_CUDART(cudaGetDeviceProperties(&properties, claim.device));
  claim.uuid = uuid_text(properties.uuid);
  claim.name = properties.name;
  claim.version = version_text();
  return claim;
}

/// Chooses devices on all ranks and refuses what does not fit together, before NCCL, which would
/// refuse later and in fewer words, or hang.
DeviceClaim agree_on_devices(Collective& host, const NcclPlace& place, const NcclOptions& options) {
  DeviceClaim mine;
  host.agree("choosing devices", [&] {
    check_options(options);
    mine = claim_device(host.rank(), place, options);
  });
  std::vector<DeviceClaim> claims;
  for (const std::string& text : host.all_gather_text(mine.text(), "devices of all ranks"))
    claims.push_back(DeviceClaim::from_text(text));
  const std::string fault = claims_fault(claims);
  BORA_CHECK(fault.empty(), "NCCL communicator: ", fault);
  if (host.rank() == 0) log_info(claims_summary(claims));
  return mine;
}

ncclUniqueId share_id(Collective& host) {
  ncclUniqueId id;
  std::memset(&id, 0, sizeof(id));
  host.agree("NCCL's id", [&] {
    if (host.rank() == 0) BORA_NCCL(ncclGetUniqueId(&id));
  });
  Tensor bytes = Tensor::zeros({static_cast<int64_t>(sizeof(id))}, DType::u8);
  std::memcpy(bytes.raw(), &id, sizeof(id));
  host.broadcast(bytes, 0, "NCCL's id");
  std::memcpy(&id, bytes.raw(), sizeof(id));
  return id;
}

/// Runs `body` on all ranks; if it fails on one, what the others have begun is ended.
void start_on_all(Collective& host, const char* what, NcclEngine& engine,
                  const std::function<void()>& body) {
  try {
    host.agree(what, body);
  } catch (const std::exception&) {
    engine.abort("the start has failed");
    engine.finalise(0);
    throw;
  }
}

/// Four bytes on the bound device.
class DeviceWord {
 public:
  DeviceWord() { BORA_CUDART(cudaMalloc(&data_, sizeof(int32_t))); }
  ~DeviceWord() { BORA_CUDART_WARN(cudaFree(data_)); }
  DeviceWord(const DeviceWord&) = delete;
  DeviceWord& operator=(const DeviceWord&) = delete;
  void* data() const { return data_; }

 private:
  void* data_ = nullptr;
};

/// The first operation: shows that all ranks reach each other before anything depends on it.
void try_out(NcclEngine& engine, int rank, int size, double limit_s) {
  engine.stream().bind();
  DeviceWord word;
  int32_t value = rank + 1;
  // On the communication stream, before the sum: from pageable memory cudaMemcpy may return before
  // the bytes have arrived, and a stream that does not wait for the default one would not see them.
  BORA_CUDART(cudaMemcpyAsync(word.data(), &value, sizeof(value), cudaMemcpyHostToDevice,
                              engine.stream().native()));
  NcclNote note;
  note.operation = "all_reduce";
  note.label = "start";
  note.type = DType::i32;
  note.count = 1;
  note.limit_s = limit_s;
  note.text = "the first operation, a sum of one element";
  engine.issue(std::move(note), {}, [&](ncclComm_t comm, cudaStream_t stream) {
    return ncclAllReduce(word.data(), word.data(), 1, ncclInt32, ncclSum, comm, stream);
  });
  engine.drain();
  BORA_CUDART(cudaMemcpy(&value, word.data(), sizeof(value), cudaMemcpyDeviceToHost));
  const int64_t wanted = int64_t{size} * (size + 1) / 2;
  BORA_CHECK(value == static_cast<int32_t>(wanted), engine.who(),
             ": the sum of the ranks' numbers is ", value, ", wants ", wanted,
             ": NCCL does not transport data rightly between these devices");
}

}  // namespace

std::string nccl_missing() {
  std::string why;
  return visible_devices(why) > 0 ? std::string() : "no CUDA device: " + why;
}

std::unique_ptr<NcclCommunicator> make_nccl_communicator(Collective& host, const NcclPlace& place,
                                                         const NcclOptions& options) {
  BORA_CHECK(host.device_type() == DeviceType::cpu,
             "NCCL communicator: wants a group for host memory to start over");
  const DeviceClaim mine = agree_on_devices(host, place, options);
  const std::string where = detail::join(place.host, ", device ", mine.device);
  const std::string who = detail::join("rank ", host.rank(), " (", where, ")");
  const ncclUniqueId id = share_id(host);
  const auto inquest = std::make_shared<NcclInquest>(host.split(0, host.rank()), options.inquest_s);
  const auto engine = std::make_shared<NcclEngine>(std::make_shared<NcclStream>(mine.device),
                                                   options, who, where, inquest);
  start_on_all(host, "starting NCCL", *engine, [&] {
    engine->start(
        [&](ncclComm_t* comm, ncclConfig_t* config) {
          return ncclCommInitRankConfig(comm, host.size(), id, host.rank(), config);
        },
        options.first_timeout_s);
    engine->watch();
    try_out(*engine, host.rank(), host.size(), options.first_timeout_s);
  });
  return std::make_unique<NcclGroup>(engine, host, nullptr, options);
}

std::unique_ptr<Collective> NcclGroup::split(int color, int key) {
  BORA_CHECK(color >= 0, "split: color ", color, " is negative");
  pairs_->flush();
  engine_->drain();  // NCCL wants nothing under way then
  const uint64_t number = announce({OperationKind::split, "split"}, /*compare_now=*/true);
  std::unique_ptr<Collective> part = host_.split(color, key);
  NcclOptions options = options_;
  // With the number of the split, since the same colors may be asked for again.
  options.name = detail::join(options_.name, "/split ", number, " color ", color);
  const auto inquest =
      std::make_shared<NcclInquest>(part->split(0, part->rank()), options.inquest_s);
  const std::string who =
      detail::join(engine_->who(), ", rank ", part->rank(), " of '", options.name, "'");
  const auto engine = std::make_shared<NcclEngine>(engine_->shared_stream(), options, who,
                                                   engine_->place(), inquest);
  start_on_all(host_, "splitting NCCL", *engine, [&] {
    engine->start_split(*engine_, color, key, options.first_timeout_s);
    engine->watch();
  });
  Collective& host = *part;
  return std::make_unique<NcclGroup>(engine, host, std::move(part), options);
}

}  // namespace bora
