// SPDX-License-Identifier: Apache-2.0
// EnergyMeter: what a host's CPUs and a GPU have used, where the platform counts it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace bora::apps {

/// Where energy is counted.  Another value than the default is for tests.
struct EnergySources {
  /// Linux's power capping folder with Intel's RAPL counters (AMD's CPUs have the same ones there).
  /// They count the whole host: empty on all ranks of a host but one.
  std::string powercap = "/sys/class/powercap";
  /// The library of NVIDIA's driver, and the GPU ("GPU-..."); no GPU: empty.
  std::string nvml = "libnvidia-ml.so.1";
  std::string gpu_uuid{};
};

/// Whether a counter could be used.
enum class Counter : uint8_t {
  absent,        ///< the platform has none, or nobody asked
  not_readable,  ///< it is there, but may not be read (since 2020 Linux lets only root read RAPL)
  counted
};

/// Since the meter was made.
struct Energy {
  Counter cpu = Counter::absent, gpu = Counter::absent;
  double cpu_j = 0;  ///< packages and memory of the host, with whatever else ran there
  double gpu_j = 0;  ///< the whole board
};

/// Counts from its making on.  RAPL's counters wrap, at full power after some 15 minutes: sample()
/// must be called more often.  A counter that fails later on stops counting, and says so.
class EnergyMeter {
 public:
  explicit EnergyMeter(EnergySources sources = {});
  ~EnergyMeter();
  EnergyMeter(const EnergyMeter&) = delete;
  EnergyMeter& operator=(const EnergyMeter&) = delete;

  /// Reads the counters, if the last reading is older than 10 s: to be called at every step.
  void sample();
  /// Reads them now.
  Energy read();

 private:
  struct Zone {
    std::string path;       ///< of its file energy_uj
    uint64_t last_uj = 0;   ///< at the last reading
    uint64_t range_uj = 0;  ///< where it wraps
  };
  void open_rapl(const std::string& folder);
  void open_gpu(const EnergySources& sources);

  std::vector<Zone> zones_;
  struct Gpu;
  std::unique_ptr<Gpu> gpu_;
  Energy energy_;
  double last_s_ = 0;
};

}  // namespace bora::apps
