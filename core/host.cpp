// SPDX-License-Identifier: Apache-2.0
#include "core/host.hpp"

#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <sstream>

namespace bora {
namespace {

struct ProcessStat {
  char state = 0;    // 0: /proc does not show it
  int64_t born = 0;  // its start
  bool ended() const { return state == 'Z' || state == 'X'; }
};

ProcessStat stat_of(int64_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  // The name, in parentheses, may hold anything; then: state, and 19 fields on, the start.
  const size_t end = text.rfind(')');
  if (end == std::string::npos) return {};
  std::istringstream fields(text.substr(end + 1));
  std::string field;
  ProcessStat stat;
  for (int i = 0; i < 20 && fields >> field; ++i)
    if (i == 0) stat.state = field[0];
  if (fields) stat.born = std::atoll(field.c_str());
  return stat;
}

}  // namespace

std::string host_name() {
  char name[256] = {};
  return ::gethostname(name, sizeof name - 1) == 0 && name[0] != 0 ? name : "host";
}

std::string boot_id() {
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  return boot;
}

int64_t process_born(int64_t pid) {
  const ProcessStat stat = stat_of(pid);
  return stat.ended() ? 0 : stat.born;
}

bool process_ended(int64_t pid) {
  if (::kill(static_cast<pid_t>(pid), 0) != 0 && errno == ESRCH) return true;  // sends nothing
  return stat_of(pid).ended();
}

}  // namespace bora
