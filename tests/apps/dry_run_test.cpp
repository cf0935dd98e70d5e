// SPDX-License-Identifier: Apache-2.0
// A dry run on 1 and 2 ranks: the forecast of memory against what training then takes, checks, and
// that nothing is written (features 135, 183).
#include "apps/train/dry_run.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "apps/train/dry_run_text.hpp"
#include "apps/unet3d/trainer.hpp"
#include "comm/communicator.hpp"
#include "core/memory_report.hpp"
#include "tests/support/message_of.hpp"
#include "tests/support/mpi_main.hpp"
#include "tests/support/shared_folder.hpp"

namespace bora::unet3d {
namespace {

using train::DryRun;
using train::Verdict;

class DryRunTest : public ::testing::Test {
 protected:
  std::unique_ptr<Collective> ranks = make_communicator(bora::testing::session());
  bora::testing::SharedFolder place{*ranks};
  const std::string& folder = place.path();

  Config config(const std::string& more) const {
    Config c;
    config_load_text(c,
                     "data.root = 'samples/urban-wind'\nsplit.validation = 0.1\n"
                     "split.test = 0.6\noutput.log_every = 1000\ntrain.epochs = 2\n"
                     "output.checkpoint_minutes = 0\noutput.dir = '" +
                         folder + "/run'\n" + more,
                     "the test");
    return c;
  }
  DryRun forecast(const Config& c, const train::DryRunOptions& options = {}) {
    return train::dry_run([&] { return std::make_unique<WindTask>(c, *ranks); }, c, *ranks, {},
                          options);
  }
};

bool has_line(const DryRun& run, const std::string& text) {
  for (const std::string& line : run.lines)
    if (line.find(text) != std::string::npos) return true;
  return false;
}

// The case of an issue: f32, batch 2, instance norm, recompute on and off.  Passes up to 16384
// cells, an eighth of the real sample, must foretell the peak of real training to a tenth.
TEST_F(DryRunTest, ForetellsThePeakOfTraining) {
  const char* const cases[] = {
      "model.norm = 'instance'\n", "model.norm = 'instance'\nmodel.recompute = true\n",
      "precision = 'bf16'\nmodel.deep_supervision = 2\ntrain.ema = 0.9\nloader.threads = 1\n"};
  for (const char* const more : cases) {
    const Config c = config(
        detail::join("model.levels = 3\nmodel.base = 8\ntrain.batch = 2\ndata.shape = '64x64x32'\n"
                     "train.max_updates = 2\noverwrite = true\n",
                     more));
    const DryRun plan = forecast(c, {.probe = {.least_cells = 32768, .budget_s = 0}});
    ASSERT_FALSE(plan.measured.empty());
    EXPECT_LE(4 * plan.measured.back().extents.count(), 64 * 64 * 32) << "nothing is foretold";
    EXPECT_FALSE(std::filesystem::exists(folder + "/run")) << "a dry run wrote";
    const int64_t before = memory_of(cpu()).live;
    reset_memory_peaks(cpu());
    int64_t shared = 0;
    {
      Trainer trainer(c, *ranks);
      if (ranks->size() > 1) shared = trainer.arena().gradients().all().bytes();
      trainer.run();
    }
    // No save overlaps with a step here.
    const auto want = static_cast<double>(plan.rank.tensors() - plan.rank.snapshot);
    const auto got = static_cast<double>(memory_of(cpu()).peak - before + shared);
    EXPECT_NEAR(want / got, 1.0, 0.1)
        << more << want / 1048576 << " MiB foretold, " << got / 1048576 << " taken";
    if (ranks->rank() == 0) std::printf("foretold / taken: %.4f\n", want / got);
    ranks->barrier("looked");
    if (ranks->rank() == 0) std::filesystem::remove_all(folder + "/run");
    ranks->barrier("removed");
  }
}

// What is certain is certain: the state's bytes are those that the run's buffers have.
TEST_F(DryRunTest, TheStatesBytesAreExact) {
  const Config c = config(
      "model.levels = 3\nmodel.base = 8\nmodel.norm = 'batch'\ndata.shape = '32x32x16'\ntrain.ema "
      "= 0.9\n"
      "precision = 'bf16'\ntrain.max_updates = 1\nloader.threads = 0\n");  // nothing read ahead
  const DryRun plan = forecast(c);
  const int64_t before = memory_of(cpu()).live;
  Trainer trainer(c, *ranks);
  const int64_t shared = ranks->size() > 1 ? trainer.arena().gradients().all().bytes() : 0;
  const int64_t live = memory_of(cpu()).live - before + shared;
  EXPECT_GE(live, plan.rank.state.total());
  // Scalars and rounding to 256 bytes.
  EXPECT_LE(live, plan.rank.state.total() + 65536);
}

// A sample that is larger than the memory is not read.
TEST_F(DryRunTest, ASampleThatIsTooBigIsNotRead) {
  const Config c = config(
      "model.levels = 3\nmodel.base = 4\ndata.shape = '4096x4096x1024'\n"
      "data.normalisation = 'per_sample'\n");
  reset_memory_peaks(cpu());
  const int64_t before = memory_of(cpu()).live;
  const DryRun plan = forecast(c);
  EXPECT_EQ(plan.verdict, Verdict::does_not_fit);
  EXPECT_TRUE(has_line(plan, "a smaller data.shape"));
  EXPECT_LT(memory_of(cpu()).peak - before, int64_t{64} << 20) << "it was read";
}

TEST_F(DryRunTest, WhatIsTooBigIsToldBeforeItIsTaken) {
  // 87 million parameters: 1.3 GiB of state alone.
  const Config c = config("model.base = 64\ndata.shape = '64x64x32'\n");
  reset_memory_peaks(cpu());
  const int64_t before = memory_of(cpu()).live;
  const DryRun plan = forecast(c, {.free_bytes = int64_t{1} << 30});
  EXPECT_EQ(plan.verdict, Verdict::does_not_fit);
  EXPECT_TRUE(plan.measured.empty());
  EXPECT_TRUE(has_line(plan, "does not fit"));
  EXPECT_TRUE(has_line(plan, "model.recompute=true"));
  EXPECT_LT(memory_of(cpu()).peak - before, int64_t{64} << 20) << "it was taken";
}

// With activations it is more than there is; what to change is said.
TEST_F(DryRunTest, ActivationsThatDoNotFitAreForetold) {
  const Config c =
      config("model.levels = 3\nmodel.base = 8\ndata.shape = '64x64x32'\ntrain.batch = 4\n");
  const DryRun fits = forecast(c, {.probe = {.budget_s = 0}, .free_bytes = int64_t{64} << 30});
  EXPECT_EQ(fits.verdict, Verdict::fits);
  const int64_t need = fits.rank.host() * ranks->size();
  // Enough for all but half of the activations.
  const DryRun not_so = forecast(
      c, {.probe = {.budget_s = 0}, .free_bytes = need - ranks->size() * fits.rank.step / 2});
  EXPECT_EQ(not_so.verdict, Verdict::does_not_fit);
  EXPECT_FALSE(not_so.measured.empty());
  EXPECT_TRUE(has_line(not_so, "train.batch=1 with train.accumulate=4"));
  const DryRun tight = forecast(c, {.probe = {.budget_s = 0}, .free_bytes = need + need / 10});
  EXPECT_EQ(tight.verdict, Verdict::tight);
  EXPECT_TRUE(has_line(
      tight, ranks->size() == 1 ? ": tight" : detail::join(", ", ranks->size(), " ranks: ")));
}

// Each rank's own copy of the data, or one for the ranks of a host, as they are in memory: 57 pairs
// of 64 x 64 x 16 cells of 4 bytes.
TEST_F(DryRunTest, CountsWhatACacheHoldsWhenItIsFull) {
  constexpr int64_t kData = int64_t{57} * 2 * 64 * 64 * 16 * 4;
  const std::string small = "model.levels = 3\nmodel.base = 4\ndata.shape = '32x32x16'\n";
  const train::DryRunOptions much{.probe = {.budget_s = 0}, .free_bytes = int64_t{64} << 30};
  // What the program takes beside its tensors grows with what it has done: looked at just before.
  const auto need = [&](const DryRun& run) {
    return ranks->all_reduce(run.rank.host(), ReduceOp::sum, "need");
  };
  const DryRun none = forecast(config(small), much);
  EXPECT_EQ(none.rank.cache + none.shared_cache, 0);
  const struct {
    const char* kind;
    int64_t of_rank, of_host;
  } kKinds[] = {{"ram", kData, 0}, {"shared", 0, kData}, {"disk", 0, 0}};
  for (const auto& k : kKinds) {
    const std::string more =
        small + "data.cache.kind = '" + k.kind + "'\ndata.cache.folder = '" + folder + "/cache'\n";
    const DryRun run = forecast(config(more), much);
    EXPECT_EQ(run.rank.cache, k.of_rank) << k.kind;
    EXPECT_EQ(run.shared_cache, k.of_host) << k.kind;
    EXPECT_EQ(has_line(run, "  data.cache, full "), k.of_rank + k.of_host > 0) << k.kind;
    const DryRun little = forecast(config(more + "data.cache.limit_gib = 0.01\n"), much);
    EXPECT_EQ(little.rank.cache, k.of_rank > 0 ? 10737418 : 0) << k.kind;
    EXPECT_EQ(little.shared_cache, k.of_host > 0 ? 10737418 : 0) << k.kind;
    if (k.of_rank + k.of_host == 0) continue;
    // Room for half of it is not enough; without a cache it is.
    train::DryRunOptions half = much;
    const int64_t more_bytes = k.of_host + ranks->size() * k.of_rank;
    half.free_bytes = need(forecast(config(small), much)) + more_bytes / 2;
    EXPECT_NE(forecast(config(small), half).verdict, Verdict::does_not_fit) << k.kind;
    const DryRun not_so = forecast(config(more), half);
    EXPECT_EQ(not_so.verdict, Verdict::does_not_fit) << k.kind;
    EXPECT_TRUE(has_line(not_so, "a smaller data.cache.limit_gib (now 28.5 MiB when full)"));
  }
}

TEST_F(DryRunTest, ChecksTheOutputFolderAndLeavesIt) {
  const Config c = config("model.levels = 3\nmodel.base = 4\ndata.shape = '32x32x16'\n");
  EXPECT_TRUE(has_line(forecast(c), "(to be made)"));
  EXPECT_FALSE(std::filesystem::exists(folder + "/run"));
  ranks->barrier("looked");
  if (ranks->rank() == 0) {
    std::filesystem::create_directories(folder + "/run");
    std::ofstream(folder + "/run/metrics.jsonl") << "{}\n";
  }
  ranks->barrier("made");
  EXPECT_NE(bora::testing::message_of([&] { forecast(c); }).find("holds a run already"),
            std::string::npos);
  Config again = c;
  again.overwrite = true;
  EXPECT_TRUE(has_line(forecast(again), "--overwrite removes"));
  EXPECT_TRUE(std::filesystem::exists(folder + "/run/metrics.jsonl"));
  again.output.dir = folder + "/run/metrics.jsonl/below";
  EXPECT_NE(bora::testing::message_of([&] {
              forecast(again);
            }).find("metrics.jsonl' is a file, wanted a folder"),
            std::string::npos);
}

TEST_F(DryRunTest, AFolderThatCannotBeMadeIsAnError) {
  Config c = config("model.levels = 3\nmodel.base = 4\ndata.shape = '32x32x16'\n");
  if (ranks->rank() == 0) std::filesystem::create_symlink("nowhere", folder + "/dead");
  ranks->barrier("made");
  c.output.dir = folder + "/dead/run";
  EXPECT_NE(bora::testing::message_of([&] { forecast(c); }).find("/dead' is a link to nothing"),
            std::string::npos);
}

TEST_F(DryRunTest, BadDataIsAnError) {
  Config c = config("model.levels = 3\nmodel.base = 4\ndata.shape = '32x32x16'\n");
  c.data.root = folder;
  EXPECT_NE(bora::testing::message_of([&] { forecast(c); }), "no error");
}

TEST(ProbeExtents, GrowFromTheSmallestToTheSample) {
  const auto text = [](const std::vector<Dims3>& all) {
    std::string s;
    for (const Dims3& e : all) s += detail::join(e.d, 'x', e.h, 'x', e.w, ' ');
    return s;
  };
  EXPECT_EQ(text(train::probe_extents({64, 64, 32}, 16)),
            "16x16x16 16x32x16 32x32x16 32x32x32 32x64x32 64x64x32 ");
  EXPECT_EQ(text(train::probe_extents({17, 16, 40}, 16)), "16x16x16 16x16x32 16x16x40 17x16x40 ");
  EXPECT_EQ(text(train::probe_extents({5, 1, 1}, 1)), "1x1x1 2x1x1 4x1x1 5x1x1 ");
  EXPECT_EQ(text(train::probe_extents({3, 3, 3}, 16)), "3x3x3 ");
  EXPECT_THROW(train::probe_extents({0, 1, 1}, 1), Error);
}

TEST(Extrapolation, IsTheLineThroughTheLargestPasses) {
  // 1000 + 5 bytes a cell.
  std::vector<train::StepCost> m;
  for (const int64_t n : {1, 2, 4, 8})
    m.push_back({{n, 1, 1}, 1, 1000 + 5 * n, 3 * n, 0.5 * static_cast<double>(n), 0});
  EXPECT_EQ(train::extrapolate(m, {100, 1, 1}, 1).bytes, 1500);
  EXPECT_EQ(train::extrapolate(m, {50, 1, 1}, 2).bytes, 1500);
  EXPECT_EQ(train::extrapolate(m, {8, 1, 1}, 1).bytes, 1040);
  EXPECT_EQ(train::extrapolate(m, {100, 1, 1}, 1).seconds, 50.0);
  EXPECT_EQ(train::extrapolate({m[3]}, {16, 1, 1}, 1).bytes, 2080) << "one pass: in proportion";
  EXPECT_FALSE(train::grows_with_cells(m));
  EXPECT_FALSE(train::grows_with_cells({m[0]}));
  // Scratch of a fixed size hides what forward keeps: the line is flat.
  std::vector<train::StepCost> flat{{{1, 1, 1}, 1, 1000, 10, 1, 0}, {{2, 1, 1}, 1, 1000, 20, 1, 0}};
  EXPECT_EQ(train::extrapolate(flat, {200, 1, 1}, 1).bytes, 2000 + 980);
  EXPECT_EQ(train::extrapolate(flat, {200, 1, 1}, 1).at_most, 100000);
  flat.push_back({{4, 1, 1}, 1, 2000, 40, 1, 0});
  EXPECT_EQ(train::extrapolate(flat, {200, 1, 1}, 1).at_most,
            train::extrapolate(flat, {200, 1, 1}, 1).bytes);
  EXPECT_TRUE(train::grows_with_cells(flat));
  EXPECT_THROW(train::extrapolate({}, {1, 1, 1}, 1), Error);
}

TEST(HostMemory, IsTheSmallerOfHostAndControlGroup) {
  char name[] = "/tmp/bora_memory_XXXXXX";
  ASSERT_NE(::mkdtemp(name), nullptr);
  const std::string root = name;
  const auto write = [&](const std::string& path, const std::string& text) {
    std::filesystem::create_directories(std::filesystem::path(root + path).parent_path());
    std::ofstream(root + path) << text;
  };
  const train::MemorySources sources{root + "/proc", root + "/cgroup"};
  EXPECT_EQ(train::free_host_memory(sources).bytes, -1);
  write("/proc/meminfo", "MemTotal: 100 kB\nMemFree: 1 kB\nMemAvailable:   50 kB\n");
  EXPECT_EQ(train::free_host_memory(sources).bytes, 50 * 1024);
  // A limit of a group above the process's own.
  write("/proc/self/cgroup", "0::/slurm/job_1/step_0\n");
  write("/cgroup/slurm/job_1/step_0/memory.max", "max\n");
  write("/cgroup/slurm/job_1/step_0/memory.current", "1\n");
  write("/cgroup/slurm/job_1/memory.max", "40000\n");
  write("/cgroup/slurm/job_1/memory.current", "30000\n");
  write("/cgroup/slurm/job_1/memory.stat", "anon 5\ninactive_file 2000\n");
  EXPECT_EQ(train::free_host_memory(sources).bytes, 12000);
  EXPECT_NE(train::free_host_memory(sources).reason.find("control group"), std::string::npos);
  // Version 1.
  write("/proc/self/cgroup", "7:cpu:/x\n4:memory:/job\n");
  write("/cgroup/memory/job/memory.limit_in_bytes", "9000");
  write("/cgroup/memory/job/memory.usage_in_bytes", "10000");
  write("/cgroup/memory/job/memory.stat", "total_inactive_file 1500\n");
  EXPECT_EQ(train::free_host_memory(sources).bytes, 500);
  std::filesystem::remove_all(root);
  EXPECT_GT(train::free_host_memory().bytes, 0);
}

TEST(Verdicts, SayWhatIsTight) {
  EXPECT_EQ(train::verdict_of(85, 100), Verdict::fits);
  EXPECT_EQ(train::verdict_of(86, 100), Verdict::tight);
  EXPECT_EQ(train::verdict_of(100, 100), Verdict::tight);
  EXPECT_EQ(train::verdict_of(101, 100), Verdict::does_not_fit);
  EXPECT_EQ(train::verdict_of(101, -1), Verdict::fits);
  EXPECT_EQ(train::bytes_text(3 << 20), "3.0 MiB");
  EXPECT_EQ(train::bytes_text(1), "1 KiB");
}

}  // namespace
}  // namespace bora::unet3d
