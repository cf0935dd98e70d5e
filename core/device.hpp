// SPDX-License-Identifier: Apache-2.0
// Device: where a tensor's bytes are.
#pragma once

#include <ostream>

namespace bora {

enum class DeviceType { cpu, cuda };

struct Device {
  DeviceType type = DeviceType::cpu;
  int index = 0;
  friend bool operator==(const Device&, const Device&) = default;
};

constexpr Device cpu() { return {DeviceType::cpu, 0}; }
constexpr Device cuda(int index) { return {DeviceType::cuda, index}; }

inline std::ostream& operator<<(std::ostream& out, Device d) {
  return d.type == DeviceType::cpu ? out << "cpu" : out << "cuda:" << d.index;
}

}  // namespace bora
