// SPDX-License-Identifier: Apache-2.0
// unet3d diagnose: what a job finds where it runs, in a minute, before a long run is sent there.
#include <sys/statvfs.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>

#include "apps/common/all_reduce_choice.hpp"
#include "apps/common/device_choice.hpp"
#include "apps/common/help.hpp"
#include "apps/common/place.hpp"
#include "apps/common/threads.hpp"
#include "apps/train/parallel.hpp"
#include "apps/unet3d/cases.hpp"
#include "apps/unet3d/commands.hpp"
#include "comm/communicator.hpp"
#include "core/build_info.hpp"
#include "core/log.hpp"
#include "core/profile.hpp"
#include "data/atomic_file.hpp"
#include "data/output_place.hpp"
#include "data/volume_dataset.hpp"

namespace bora::unet3d {
namespace {

struct DiagnoseConfig {
  data::WindConfig data;
  data::VolumesConfig volumes;
  std::string output = ".";
  int64_t mib = 16;
  std::string all_reduce = "auto";
  std::string device = "auto";
  static constexpr auto fields() {
    return std::tuple{
        field("data", &DiagnoseConfig::data, "Cases to read; without data.root none are"),
        field("volumes", &DiagnoseConfig::volumes,
              "Images and labels to read; without volumes.root none are"),
        field("output", &DiagnoseConfig::output, "folder that a run would write to"),
        field("mib", &DiagnoseConfig::mib, "size of the timed all-reduction, MiB",
              between(1, 4096)),
        field("all_reduce", &DiagnoseConfig::all_reduce, "its way, as comm.all_reduce in training",
              apps::kAllReduceChoices),
        field("device", &DiagnoseConfig::device, "what a run would compute on, as in training",
              one_of("auto", "cpu", "cuda"))};
  }
};

constexpr int kPings = 20;
constexpr int kReductions = 5;

double gib(double bytes) { return bytes / 1073741824.0; }

/// Free and all bytes of the file system under `path`; zeros if there is none.
std::pair<double, double> space(const char* path) {
  struct statvfs s {};
  if (::statvfs(path, &s) != 0) return {0, 0};
  return {static_cast<double>(s.f_bavail) * static_cast<double>(s.f_frsize),
          static_cast<double>(s.f_blocks) * static_cast<double>(s.f_frsize)};
}

/// Half the time of a small message there and back, between this rank and the one `distance` on:
/// each rank meets every other once as all distances are gone through.
double ping_s(Collective& ranks, int distance) {
  const int n = ranks.size(), me = ranks.rank();
  const Tensor out = Tensor::full({1}, me, DType::i64);
  Tensor in = Tensor::zeros({1}, DType::i64);
  const int to = (me + distance) % n, from = (me + n - distance) % n;
  double least = 0;
  for (int i = 0; i < kPings; ++i) {
    const double begin = now_s();
    ranks.swap(out, to, in, from, "reachability");
    const double s = now_s() - begin;
    least = i == 0 ? s : std::min(least, s);
  }
  BORA_CHECK(in.data<int64_t>()[0] == from, "rank ", me, " got the message of rank ",
             in.data<int64_t>()[0], " from rank ", from);
  return least;
}

void print_reachability(Collective& ranks) {
  if (ranks.size() == 1) return;
  double worst = 0;
  int worst_distance = 1;
  for (int d = 1; d < ranks.size(); ++d) {
    const double s = ping_s(ranks, d);
    if (s > worst) {
      worst = s;
      worst_distance = d;
    }
  }
  const std::vector<std::string> texts = ranks.all_gather_text(
      detail::join(worst, " ", (ranks.rank() + worst_distance) % ranks.size()), "reachability");
  if (ranks.rank() != 0) return;
  size_t slowest = 0;
  double slowest_s = 0;
  for (size_t r = 0; r < texts.size(); ++r)
    if (const double s = std::stod(texts[r]); s > slowest_s) {
      slowest_s = s;
      slowest = r;
    }
  std::printf(
      "reachability: every rank exchanged messages with every other; the slowest pair, "
      "ranks %zu and %s, %.1f us\n",
      slowest, texts[slowest].substr(texts[slowest].find(' ') + 1).c_str(), 1e6 * slowest_s);
}

/// The slowest rank's median time of summing x over `ranks`, all of which have finished.
double time_all_reduce(Collective& ranks, Tensor& x) {
  std::vector<double> times(kReductions);
  for (double& t : times) {
    ranks.barrier("together");
    const double begin = now_s();
    ranks.all_reduce(x, ReduceOp::sum, "timed all-reduction");
    x.stream().synchronize();
    t = now_s() - begin;
  }
  times = ranks.all_reduce(times, ReduceOp::max, "slowest rank");
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

void print_all_reduce(const char* how, const DiagnoseConfig& c, int n, double s) {
  const int64_t bytes = c.mib << 20;
  std::printf("all-reduction (%s) of %ld MiB: %.2f ms, bus bandwidth %.2f GB/s\n", how,
              static_cast<long>(c.mib), 1e3 * s,
              2.0 * (n - 1) / n * static_cast<double>(bytes) / s * 1e-9);
}

/// Over the host group, and between devices where a run would use them.
void print_all_reductions(const MpiSession& session, Collective& ranks, const DiagnoseConfig& c,
                          Device device) {
  const int64_t bytes = c.mib << 20;
  const Tensor memory = make_shared_tensor(ranks, bytes);
  Tensor x = Tensor::wrap(const_cast<void*>(memory.raw()), {bytes / 4}, DType::f32);
  const double host_s = time_all_reduce(ranks, x);
  if (ranks.rank() == 0) print_all_reduce(c.all_reduce.c_str(), c, ranks.size(), host_s);
  if (device == cpu() || ranks.size() == 1) return;
  const std::unique_ptr<Collective> group = train::make_tensor_group({}, session, ranks, device);
  Tensor y = Tensor::zeros({bytes / 4}, DType::f32, device);
  const double device_s = time_all_reduce(*group, y);
  if (ranks.rank() == 0) print_all_reduce("NCCL", c, ranks.size(), device_s);
}

/// What differs from host to host: by the first rank of each.
std::string describe_host() {
  const auto [shm_free, shm] = space("/dev/shm");
  struct sysinfo memory {};
  ::sysinfo(&memory);
  char text[160];
  std::snprintf(text, sizeof text, "memory %.1f GiB, shared memory %.2f of %.2f GiB free",
                gib(static_cast<double>(memory.totalram) * memory.mem_unit), gib(shm_free),
                gib(shm));
  return text;
}

void print_hosts(const MpiSession& session, Collective& ranks) {
  const std::vector<std::string> texts = ranks.all_gather_text(
      session.local_rank() == 0 ? session.host() + ": " + describe_host() : std::string(), "hosts");
  if (ranks.rank() != 0) return;
  for (const std::string& text : texts)
    if (!text.empty()) std::printf("host %s\n", text.c_str());
}

/// On every rank: a run's folder must be seen by all of a batch script's hosts or by rank 0 alone,
/// but by rank 0 at least.
void print_output(const std::string& folder, Collective& ranks) {
  ranks.agree("the output folder " + folder, [&] {
    if (ranks.rank() != 0) return;
    data::make_folder(folder, "diagnose: --output=" + folder);
    std::error_code error;
    const std::string probe = folder + "/.bora-diagnose";
    // Written, synced, renamed and removed, as a checkpoint is: what a full disk or quota refuses.
    data::write_file_atomic(probe, std::string(size_t{1} << 20, 'x'));
    std::filesystem::remove(probe, error);
    const auto [free, all] = space(folder.c_str());
    if (free < 1073741824.0)
      log_warn("output ", folder, ": only ", free / 1048576.0, " MiB are free");
    std::printf("output %s: writable, %.1f of %.1f GiB free\n", folder.c_str(), gib(free),
                gib(all));
  });
}

/// What was opened and how long every rank took to read one case.
void print_cases(const std::string& root, int64_t n_cases, const std::vector<std::string>& problems,
                 double opening_s, double reading_s, int64_t bytes) {
  std::printf(
      "data %s: %ld cases found and checked in %.2f s, %zu left out; every rank read one "
      "case, the slowest in %.3f s (%.1f MB in memory)\n",
      root.c_str(), static_cast<long>(n_cases), opening_s, problems.size(), reading_s,
      static_cast<double>(bytes) * 1e-6);
  for (const std::string& problem : problems) std::printf("  %s\n", problem.c_str());
}

void print_volumes(const DiagnoseConfig& c, Collective& ranks) {
  const double begin = now_s();
  const data::VolumeDataset cases(c.volumes, &ranks);
  const double opened = now_s();
  double seconds = 0;
  int64_t bytes = 0;
  ranks.agree("reading a case", [&] {
    const data::VolumeCase& files = cases.at(ranks.rank() % cases.size());
    const double start = now_s();
    for (const data::VolumeSource& source : {files.image, files.label}) {
      const std::unique_ptr<data::VolumeFile> file = data::open_volume(source);
      bytes += file->read(files.box.begin, files.box.count, file->info().type).bytes();
    }
    seconds = now_s() - start;
  });
  const double slowest = ranks.all_reduce(seconds, ReduceOp::max, "slowest read");
  if (ranks.rank() == 0)
    print_cases(c.volumes.root, cases.size(), cases.problems(), opened - begin, slowest, bytes);
}

void print_data(const DiagnoseConfig& c, Collective& ranks) {
  if (!c.volumes.root.empty()) print_volumes(c, ranks);
  if (c.data.root.empty()) {
    if (ranks.rank() == 0 && c.volumes.root.empty())
      std::printf("data: neither data.root nor volumes.root given, nothing read\n");
    return;
  }
  const double begin = now_s();
  const data::WindDataset cases(c.data, &ranks);
  const double opened = now_s();
  double seconds = 0;
  int64_t bytes = 0;
  ranks.agree("reading a case", [&] {
    const int64_t index = ranks.rank() % cases.size();
    const double start = now_s();
    const data::Volume wind = cases.read_wind(index);
    seconds = now_s() - start;
    bytes = wind.values.numel() * static_cast<int64_t>(sizeof(float));
  });
  const double slowest = ranks.all_reduce(seconds, ReduceOp::max, "slowest read");
  if (ranks.rank() == 0)
    print_cases(c.data.root, cases.size(), cases.problems(), opened - begin, slowest, bytes);
}

}  // namespace

int diagnose_command(MpiSession& session, const std::vector<std::string>& args) {
  DiagnoseConfig config;
  const ConfigArgs given = config_parse_args(
      config, "unet3d diagnose", args,
      {.about = "Says what a job finds where it runs: ranks, hosts, devices, the network between "
                "them, shared memory, output, data.  Start it as you would the training.",
       .positionals = {}});
  if (apps::print_help(session, given)) return 0;
  const int threads = apps::set_compute_threads(session.local_size());
  CommunicatorOptions options;
  options.all_reduce = all_reduce_algorithm(config.all_reduce);
  const std::unique_ptr<Collective> ranks = make_communicator(session, options);
  if (session.rank() == 0)
    std::printf("%s\nmessages: %s\ndevices: %s\n", build_info_text().c_str(),
                (session.transport_name() == std::string("MPI") ? MpiSession::library()
                                                                : session.transport_name())
                    .c_str(),
                apps::describe_devices().c_str());
  const apps::DeviceChoice choice = apps::choose_device(config.device, session, *ranks);
  const apps::LaunchReport places = apps::gather_launch(session, *ranks, threads, choice.text());
  for (const std::string& line : places.lines) std::printf("%s\n", line.c_str());
  for (const std::string& warning : places.warnings) log_warn(warning);
  print_hosts(session, *ranks);
  print_reachability(*ranks);
  print_all_reductions(session, *ranks, config, choice.device);
  print_output(config.output, *ranks);
  print_data(config, *ranks);
  if (session.rank() == 0) std::printf("diagnose: nothing stands in the way\n");
  return 0;
}

}  // namespace bora::unet3d
