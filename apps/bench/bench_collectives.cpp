// SPDX-License-Identifier: Apache-2.0
// bench_collectives: time and bandwidth of the all-reductions by size, beside MPI's own and the
// memory's bound.  Run under mpirun; docs/collectives.md says how to read it.
#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "comm/communicator.hpp"
#include "comm/library_reference.hpp"
#include "core/build_info.hpp"
#include "core/config.hpp"
#include "core/log.hpp"
#include "core/profile.hpp"

namespace bora::bench {
namespace {

struct CollectivesConfig {
  std::vector<std::string> algorithms = {"auto"};
  int64_t smallest = int64_t{1} << 10;
  int64_t largest = int64_t{64} << 20;
  int64_t step = 4;
  int64_t repeats = 20;
  double seconds = 0.5;
  int64_t stage_kib = 0;
  int64_t ranks_per_host = 0;
  std::string json;
  static constexpr auto fields() {
    return std::tuple{
        field("algorithms", &CollectivesConfig::algorithms,
              "all-reduce algorithms, or 'all'; each is shown beside MPI_Allreduce"),
        field("smallest", &CollectivesConfig::smallest, "bytes", at_least(4)),
        field("largest", &CollectivesConfig::largest, "bytes", at_least(4)),
        field("step", &CollectivesConfig::step, "factor from one size to the next", at_least(2)),
        field("repeats", &CollectivesConfig::repeats, "timed batches of calls of a size at least",
              positive),
        field("seconds", &CollectivesConfig::seconds,
              "time for one size, if `repeats` need no more", positive),
        field("stage_kib", &CollectivesConfig::stage_kib,
              "size of a stage in shared memory; 0: the default", at_least(0)),
        field("ranks_per_host", &CollectivesConfig::ranks_per_host,
              "so many ranks are taken for a host; 0: as it is", at_least(0)),
        field("json", &CollectivesConfig::json, "also write the result to this file (JSON lines)")};
  }
};

struct Times {
  double least_s = 0, median_s = 0;
  int64_t calls = 0;
};

/// Of `call` on all ranks together.  As in nccl-tests calls run in a row, so that the ranks' skew
/// after a barrier does not count: in batches of half a millisecond, each timed by its slowest
/// rank.
template <class Call>
Times time_calls(Collective& comm, const CollectivesConfig& c, Call&& call) {
  constexpr double kBatch_s = 5e-4;
  constexpr int64_t kMostBatches = 1000, kMostCalls = 200, kWarmup = 3;
  const auto batch_s = [&](int64_t calls) {
    comm.barrier("together");
    const double begin = now_s();
    for (int64_t i = 0; i < calls; ++i) call();
    return (now_s() - begin) / static_cast<double>(calls);
  };
  // All ranks must agree on how many calls there are.
  const double once = std::max(comm.all_reduce(batch_s(kWarmup), ReduceOp::max, "probe"), 1e-7);
  const int64_t calls = std::clamp(static_cast<int64_t>(kBatch_s / once), int64_t{1}, kMostCalls);
  const auto wanted = static_cast<int64_t>(c.seconds / (once * static_cast<double>(calls)));
  const int64_t n = std::clamp(wanted, c.repeats, std::max(kMostBatches, c.repeats));
  std::vector<double> times(static_cast<size_t>(n));
  for (double& t : times) t = batch_s(calls);
  times = comm.all_reduce(times, ReduceOp::max, "slowest rank");
  std::sort(times.begin(), times.end());
  return {times.front(), times[times.size() / 2], n * calls};
}

struct Line {
  std::string way;
  int64_t bytes = 0;
  Times times;
};

class Report {
 public:
  Report(int n_ranks, bool speaks, const std::string& json) : n_ranks_(n_ranks), speaks_(speaks) {
    if (!speaks_ || json.empty()) return;
    file_ = std::fopen(json.c_str(), "w");
    BORA_CHECK(file_ != nullptr, "bench_collectives: cannot write '", json, "'");
  }
  ~Report() {
    if (file_ != nullptr) std::fclose(file_);
  }
  Report(const Report&) = delete;
  Report& operator=(const Report&) = delete;

  void head(double bound) {
    if (!speaks_) return;
    std::printf("%s\n%d ranks, f32 sum in place; bus bandwidth = 2 (n-1)/n x bytes / time\n",
                build_info_text().c_str(), n_ranks_);
    std::printf(
        "memory: %.1f GB/s read and written in place by all ranks, a bound of %.1f GB/s "
        "on the bus bandwidth of data that no cache holds\n",
        bound * 1e-9, bus(bound) * 1e-9);
    std::printf("%-22s %10s %12s %12s %10s %10s %10s\n", "way", "bytes", "least us", "median us",
                "alg GB/s", "bus GB/s", "of bound");
    bound_ = bound;
    if (file_ != nullptr)
      std::fprintf(file_,
                   "{\"kind\": \"memory\", \"ranks\": %d, \"bytes_per_s\": %.6g, "
                   "\"bus_bound\": %.6g}\n",
                   n_ranks_, bound, bus(bound));
  }

