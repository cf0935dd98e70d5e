// SPDX-License-Identifier: Apache-2.0
#include "apps/common/device_choice.hpp"

#include <unistd.h>

#include "comm/nccl_place.hpp"
#include "core/error.hpp"
#include "kernels/cuda/device.hpp"

namespace bora::apps {
namespace {

using bora::detail::join;

/// One line, without its separator.
std::string encode(const std::string& host, const DeviceChoice& c) {
  return join(host, '\t', c.device.type == DeviceType::cuda ? c.device.index : -1, '\t', c.uuid,
              '\t', c.reason);
}

void decode(const std::string& text, std::string& host, DeviceChoice& c) {
  const size_t a = text.find('\t'), b = text.find('\t', a + 1), d = text.find('\t', b + 1);
  BORA_CHECK(d != std::string::npos, "no choice of a device: '", text, "'");
  host = text.substr(0, a);
  const int index = std::stoi(text.substr(a + 1, b - a - 1));
  c.device = index < 0 ? cpu() : cuda(index);
  c.uuid = text.substr(b + 1, d - b - 1);
  c.reason = text.substr(d + 1);
}

}  // namespace

std::string DeviceChoice::text() const {
  return device.type == DeviceType::cpu ? "cpu (" + reason + ")" : join(device, " ", reason);
}

DeviceChoice decide_device(const std::string& wanted, const DeviceSight& sight, int local_rank,
                           int local_size) {
  BORA_CHECK(wanted == "auto" || wanted == "cpu" || wanted == "cuda", "device '", wanted,
             "': wanted auto, cpu or cuda");
  if (wanted == "cpu") return {cpu(), "device=cpu", {}};
  if (sight.n_devices == 0) {
    // What to do about it is for those who want one.
    if (wanted == "auto") return {cpu(), sight.why_none.substr(0, sight.why_none.find(';')), {}};
    throw UsageError("device=cuda: there is no CUDA device here: " + sight.why_none +
                     ". Wanted cpu or auto, or a machine with a GPU, or one from the scheduler "
                     "(Slurm: --gpus-per-task=1)");
  }
  if (wanted == "auto" && sight.emulated)
    return {cpu(), "the CUDA device of this build is an emulator, for tests", {}};
  try {
    return {cuda(device_for(local_rank, local_size, sight.n_devices)), {}, {}};
  } catch (const UsageError& e) {
    throw UsageError(join("device=", wanted, ": ", e.what(), "; or train on CPUs (device=cpu)"));
  }
}

std::string choices_fault(const std::vector<std::string>& hosts,
                          const std::vector<DeviceChoice>& choices) {
  for (size_t r = 1; r < choices.size(); ++r) {
    if (choices[r].device.type != choices[0].device.type)
      return join("rank 0 on host ", hosts[0], " would compute on ", choices[0].text(), ", rank ",
                  r, " on host ", hosts[r], " on ", choices[r].text(),
                  ": all ranks must compute on the same kind of device; give each a GPU, or set "
                  "device=cpu");
    if (choices[r].device.type == DeviceType::cpu) continue;
    for (size_t q = 0; q < r; ++q)
      if (hosts[q] == hosts[r] && choices[q].uuid == choices[r].uuid)
        return join("ranks ", q, " and ", r, " on host ", hosts[r], " have taken the same device, ",
                    choices[r].text(), " (", choices[r].uuid,
                    "): start one rank a device, and let the scheduler show each rank a device of "
                    "its own, or all ranks all devices of the host");
  }
  return {};
}

DeviceChoice choose_device(const std::string& wanted, const MpiSession& session,
                           Collective& ranks) {
  DeviceChoice mine;
  ranks.agree("choosing devices", [&] {
    // Looking starts the driver, which takes half a second: not where the answer is known.
    const DeviceSight sight = wanted == "cpu" ? DeviceSight{} : look_for_devices();
    mine = decide_device(wanted, sight, session.local_rank(), session.local_size());
    if (mine.device.type == DeviceType::cpu) return;
    const int index = mine.device.index;
    mine.reason = kernels::cuda::device_description(index);
    mine.uuid = kernels::cuda::device_uuid(index);
    if (sight.emulated) mine.uuid += join(" of process ", ::getpid());  // each has its own
    kernels::cuda::install_cuda_backend();
    kernels::cuda::bind_device(index);
  });
  std::vector<std::string> hosts;
  std::vector<DeviceChoice> choices;
  for (const std::string& text : ranks.all_gather_text(encode(session.host(), mine), "devices"))
    decode(text, hosts.emplace_back(), choices.emplace_back());
  if (const std::string fault = choices_fault(hosts, choices); !fault.empty())
    throw UsageError("device=" + wanted + ": " + fault);
  return mine;
}

DeviceSight look_for_devices() {
  return {kernels::cuda::n_devices(), kernels::cuda::why_no_cuda(), kernels::cuda::is_emulated()};
}

std::string describe_devices() {
  const DeviceSight sight = look_for_devices();
  if (sight.n_devices == 0) return "cpu (" + sight.why_none + ")";
  std::string text =
      join("cpu, ", sight.n_devices, " CUDA device", sight.n_devices == 1 ? "" : "s", ":");
  for (int i = 0; i < sight.n_devices; ++i)
    text += join(i ? "; " : " ", i, " ", kernels::cuda::device_description(i));
  return text;
}

}  // namespace bora::apps
