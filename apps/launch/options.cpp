// SPDX-License-Identifier: Apache-2.0
#include "apps/launch/options.hpp"

#include <charconv>

#include "core/error.hpp"

namespace bora::launch {
namespace {

int number(const std::string& option, const std::string& text, int least, int most) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc() || end != text.data() + text.size() || value < least ||
      value > most)
    throw UsageError(detail::join("bora_launch: ", option, " ", text, ": wanted a number from ",
                                  least, " to ", most));
  return value;
}

void set_master(Options& options, const std::string& text) {
  // [::1]:29500, 10.0.0.1:29500, host, ::1 (an address of IPv6 alone has several colons)
  const size_t bracket = text.rfind(']'), colon = text.rfind(':');
  const bool has_port =
      colon != std::string::npos &&
      (bracket != std::string::npos ? colon == bracket + 1 : text.find(':') == colon);
  options.master_host = has_port ? text.substr(0, colon) : text;
  if (has_port)
    options.master_port = number("--master " + text + ", port", text.substr(colon + 1), 1, 65535);
  if (options.master_host.starts_with('[') && options.master_host.ends_with(']'))
    options.master_host = options.master_host.substr(1, options.master_host.size() - 2);
  if (options.master_host.empty())
    throw UsageError("bora_launch: --master " + text + ": wanted <host> or <host>:<port>");
}

void check(const Options& options) {
  const auto demand = [](bool good, const std::string& what) {
    if (!good) throw UsageError("bora_launch: " + what + " (bora_launch --help says more)");
  };
  demand(options.workers > 0, "-n <workers> is missing");
  demand(!options.command.empty(), "no program to start");
  demand(options.node < options.nodes,
         detail::join("--node ", options.node, " is not below --nodes ", options.nodes));
  demand(options.nodes == 1 || !options.master_host.empty(),
         "--nodes wants --master <host>[:<port>], the same for all nodes: where node 0 is");
}

}  // namespace

const char* const kUsage =
    "usage: bora_launch -n WORKERS [options] PROGRAM [ARGUMENT ...]\n"
    "\n"
    "Starts WORKERS processes of PROGRAM on this host, which find each other by TCP, without MPI.\n"
    "Ends when all have ended, with the code of the first that failed; the others are stopped "
    "then.\n"
    "\n"
    "  -n WORKERS           processes on this host\n"
    "  --nodes N --node K   this is host K of N (from 0), each with WORKERS processes: start the\n"
    "                       same command with another K on each host\n"
    "  --master HOST[:PORT] where rank 0 listens; default: this host at a free port, and with "
    "--nodes\n"
    "                       port 29500\n"
    "  --interface NAME     network between the ranks, by name or address\n"
    "  --grace SECONDS      between SIGTERM and SIGKILL when workers are stopped (default 5)\n"
    "\n"
    "Each worker gets RANK = node * WORKERS + LOCAL_RANK, WORLD_SIZE = N * WORKERS, LOCAL_RANK,\n"
    "MASTER_ADDR and MASTER_PORT. docs/launching.md says more.\n";

Options parse_options(const std::vector<std::string>& arguments) {
  Options options;
  size_t at = 0;
  for (; at < arguments.size() && arguments[at].starts_with('-'); ++at) {
    std::string option = arguments[at], value;
    if (option == "--") {
      ++at;
      break;
    }
    if (option == "--help" || option == "-h") {
      options.help = true;
      return options;
    }
    if (const size_t equals = option.find('='); option.starts_with("--") && equals != option.npos) {
      value = option.substr(equals + 1);
      option.resize(equals);
    } else if (at + 1 < arguments.size()) {
      value = arguments[++at];
    } else {
      throw UsageError("bora_launch: " + option + " wants a value");
    }
    constexpr int kMost = 1 << 16;
    if (option == "-n") {
      options.workers = number(option, value, 1, kMost);
    } else if (option == "--nodes") {
      options.nodes = number(option, value, 1, kMost);
    } else if (option == "--node") {
      options.node = number(option, value, 0, kMost);
    } else if (option == "--master") {
      set_master(options, value);
    } else if (option == "--interface") {
      options.interface = value;
    } else if (option == "--grace") {
      options.grace_s = number(option, value, 0, 3600);
    } else {
      throw UsageError("bora_launch: unknown option " + option + "; bora_launch --help lists them");
    }
  }
  options.command.assign(arguments.begin() + static_cast<std::ptrdiff_t>(at), arguments.end());
  check(options);
  return options;
}

}  // namespace bora::launch
