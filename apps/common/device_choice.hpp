// SPDX-License-Identifier: Apache-2.0
// What a process computes on: the CPU or one CUDA device, and why.
#pragma once

#include <string>
#include <vector>

#include "comm/mpi.hpp"
#include "core/collective.hpp"
#include "core/device.hpp"

namespace bora::apps {

/// What this process could compute on.
struct DeviceSight {
  int n_devices = 0;      ///< CUDA devices that it sees
  std::string why_none;   ///< where there are none: "built without CUDA", "no CUDA driver", ...
  bool emulated = false;  ///< the device is the emulator of a test build, on host memory
};
DeviceSight look_for_devices();

/// What it computes on.
struct DeviceChoice {
  Device device = cpu();
  std::string reason;  ///< "built without CUDA"; of a CUDA device its name and memory
  std::string uuid;    ///< of a CUDA device

  /// "cpu (built without CUDA)", "cuda:0 NVIDIA H200, 140 GiB".
  std::string text() const;
};

/// Pure: what `wanted` ("auto", "cpu" or "cuda") comes to for a rank that sees so much.  auto is a
/// CUDA device where there is one (not the emulator, which is for tests), else the CPU.  The device
/// is the rank's own on its host (comm/nccl_place.hpp).  Throws UsageError, with what to do, for
/// "cuda" where there is no device, and where a host has more ranks than devices.
DeviceChoice decide_device(const std::string& wanted, const DeviceSight& sight, int local_rank,
                           int local_size);

/// Collective over `ranks` (host memory): the choice of this rank, after which its backend is in
/// place.  All ranks throw if one cannot have what is wanted, if some would compute on CUDA devices
/// and others on the CPU, or if two ranks of a host have one device.
DeviceChoice choose_device(const std::string& wanted, const MpiSession& session, Collective& ranks);

/// One line on what there is, for `info` and `diagnose`: "cpu (no CUDA driver)", "2 CUDA devices:
/// 0 NVIDIA H200, 140 GiB; 1 ...".
std::string describe_devices();

/// What is wrong with the choices of all ranks, as choose_device() refuses; empty if nothing is.
std::string choices_fault(const std::vector<std::string>& hosts,
                          const std::vector<DeviceChoice>& choices);

}  // namespace bora::apps
