// SPDX-License-Identifier: Apache-2.0
// bench_start: how long a run takes from the start of its processes to the end of the first step,
// without data.  Run by start_time.sh under mpirun.
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "apps/bench/step.hpp"
#include "apps/common/threads.hpp"
#include "comm/communicator.hpp"
#include "core/profile.hpp"

namespace bora::bench {
namespace {

struct StartConfig : StepConfig {
  double launched = 0;
  static constexpr auto fields() {
    return std::tuple_cat(StepConfig::fields(),
                          std::tuple{field("launched", &StartConfig::launched,
                                           "when the launcher was called, seconds since 1970 (date "
                                           "+%s.%N); 0: not known",
                                           at_least(0))});
  }
};

double clock_s(clockid_t clock) {
  timespec t{};
  ::clock_gettime(clock, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

/// Age of this process: exec to now, in the kernel's steps of 10 ms.
double process_age_s() {
  std::ifstream file("/proc/self/stat");
  std::string text((std::istreambuf_iterator<char>(file)), {});
  // The name in brackets may hold anything; after it, field 22 (the 20th from here) is the start.
  const size_t bracket = text.rfind(')');
  BORA_CHECK(bracket != text.npos, "bench_start: /proc/self/stat cannot be read");
  std::istringstream rest(text.substr(bracket + 1));
  std::string value;
  for (int i = 0; i < 20; ++i) rest >> value;
  return clock_s(CLOCK_BOOTTIME) - std::stod(value) / static_cast<double>(::sysconf(_SC_CLK_TCK));
}

struct Mark {
  const char* what;
  double at_s;
};

int run(MpiSession& session, int argc, char** argv, double age_at_main_s, double main_s) {
  StartConfig c;
  const ConfigArgs given = config_parse_args(
      c, "bench_start", std::vector<std::string>(argv + 1, argv + argc),
      {.about = "Times the start of a run, to the end of its first step.", .positionals = {}});
  if (!given.help.empty()) {
    if (session.rank() == 0) std::fputs(given.help.c_str(), stdout);
    return 0;
  }
  const double session_s = now_s();
  const int threads = apps::set_compute_threads(session.local_size());
  const auto ranks = make_communicator(session);
  std::vector<Mark> marks{
      {"loading the program", main_s}, {"MPI_Init", session_s}, {"communicator", now_s()}};
  Step step(c, *ranks);
  marks.push_back({"network, optimizer, noise", now_s()});
  step.run();
  marks.push_back({"first step", now_s()});
  const double from_launch_s = clock_s(CLOCK_REALTIME) - c.launched;
  const double first_loss = step.loss();
  step.run();
  marks.push_back({"second step", now_s()});
  BORA_CHECK(std::isfinite(first_loss), "bench_start: the loss is ", first_loss);

  const double process_s = main_s - age_at_main_s;  // on the clock of now_s()
  std::vector<double> parts;
  double previous = process_s;
  for (const Mark& m : marks) {
    parts.push_back(m.at_s - previous);
    previous = m.at_s;
  }
  parts.push_back(marks[4].at_s - process_s);
  parts.push_back(c.launched > 0 ? from_launch_s : 0);
  parts = ranks->all_reduce(parts, ReduceOp::max, "times");
  if (session.rank() != 0) return 0;
  std::printf(
      "%s base %ld, volume %ldx%ldx%ld, batch %ld, %s, %d ranks of %d threads; the slowest "
      "rank's ms\n",
      c.network.c_str(), c.model.base, c.size.d, c.size.h, c.size.w, c.batch, c.precision.c_str(),
      ranks->size(), threads);
  for (size_t i = 0; i < marks.size(); ++i)
    std::printf("%-44s %8.0f\n", marks[i].what, 1e3 * parts[i]);
  std::printf("%-44s %8.0f\n", "process start to the first finished step",
              1e3 * parts[marks.size()]);
  if (c.launched > 0)
    std::printf("%-44s %8.0f\n", "the same from the launcher's start", 1e3 * parts.back());
  return 0;
}

}  // namespace
}  // namespace bora::bench

int main(int argc, char** argv) {
  const double age_s = bora::bench::process_age_s(), main_s = bora::now_s();
  return bora::run_ranks(argc, argv, [&](bora::MpiSession& session) {
    return bora::bench::run(session, argc, argv, age_s, main_s);
  });
}
