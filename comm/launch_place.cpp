// SPDX-License-Identifier: Apache-2.0
// Where variables of launchers other than MPI's put a process.
#include "comm/launcher.hpp"
#include "core/error.hpp"

#include <cctype>
#include <charconv>
#include <cstring>
#include <vector>

namespace bora::detail {
namespace {

std::string_view text_of(const EnvironmentLookup& lookup, const char* name) {
  const char* text = lookup(name);
  return text == nullptr ? std::string_view() : text;
}

std::optional<long long> whole_number(std::string_view text) {
  long long value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

/// Reads variables and collects what is wrong with them, so that one message names all.
class Variables {
 public:
  explicit Variables(const EnvironmentLookup& lookup) : lookup_(lookup) {}

  bool has(const char* name) const { return !text_of(lookup_, name).empty(); }
  std::string text(const char* name) const { return std::string(text_of(lookup_, name)); }
  void fault(const std::string& what) { faults_ += (faults_.empty() ? "" : "; ") + what; }

  /// A whole number in [least, most]; `least` and a fault if it is none.
  int number(const char* name, int least, int most) {
    const std::string given = text(name);
    if (given.empty()) {
      fault(join(name, " is missing"));
      return least;
    }
    const auto value = whole_number(given);
    if (!value) {
      fault(join(name, "='", given, "' is not a whole number"));
      return least;
    }
    if (*value < least || *value > most) {
      fault(join(name, "=", given, " is not in ", least, "..", most));
      return least;
    }
    return static_cast<int>(*value);
  }

  void throw_faults(const char* told_by) const {
    if (!faults_.empty())
      throw UsageError(join("this process was started without MPI's launcher, and ", told_by,
                            " are to say how: ", faults_,
                            ". Start it by mpirun, srun or bora_launch, or set RANK, WORLD_SIZE, "
                            "MASTER_ADDR and MASTER_PORT on every rank (docs/launching.md)"));
  }

 private:
  const EnvironmentLookup& lookup_;
  std::string faults_;
};

constexpr int kMostRanks = 1 << 20;

void meeting_point(Variables& variables, LaunchPlace& place) {
  if (variables.has("MASTER_ADDR")) place.master_host = variables.text("MASTER_ADDR");
  if (variables.has("MASTER_PORT")) place.master_port = variables.number("MASTER_PORT", 1, 65535);
  place.interface = variables.text("BORA_INTERFACE");
  if (variables.has("BORA_START_TIMEOUT"))
    place.limit_s = variables.number("BORA_START_TIMEOUT", 1, 86400);
}

void check_rank(Variables& variables, const LaunchPlace& place, const char* rank_name,
                const char* size_name) {
  if (place.rank >= place.size)
    variables.fault(join(rank_name, "=", place.rank, " is not below ", size_name, "=", place.size));
}

LaunchPlace by_plain_variables(const EnvironmentLookup& lookup) {
  Variables variables(lookup);
  LaunchPlace place;
  place.told_by = "RANK and WORLD_SIZE";
  place.rank = variables.number("RANK", 0, kMostRanks - 1);
  place.size = variables.number("WORLD_SIZE", 1, kMostRanks);
  if (variables.has("RANK") && variables.has("WORLD_SIZE"))
    check_rank(variables, place, "RANK", "WORLD_SIZE");
  if (variables.has("LOCAL_RANK"))
    place.local_rank = variables.number("LOCAL_RANK", 0, kMostRanks - 1);
  meeting_point(variables, place);
  if (place.master_host.empty() && place.size > 1)
    variables.fault("MASTER_ADDR is missing (name or address of the host of rank 0)");
  place.token = variables.text("BORA_LAUNCH_TOKEN");
  if (place.rank == 0 && variables.has("BORA_LISTENER"))
    place.listener = variables.number("BORA_LISTENER", 3, 1 << 20);
  variables.throw_faults("RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT");
  return place;
}

// Jobs that share a node should not meet each other; the token keeps those apart that do.
int port_of_step(std::string_view job, std::string_view step) {
  constexpr int kPorts = 1000;
  const long long n = whole_number(job).value_or(0) + 7 * whole_number(step).value_or(0);
  return kDefaultMasterPort + static_cast<int>(n % kPorts);
}

LaunchPlace by_slurm(const EnvironmentLookup& lookup) {
  Variables variables(lookup);
  LaunchPlace place;
  place.told_by = "SLURM_PROCID and SLURM_NTASKS";
  const char* tasks =
      variables.has("SLURM_STEP_NUM_TASKS") ? "SLURM_STEP_NUM_TASKS" : "SLURM_NTASKS";
  place.rank = variables.number("SLURM_PROCID", 0, kMostRanks - 1);
  place.size = variables.number(tasks, 1, kMostRanks);
  check_rank(variables, place, "SLURM_PROCID", tasks);
  if (variables.has("SLURM_LOCALID"))
    place.local_rank = variables.number("SLURM_LOCALID", 0, kMostRanks - 1);
  const std::string job = variables.text("SLURM_JOB_ID"), step = variables.text("SLURM_STEP_ID");
  if (!job.empty()) {
    place.master_port = port_of_step(job, step);
    place.token = join("slurm ", job, ".", step);
  }
  meeting_point(variables, place);
  if (place.master_host.empty() && place.size > 1) {
    std::string nodes;
    for (const char* name : {"SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST", "SLURM_NODELIST"})
      if (nodes.empty()) nodes = variables.text(name);
    try {
      if (nodes.empty()) {
        variables.fault("SLURM_NODELIST is missing");
      } else {
        place.master_host = first_host(nodes);
      }
    } catch (const Error& e) {
      variables.fault(e.what());
    }
  }
  variables.throw_faults("Slurm's variables");
  return place;
}

// A batch script, and a shell from salloc, have most of an srun's variables without being ranks.
// They have a job id, but no step's.
bool is_slurm_rank(const EnvironmentLookup& lookup) {
  const auto has = [&](const char* name) { return !text_of(lookup, name).empty(); };
  if (slurm_step_tasks(lookup)) return *slurm_step_tasks(lookup) > 1;
  return has("SLURM_PROCID") && has("SLURM_NTASKS") && has("SLURM_LOCALID") &&
         (has("SLURM_NODELIST") || has("SLURM_JOB_NODELIST")) && !has("SLURM_JOB_ID") &&
         !has("SLURM_JOBID") && !has("SLURM_STEP_ID") && !has("SLURM_STEPID");
}

}  // namespace

std::string first_host(const std::string& nodelist) {
  const auto wrong = [&](const char* why) {
    return Error(join("the node list '", nodelist, "' is not Slurm's notation: ", why));
  };
  std::string host;
  size_t at = 0;
  while (at < nodelist.size() && nodelist[at] != ',') {
    if (nodelist[at] == ']') throw wrong("']' without '['");
    if (nodelist[at] != '[') {
      if (std::isspace(static_cast<unsigned char>(nodelist[at])) != 0) throw wrong("a blank");
      host += nodelist[at++];
      continue;
    }
    // The first number stands up to '-', ',' or ']', with its leading zeros.
    const size_t end = nodelist.find(']', at);
    if (end == std::string::npos) throw wrong("'[' without ']'");
    size_t digits = at + 1;
    while (std::isdigit(static_cast<unsigned char>(nodelist[digits])) != 0) ++digits;
    if (digits == at + 1 || std::strchr("-,]", nodelist[digits]) == nullptr)
      throw wrong("no number after '['");
    host += nodelist.substr(at + 1, digits - at - 1);
    at = end + 1;
  }
  if (host.empty()) throw wrong("no host");
  return host;
}

std::optional<LaunchPlace> launch_place(const EnvironmentLookup& lookup) {
  for (const char* name : {"RANK", "WORLD_SIZE", "LOCAL_RANK"})
    if (!text_of(lookup, name).empty()) return by_plain_variables(lookup);
  if (is_slurm_rank(lookup)) return by_slurm(lookup);
  return std::nullopt;
}

}  // namespace bora::detail
