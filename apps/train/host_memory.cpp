// SPDX-License-Identifier: Apache-2.0
#include "apps/train/host_memory.hpp"

#include <algorithm>
#include <fstream>
#include <optional>
#include <sstream>
#include <vector>

#include "kernels/cuda/device.hpp"

namespace bora::train {
namespace {

/// A file with one number; nothing where there is none, or "max".
std::optional<int64_t> number_in(const std::string& path) {
  std::ifstream in(path);
  int64_t value = 0;
  if (!(in >> value)) return {};
  return value;
}

/// The number behind `key` in lines "key number ...".
std::optional<int64_t> number_of(const std::string& path, const std::string& key) {
  std::ifstream in(path);
  std::string line;
  while (std::getline(in, line)) {
    std::istringstream words(line);
    std::string word;
    int64_t value = 0;
    if (words >> word >> value && word == key) return value;
  }
  return {};
}

/// A group's folder and those above it, up to the root of the hierarchy.
std::vector<std::string> with_parents(const std::string& root, std::string group) {
  std::vector<std::string> folders;
  while (!group.empty() && group != "/") {
    folders.push_back(root + group);
    group.resize(group.find_last_of('/') == std::string::npos ? 0 : group.find_last_of('/'));
  }
  folders.push_back(root);
  return folders;
}

/// The groups of this process that may limit its memory: lines "0::/path" (version 2) and
/// "n:memory:/path" (version 1) of /proc/self/cgroup.
struct Groups {
  std::string unified, memory;
};
Groups groups_of_process(const std::string& proc) {
  Groups groups;
  std::ifstream in(proc + "/self/cgroup");
  std::string line;
  while (std::getline(in, line)) {
    const size_t a = line.find(':'), b = line.find(':', a + 1);
    if (a == std::string::npos || b == std::string::npos) continue;
    const std::string controllers = "," + line.substr(a + 1, b - a - 1) + ",";
    if (controllers == ",,") groups.unified = line.substr(b + 1);
    if (controllers.find(",memory,") != std::string::npos) groups.memory = line.substr(b + 1);
  }
  return groups;
}

void take_smaller(FreeMemory& free, int64_t bytes, const char* reason) {
  if (free.bytes >= 0 && free.bytes <= bytes) return;
  free = {std::max<int64_t>(bytes, 0), reason};
}

}  // namespace

FreeMemory free_host_memory(const MemorySources& sources) {
  FreeMemory free{-1, "nobody says"};
  if (const auto kib = number_of(sources.proc + "/meminfo", "MemAvailable:"))
    take_smaller(free, *kib * 1024, "free on the host");
  const Groups groups = groups_of_process(sources.proc);
  const char* const limit_text = "left by the limit of the job's control group";
  for (const std::string& folder : with_parents(sources.cgroup, groups.unified)) {
    const auto limit = number_in(folder + "/memory.max"),
               used = number_in(folder + "/memory.current");
    if (!limit || !used) continue;
    const int64_t cache = number_of(folder + "/memory.stat", "inactive_file").value_or(0);
    take_smaller(free, *limit - *used + cache, limit_text);
  }
  for (const std::string& folder : with_parents(sources.cgroup + "/memory", groups.memory)) {
    const auto limit = number_in(folder + "/memory.limit_in_bytes"),
               used = number_in(folder + "/memory.usage_in_bytes");
    if (!limit || !used) continue;  // without a limit there stands a number near 2^63
    const int64_t cache = number_of(folder + "/memory.stat", "total_inactive_file").value_or(0);
    take_smaller(free, *limit - *used + cache, limit_text);
  }
  return free;
}

FreeMemory free_memory(Device device) {
  if (device == cpu()) return free_host_memory();
  const int64_t bytes = kernels::cuda::free_device_memory(device.index);
  if (bytes < 0) return free_host_memory();
  return {bytes, "free on the GPU"};
}

}  // namespace bora::train
