// SPDX-License-Identifier: Apache-2.0
#include "comm/nccl_place.hpp"

#include "core/error.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <map>

namespace bora {
namespace {

template <class... Parts>
[[noreturn]] void refuse(const Parts&... parts) {
  throw UsageError(detail::join(parts...));
}

void check_visible(int n_visible) {
  if (n_visible < 1)
    refuse("no CUDA device is visible to this process: ask the scheduler for one device a task ",
           "(Slurm: --gpus-per-task=1), look at CUDA_VISIBLE_DEVICES, or run on CPUs");
}

int to_int(const std::string& text) {
  int value = 0;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), value);
  BORA_CHECK(fault == std::errc() && end == text.data() + text.size(),
             "DeviceClaim: wants a number, got '", text, "'");
  return value;
}

std::string listed(const std::vector<int>& ranks) {
  std::string text;
  for (size_t i = 0; i < ranks.size(); ++i) text += (i > 0 ? ", " : "") + std::to_string(ranks[i]);
  return text;
}

}  // namespace

int device_for(int local_rank, int local_size, int n_visible) {
  if (local_size < 1 || local_rank < 0 || local_rank >= local_size)
    refuse("device choice: local rank ", local_rank, " of ", local_size,
           " ranks on this host: ", "wants a rank of 0..", local_size - 1,
           " counted on this host, not the global rank");
  check_visible(n_visible);
  if (n_visible == 1) return 0;  // the scheduler's choice for this task, or a host with one
  if (local_rank >= n_visible)
    refuse("device choice: local rank ", local_rank, " has no device: ", local_size,
           " ranks on this host, ", n_visible, " devices visible, and each rank needs its own. ",
           "Start ", n_visible, " ranks a host (Slurm: --ntasks-per-node=", n_visible,
           "; mpirun: --map-by ppr:", n_visible, ":node) or ask for ", local_size,
           " devices a host (Slurm: --gpus-per-node=", local_size, ")");
  return local_rank;
}

int device_for(const std::vector<int>& wanted, const NcclPlace& place, int n_visible) {
  if (wanted.size() > 1)
    refuse("one process drives one device, but ", wanted.size(), " were listed (", listed(wanted),
           "): name one, or none so that the local rank decides, and start one rank a device");
  if (wanted.empty()) return device_for(place.local_rank, place.local_size, n_visible);
  check_visible(n_visible);
  if (wanted[0] < 0 || wanted[0] >= n_visible)
    refuse("device ", wanted[0], " was asked for, but ", n_visible,
           n_visible == 1 ? " device is visible (index 0)" : " devices are visible (from 0)");
  return wanted[0];
}

std::string DeviceClaim::text() const {
  return detail::join(rank, '\t', host, '\t', device, '\t', uuid, '\t', name, '\t', version);
}

DeviceClaim DeviceClaim::from_text(const std::string& text) {
  std::array<std::string, 6> fields;
  size_t field = 0;
  for (char c : text) {
    if (c == '\t') {
      ++field;
      BORA_CHECK(field < fields.size(), "DeviceClaim: too many fields in '", text, "'");
    } else {
      fields[field] += c;
    }
  }
  BORA_CHECK(field + 1 == fields.size(), "DeviceClaim: wants 6 fields, got '", text, "'");
  return {to_int(fields[0]), fields[1], to_int(fields[2]), fields[3], fields[4], fields[5]};
}

std::string claims_fault(const std::vector<DeviceClaim>& claims) {
  std::map<std::string, std::vector<int>> by_version;
  std::map<std::pair<std::string, std::string>, const DeviceClaim*> taken;
  for (const DeviceClaim& claim : claims) {
    by_version[claim.version].push_back(claim.rank);
    const auto [place, is_new] = taken.try_emplace({claim.host, claim.uuid}, &claim);
    if (is_new) continue;
    const DeviceClaim& other = *place->second;
    return detail::join("ranks ", other.rank, " and ", claim.rank, " on host ", claim.host,
                        " have taken the same device, ", claim.uuid, " (", claim.name, "; index ",
                        other.device, " for rank ", other.rank, ", ", claim.device, " for rank ",
                        claim.rank, "): start one rank a device, and let the scheduler show each ",
                        "rank a device of its own, or all ranks all devices of the host");
  }
  if (by_version.size() < 2) return {};
  std::string text = "the ranks run different libraries: ";
  for (const auto& [version, ranks] : by_version)
    text += detail::join(text.back() == ' ' && text.size() < 40 ? "" : "; ", version, " on ",
                         ranks.size() > 1 ? "ranks " : "rank ", listed(ranks));
  return text + ". Use one installation on all hosts (look at LD_LIBRARY_PATH and loaded modules)";
}

std::string claims_summary(const std::vector<DeviceClaim>& claims) {
  BORA_CHECK(!claims.empty(), "claims_summary: no claims");
  std::map<std::string, std::string> by_host;
  for (const DeviceClaim& c : claims)
    by_host[c.host] += detail::join(by_host[c.host].empty() ? "" : ", ", "rank ", c.rank, " -> ",
                                    c.device, " (", c.name, ")");
  std::string text =
      detail::join(claims[0].version, "; ", claims.size(), claims.size() == 1 ? " rank" : " ranks",
                   " on ", by_host.size(), by_host.size() == 1 ? " host" : " hosts");
  for (const auto& [host, ranks] : by_host) text += detail::join("; ", host, ": ", ranks);
  return text;
}

}  // namespace bora