  void add(const Line& line) {
    if (!speaks_) return;
    const double algorithm = static_cast<double>(line.bytes) / line.times.median_s;
    const double bandwidth = 2.0 * (n_ranks_ - 1) / n_ranks_ * algorithm;
    const double share = bus(bound_) > 0 ? bandwidth / bus(bound_) : 0;
    std::printf("%-22s %10lld %12.2f %12.2f %10.2f %10.2f %9.0f%%\n", line.way.c_str(),
                static_cast<long long>(line.bytes), line.times.least_s * 1e6,
                line.times.median_s * 1e6, algorithm * 1e-9, bandwidth * 1e-9, 100 * share);
    std::fflush(stdout);
    if (file_ != nullptr)
      std::fprintf(file_,
                   "{\"kind\": \"all_reduce\", \"way\": \"%s\", \"ranks\": %d, "
                   "\"bytes\": %lld, \"calls\": %lld, \"least_s\": %.6g, \"median_s\": %.6g, "
                   "\"algorithm_bytes_per_s\": %.6g, \"bus_bytes_per_s\": %.6g, "
                   "\"of_memory_bound\": %.4g}\n",
                   line.way.c_str(), n_ranks_, static_cast<long long>(line.bytes),
                   static_cast<long long>(line.times.calls), line.times.least_s,
                   line.times.median_s, algorithm, bandwidth, share);
  }

 private:
  // All ranks' memory together moves `rate` bytes a second, and each element of each rank must be
  // read and written once: time = 2 n bytes / rate.
  double bus(double rate) const {
    return 2.0 * (n_ranks_ - 1) / n_ranks_ * rate / (2.0 * n_ranks_);
  }
  int n_ranks_;
  bool speaks_;
  double bound_ = 0;
  std::FILE* file_ = nullptr;
};

/// Bytes per second that all ranks together read and write when each scales data of its own in
/// place, read and written bytes both counted.
double memory_rate(Collective& comm, const CollectivesConfig& c) {
  Tensor x = Tensor::full({c.largest / 4}, 1.0, DType::f32);
  float factor = 1.0f;
  const Times t = time_calls(comm, c, [&] {
    float* v = x.data<float>();
    const int64_t n = x.numel();
    for (int64_t i = 0; i < n; ++i) v[i] *= factor;
    factor = v[0];
  });
  return 2.0 * static_cast<double>(x.bytes()) * comm.size() / t.median_s;
}

void check_sum(const Tensor& x, float wanted, const std::string& way) {
  const float* v = x.data<float>();
  const bool right = std::all_of(v, v + x.numel(), [&](float f) { return f == wanted; });
  BORA_CHECK(right, "bench_collectives: ", way, " gives a wrong sum of ", x.numel(), " elements");
}

void time_way(Collective& comm, const CollectivesConfig& c, const std::string& way, Tensor memory,
              bool library, Report& report) {
  for (int64_t bytes = c.smallest; bytes <= c.largest; bytes *= c.step) {
    Tensor x = Tensor::wrap(memory.raw(), {bytes / 4}, DType::f32);
    const auto call = [&] {
      if (library) return mpi_all_reduce_in_place(x);
      comm.all_reduce(x, ReduceOp::sum, "bench");
    };
    x.fill(1.0);
    comm.barrier("filled");
    call();
    check_sum(x, static_cast<float>(comm.size()), way);
    x.fill(0.0);  // sums of it stay finite
    report.add({way, bytes, time_calls(comm, c, call)});
  }
}

int run(MpiSession& session, int argc, char** argv) {
  CollectivesConfig c;
  const ConfigArgs given =
      config_parse_args(c, "bench_collectives", std::vector<std::string>(argv + 1, argv + argc),
                        {.about = "Times all-reductions by size.  docs/collectives.md says more.",
                         .positionals = {}});
  if (!given.help.empty()) {
    if (session.rank() == 0) std::fputs(given.help.c_str(), stdout);
    return 0;
  }
  const bool by_mpi = session.transport_name() == std::string("MPI");
  CommunicatorOptions options;
  options.ranks_per_host = static_cast<int>(c.ranks_per_host);
  if (c.stage_kib > 0) options.stage_bytes = c.stage_kib << 10;
  if (c.algorithms == std::vector<std::string>{"all"}) {
    c.algorithms.clear();
    for (const AllReduceAlgorithm a : all_reduce_algorithms())
      if ((a != AllReduceAlgorithm::shared || c.ranks_per_host == 0) &&
          (a != AllReduceAlgorithm::library || by_mpi))
        c.algorithms.emplace_back(name_of(a));
  }
  const auto first = make_communicator(session, options);
  Report report(session.size(), session.rank() == 0, c.json);
  report.head(memory_rate(*first, c));
  Tensor memory = Tensor::zeros({c.largest}, DType::u8);
  if (by_mpi) time_way(*first, c, "MPI_Allreduce", memory, /*library=*/true, report);
  for (const std::string& name : c.algorithms) {
    options.all_reduce = all_reduce_algorithm(name);
    const auto comm = make_communicator(session, options);
    time_way(*comm, c, name, memory, /*library=*/false, report);
    // Data that lies in shared memory needs no copies.
    if (name == "auto" && c.ranks_per_host == 0)
      time_way(*comm, c, name + ", shared tensor", make_shared_tensor(*comm, c.largest), false,
               report);
  }
  return 0;
}

}  // namespace
}  // namespace bora::bench

int main(int argc, char** argv) {
  return bora::run_ranks(
      argc, argv, [&](bora::MpiSession& session) { return bora::bench::run(session, argc, argv); });
}
