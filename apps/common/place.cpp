// SPDX-License-Identifier: Apache-2.0
#include "apps/common/place.hpp"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <sstream>

#include "core/backend.hpp"
#include "core/build_info.hpp"
#include "core/error.hpp"
#include "core/log.hpp"

namespace bora::apps {
namespace {

std::vector<int> cpus_in_mask() {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  std::vector<int> cpus;
  if (::sched_getaffinity(0, sizeof mask, &mask) != 0) return cpus;
  for (int i = 0; i < CPU_SETSIZE; ++i)
    if (CPU_ISSET(i, &mask)) cpus.push_back(i);
  return cpus;
}

std::vector<std::pair<std::string, std::string>> interfaces_up() {
  std::vector<std::pair<std::string, std::string>> found;
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return found;
  for (const ifaddrs* i = list; i != nullptr; i = i->ifa_next) {
    if (i->ifa_addr == nullptr || i->ifa_addr->sa_family != AF_INET) continue;
    if ((i->ifa_flags & IFF_UP) == 0 || (i->ifa_flags & IFF_LOOPBACK) != 0) continue;
    char text[INET_ADDRSTRLEN] = {};
    const auto* address = reinterpret_cast<const sockaddr_in*>(i->ifa_addr);
    if (::inet_ntop(AF_INET, &address->sin_addr, text, sizeof text) != nullptr)
      found.emplace_back(i->ifa_name, text);
  }
  ::freeifaddrs(list);
  return found;
}

// Fields of the encoding: host names, interface names and addresses contain none of these.
constexpr char kField = '\t', kItem = ',', kPart = '=';

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::istringstream in(text);
  for (std::string part; std::getline(in, part, separator);) parts.push_back(part);
  return parts;
}

}  // namespace

RankPlace this_place(const MpiSession& session, int threads, const std::string& device) {
  RankPlace p;
  p.device = device;
  p.rank = session.rank();
  p.local_rank = session.local_rank();
  p.host = session.host();
  p.threads = threads;
  p.host_cores = static_cast<int>(::sysconf(_SC_NPROCESSORS_ONLN));
  p.cpus = cpus_in_mask();
  p.build = build_info().git_commit;
  p.interfaces = interfaces_up();
  return p;
}

std::string encode(const RankPlace& p) {
  std::ostringstream out;
  out << p.rank << kField << p.local_rank << kField << p.host << kField << p.threads << kField
      << p.host_cores << kField << p.device << kField << p.build << kField;
  for (size_t i = 0; i < p.cpus.size(); ++i) out << (i ? "," : "") << p.cpus[i];
  out << kField;
  for (size_t i = 0; i < p.interfaces.size(); ++i)
    out << (i ? "," : "") << p.interfaces[i].first << kPart << p.interfaces[i].second;
  return out.str();
}

RankPlace decode_place(const std::string& text) {
  std::vector<std::string> fields = split(text, kField);
  BORA_CHECK(fields.size() >= 7 && fields.size() <= 9, "no place of a rank: '", text, "'");
  fields.resize(9);
  RankPlace p;
  try {
    p.rank = std::stoi(fields[0]);
    p.local_rank = std::stoi(fields[1]);
    p.host = fields[2];
    p.threads = std::stoi(fields[3]);
    p.host_cores = std::stoi(fields[4]);
    p.device = fields[5];
    p.build = fields[6];
    for (const std::string& cpu : split(fields[7], kItem)) p.cpus.push_back(std::stoi(cpu));
  } catch (const std::logic_error&) {
    BORA_FAIL("no place of a rank: '", text, "'");
  }
  for (const std::string& item : split(fields[8], kItem)) {
    const size_t cut = item.find(kPart);
    BORA_CHECK(cut != std::string::npos, "no place of a rank: '", text, "'");
    p.interfaces.emplace_back(item.substr(0, cut), item.substr(cut + 1));
  }
  return p;
}

LaunchReport gather_launch(const MpiSession& session, Collective& ranks, int threads,
                           const std::string& device) {
  const std::vector<std::string> texts =
      ranks.all_gather_text(encode(this_place(session, threads, device)), "places of the ranks");
  std::vector<RankPlace> places;
  if (ranks.rank() != 0) return {};
  for (const std::string& text : texts) places.push_back(decode_place(text));
  return launch_report(places);
}

void log_launch(const MpiSession& session, Collective& ranks, int threads,
                const std::string& device) {
  const LaunchReport report = gather_launch(session, ranks, threads, device);
  for (const std::string& line : report.lines) log_info(line);
  for (const std::string& warning : report.warnings) log_warn(warning);
}

}  // namespace bora::apps
