// SPDX-License-Identifier: Apache-2.0
// Energy from counters of a made-up machine, and what a run says it took.  Feature rows 147, 163.
#include "apps/common/energy.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "apps/common/usage.hpp"
#include "comm/communicator.hpp"
#include "core/memory_report.hpp"
#include "tests/data/pipeline_support.hpp"

namespace bora::apps {
namespace {

using data::test::TempFolder;
using data::test::write_file;
using testing::ElementsAre;
using testing::HasSubstr;

/// A powercap folder.
class Rapl {
 public:
  void zone(const std::string& folder, const std::string& name, uint64_t energy_uj,
            uint64_t range_uj = 262143328850) const {
    std::filesystem::create_directories(at(folder));
    write_file(at(folder) + "/name", name + "\n");
    write_file(at(folder) + "/max_energy_range_uj", std::to_string(range_uj) + "\n");
    set(folder, energy_uj);
  }
  void set(const std::string& folder, uint64_t energy_uj) const {
    write_file(at(folder) + "/energy_uj", std::to_string(energy_uj) + "\n");
  }
  std::string at(const std::string& folder) const { return folder_.file(folder); }
  EnergySources sources() const { return {.powercap = folder_.path(), .nvml = "", .gpu_uuid = ""}; }

 private:
  TempFolder folder_;
};

TEST(Energy, SumsPackagesAndTheirMemoryOnce) {
  const Rapl rapl;
  rapl.zone("intel-rapl:0", "package-0", 1'000'000);
  rapl.zone("intel-rapl:1", "package-1", 5'000'000);
  rapl.zone("intel-rapl:0:0", "core", 0);                  // a part of package-0
  rapl.zone("intel-rapl:0:1", "dram", 10);                 // beside it
  rapl.zone("intel-rapl:2", "psys", 0);                    // all together
  rapl.zone("intel-rapl-mmio:0", "package-0", 1'000'000);  // package-0 a second time
  std::filesystem::create_directories(rapl.at("intel-rapl"));
  EnergyMeter meter(rapl.sources());
  EXPECT_EQ(meter.read().cpu, Counter::counted);
  EXPECT_EQ(meter.read().cpu_j, 0);
  rapl.set("intel-rapl:0", 3'500'000);
  rapl.set("intel-rapl:1", 6'000'000);
  rapl.set("intel-rapl:0:0", 900'000'000);
  rapl.set("intel-rapl:0:1", 250'010);
  rapl.set("intel-rapl:2", 900'000'000);
  rapl.set("intel-rapl-mmio:0", 900'000'000);
  EXPECT_NEAR(meter.read().cpu_j, 2.5 + 1 + 0.25, 1e-9);
  EXPECT_NEAR(meter.read().cpu_j, 3.75, 1e-9);
  EXPECT_EQ(meter.read().gpu, Counter::absent);
}

TEST(Energy, FollowsACounterOverItsEnd) {
  const Rapl rapl;
  rapl.zone("intel-rapl:0", "package-0", 9'000'000, 10'000'000);
  EnergyMeter meter(rapl.sources());
  rapl.set("intel-rapl:0", 500'000);
  EXPECT_NEAR(meter.read().cpu_j, 1.5, 1e-9);
  rapl.set("intel-rapl:0", 400'000);
  EXPECT_NEAR(meter.read().cpu_j, 1.5 + 9.9, 1e-9);
}

TEST(Energy, SaysWhetherACounterIsAbsentOrNotReadable) {
  EXPECT_EQ(EnergyMeter({.powercap = "/nonexistent", .nvml = "", .gpu_uuid = ""}).read().cpu,
            Counter::absent);
  const Rapl rapl;
  EXPECT_EQ(EnergyMeter(rapl.sources()).read().cpu, Counter::absent);
  rapl.zone("intel-rapl:0", "package-0", 1);
  rapl.zone("intel-rapl:1", "package-1", 1);
  // Root may read everything: a folder in the file's place is unreadable for all.
  std::filesystem::remove(rapl.at("intel-rapl:1/energy_uj"));
  std::filesystem::create_directory(rapl.at("intel-rapl:1/energy_uj"));
  EnergyMeter meter(rapl.sources());
  rapl.set("intel-rapl:0", 1'000'001);
  EXPECT_EQ(meter.read().cpu, Counter::not_readable);
  EXPECT_EQ(meter.read().cpu_j, 0) << "half of the machine's energy as the whole";
}

TEST(Energy, ACounterThatGoesAwaySaysSo) {
  const Rapl rapl;
  rapl.zone("intel-rapl:0", "package-0", 1);
  EnergyMeter meter(rapl.sources());
  std::filesystem::remove(rapl.at("intel-rapl:0/energy_uj"));
  EXPECT_EQ(meter.read().cpu, Counter::not_readable);
}

// tests/apps/nvml_double.cpp is the library.
TEST(Energy, CountsAGpuThroughTheDriversLibrary) {
  EnergySources sources{.powercap = "", .nvml = BORA_NVML_DOUBLE, .gpu_uuid = "GPU-1234"};
  ::setenv("BORA_NVML_DOUBLE_MJ", "7000", 1);
  EnergyMeter meter(sources);
  ::setenv("BORA_NVML_DOUBLE_MJ", "9500", 1);
  EXPECT_EQ(meter.read().gpu, Counter::counted);
  EXPECT_NEAR(meter.read().gpu_j, 2.5, 1e-9);
  ::setenv("BORA_NVML_DOUBLE_MJ", "100", 1);  // the driver was loaded anew
  EXPECT_EQ(meter.read().gpu, Counter::not_readable);
  sources.gpu_uuid = "GPU-of-another-machine";
  EXPECT_EQ(EnergyMeter(sources).read().gpu, Counter::absent);
  sources.gpu_uuid = "GPU-1234";
  ::setenv("BORA_NVML_DOUBLE_MJ", "not supported", 1);
  EXPECT_EQ(EnergyMeter(sources).read().gpu, Counter::absent);
  ::setenv("BORA_NVML_DOUBLE_MJ", "no permission", 1);
  EXPECT_EQ(EnergyMeter(sources).read().gpu, Counter::not_readable);
  sources.nvml = "libno-such-library.so.1";
  EXPECT_EQ(EnergyMeter(sources).read().gpu, Counter::absent);
}

constexpr int64_t kGiB = int64_t{1} << 30;

TEST(Usage, JoinsRanksAndHosts) {
  const Energy counted{
      .cpu = Counter::counted, .gpu = Counter::counted, .cpu_j = 3000, .gpu_j = 1000};
  const Energy gpu_only{.cpu = Counter::absent, .gpu = Counter::counted, .cpu_j = 0, .gpu_j = 500};
  std::vector<RankUsage> ranks{{"a", 2 * kGiB, kGiB, 5, true, counted},
                               {"a", 3 * kGiB, kGiB / 2, 7, true, gpu_only},
                               {"b", 4 * kGiB, kGiB / 4, 6, true, counted}};
  JobUsage job = join_usage(ranks, 10, 250);
  EXPECT_EQ(job.n_hosts, 2);
  EXPECT_EQ(job.peak_rank_bytes, 4 * kGiB);
  EXPECT_EQ(job.largest_rank, 2);
  EXPECT_EQ(job.peak_host_bytes, 5 * kGiB);
  EXPECT_EQ(job.peak_tensor_bytes, kGiB);
  EXPECT_EQ(job.peak_device_bytes, 7);
  EXPECT_EQ(job.energy, "counted");
  EXPECT_EQ(job.total_j(), 3000 + 3000 + 1000 + 500 + 1000);
  EXPECT_THAT(
      usage_lines(job),
      ElementsAre(HasSubstr("10 s, 25 samples/s"),
                  HasSubstr("4.00 GiB a rank (rank 2), 5.00 GiB a host, of it tensors 1.00 GiB"),
                  HasSubstr("8.5 kJ (2.361 Wh): CPUs and memory of 2 hosts 6 kJ (1.667 Wh), "
                            "3 GPUs 2.5 kJ (0.6944 Wh); 34 J a sample")));
  ranks[0].energy.cpu = Counter::not_readable;
  job = join_usage(ranks, 10, 250);
  EXPECT_EQ(job.energy, "partly");
  EXPECT_THAT(usage_lines(job)[2], HasSubstr("memory of 1 of 2 hosts 3 kJ"));
  for (RankUsage& rank : ranks) rank.energy = {};
  job = join_usage(ranks, 10, 250);
  EXPECT_EQ(job.energy, "none");
  EXPECT_EQ(usage_lines(job).size(), 2u);
  EXPECT_EQ(usage_record(job).back().first, "energy");
  ranks[0].energy.cpu = Counter::not_readable;
  EXPECT_EQ(join_usage(ranks, 10, 250).energy, "not readable");
}

TEST(Usage, MeasuresThisProcess) {
  const Rapl rapl;
  rapl.zone("intel-rapl:0", "package-0", 0);
  const std::unique_ptr<Collective> alone = make_self_communicator();
  UsageMeter meter(*alone, cpu(), "", rapl.sources());
  constexpr int64_t kElements = 16 << 20;
  { Tensor::zeros({kElements}, DType::f32); }
  rapl.set("intel-rapl:0", 60'000'000);
  const JobUsage job = meter.gather(30);
  EXPECT_GE(job.peak_tensor_bytes, 4 * kElements);
  EXPECT_GE(job.peak_rank_bytes, 4 * kElements);
  EXPECT_EQ(job.peak_host_bytes, job.peak_rank_bytes);
  EXPECT_EQ(job.energy, "counted");
  EXPECT_NEAR(job.cpu_j, 60, 1e-9);
  EXPECT_GT(job.wall_s, 0);
}

TEST(Usage, TextsHaveUnits) {
  EXPECT_EQ(bytes_text(0), "0.0 MiB");
  EXPECT_EQ(bytes_text(100 << 20), "100 MiB");
  EXPECT_EQ(bytes_text(3 * kGiB / 2), "1.50 GiB");
  EXPECT_EQ(energy_text(12.25), "12.25 J");
  EXPECT_EQ(energy_text(7200), "7.2 kJ (2 Wh)");
  EXPECT_EQ(energy_text(36e6), "36 MJ (10 kWh)");
}

}  // namespace
}  // namespace bora::apps
