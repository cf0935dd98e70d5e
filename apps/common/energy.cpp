// SPDX-License-Identifier: Apache-2.0
#include "apps/common/energy.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "core/profile.hpp"

namespace bora::apps {
namespace {

constexpr double kSample_s = 10;

struct Reading {
  Counter state = Counter::absent;
  std::string text;
};

/// The first line of a small file of the kernel's.
Reading read_line(const std::string& path) {
  std::error_code failure;
  if (!std::filesystem::exists(path, failure)) return {};
  std::ifstream in(path);
  std::string line;
  if (!std::getline(in, line)) return {Counter::not_readable, {}};
  return {Counter::counted, line};
}

std::optional<uint64_t> number_in(const std::string& path) {
  const std::string text = read_line(path).text;
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end == text.data()) return {};
  return value;
}

}  // namespace

/// The three functions of NVML that are used, with its types: nvmlReturn_t is an enum with success
/// 0, nvmlDevice_t a pointer.  Source: NVIDIA, NVML API Reference Guide.
struct EnergyMeter::Gpu {
  void* library = nullptr;
  void* device = nullptr;
  int (*energy_mj)(void*, unsigned long long*) = nullptr;
  int (*shutdown)() = nullptr;
  unsigned long long last_mj = 0;
  ~Gpu() {
    if (shutdown != nullptr) shutdown();
    if (library != nullptr) ::dlclose(library);
  }
};

EnergyMeter::EnergyMeter(EnergySources sources) {
  if (!sources.powercap.empty()) open_rapl(sources.powercap);
  if (!sources.gpu_uuid.empty()) open_gpu(sources);
  last_s_ = now_s();
}

EnergyMeter::~EnergyMeter() = default;

// Zones intel-rapl:0, :1, ... are packages; a package's own zones intel-rapl:0:0, ... are parts of
// it, but for "dram", which on servers it does not hold.  "psys" holds all the others, and the
// zones intel-rapl-mmio:* are the same counters a second time.
void EnergyMeter::open_rapl(const std::string& folder) {
  std::error_code failure;
  for (const auto& entry : std::filesystem::directory_iterator(folder, failure)) {
    const std::string zone = entry.path().filename().string();
    if (!zone.starts_with("intel-rapl:")) continue;
    const std::string path = entry.path().string();
    const std::string name = read_line(path + "/name").text;
    const bool package = std::count(zone.begin(), zone.end(), ':') == 1;
    if (package ? !name.starts_with("package") : name != "dram") continue;
    const Reading energy = read_line(path + "/energy_uj");
    const std::optional<uint64_t> range = number_in(path + "/max_energy_range_uj");
    const std::optional<uint64_t> now = number_in(path + "/energy_uj");
    if (energy.state == Counter::not_readable || !range || !now) {
      if (energy.state != Counter::absent) energy_.cpu = Counter::not_readable;
      continue;
    }
    zones_.push_back({path + "/energy_uj", *now, *range});
  }
  // A sum without some of its parts would be taken for the whole.
  if (energy_.cpu == Counter::not_readable) zones_.clear();
  if (!zones_.empty()) energy_.cpu = Counter::counted;
}

void EnergyMeter::open_gpu(const EnergySources& sources) {
  auto gpu = std::make_unique<Gpu>();
  gpu->library = ::dlopen(sources.nvml.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (gpu->library == nullptr) return;
  const auto find = [&](auto& function, const char* name) {
    function = reinterpret_cast<std::decay_t<decltype(function)>>(::dlsym(gpu->library, name));
    return function != nullptr;
  };
  int (*init)() = nullptr;
  int (*shutdown)() = nullptr;
  int (*by_uuid)(const char*, void**) = nullptr;
  if (!find(init, "nvmlInit_v2") || !find(shutdown, "nvmlShutdown") ||
      !find(by_uuid, "nvmlDeviceGetHandleByUUID") ||
      !find(gpu->energy_mj, "nvmlDeviceGetTotalEnergyConsumption") || init() != 0)
    return;
  gpu->shutdown = shutdown;
  if (by_uuid(sources.gpu_uuid.c_str(), &gpu->device) != 0) return;  // a part of a GPU (MIG)
  // Boards before Volta do not count; in some containers it is not permitted.
  constexpr int kNotSupported = 3;
  const int code = gpu->energy_mj(gpu->device, &gpu->last_mj);
  energy_.gpu = code == 0               ? Counter::counted
                : code == kNotSupported ? Counter::absent
                                        : Counter::not_readable;
  if (code == 0) gpu_ = std::move(gpu);
}

void EnergyMeter::sample() {
  if ((zones_.empty() && !gpu_) || now_s() - last_s_ < kSample_s) return;
  read();
}

Energy EnergyMeter::read() {
  last_s_ = now_s();
  for (Zone& zone : zones_) {
    const std::optional<uint64_t> now = number_in(zone.path);
    if (!now) {
      energy_.cpu = Counter::not_readable;
      break;
    }
    const uint64_t wrapped = *now < zone.last_uj ? zone.range_uj : 0;
    energy_.cpu_j += 1e-6 * static_cast<double>(*now + wrapped - zone.last_uj);
    zone.last_uj = *now;
  }
  if (energy_.cpu == Counter::not_readable) zones_.clear();
  if (gpu_) {
    unsigned long long now = 0;
    if (gpu_->energy_mj(gpu_->device, &now) == 0 && now >= gpu_->last_mj) {
      energy_.gpu_j += 1e-3 * static_cast<double>(now - gpu_->last_mj);
      gpu_->last_mj = now;
    } else {  // the driver was loaded anew, or the board is lost
      energy_.gpu = Counter::not_readable;
      gpu_.reset();
    }
  }
  return energy_;
}

}  // namespace bora::apps
