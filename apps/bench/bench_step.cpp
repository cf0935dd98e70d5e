// SPDX-License-Identifier: Apache-2.0
// bench_step: one training step of UNet3d (forward, loss, backward, norm and clip, AdamW) on
// made-up data: time by op, peak memory, page faults.
#include <sys/resource.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "apps/common/threads.hpp"
#include "apps/unet3d/loss.hpp"
#include "apps/unet3d/setup.hpp"
#include "core/allocator.hpp"
#include "core/build_info.hpp"
#include "core/log.hpp"
#include "core/profile.hpp"
#include "data/jsonl.hpp"

namespace bora {
namespace {

struct BenchConfig {
  unet3d::ModelConfig model;
  unet3d::LossConfig loss;
  Dims3 size{64, 64, 64};
  int64_t batch = 1;
  int64_t warmup = 3;
  int64_t repeats = 10;
  std::string json;
  bool ops = true;
  static constexpr auto fields() {
    return std::tuple{
        field("model", &BenchConfig::model, "The network"),
        field("loss", &BenchConfig::loss, "The loss"),
        field("size", &BenchConfig::size, "extents of the volume", positive),
        field("batch", &BenchConfig::batch, "samples", positive),
        field("warmup", &BenchConfig::warmup, "steps not counted", at_least(1)),
        field("repeats", &BenchConfig::repeats, "steps counted", positive),
        field("ops", &BenchConfig::ops, "one more step with the time of each op"),
        field("json", &BenchConfig::json, "also write the result to this file (one JSON line)")};
  }
};

struct Usage {
  int64_t minor_faults, major_faults, peak_kib;
};
Usage usage() {
  rusage u{};
  ::getrusage(RUSAGE_SELF, &u);
  return {u.ru_minflt, u.ru_majflt, u.ru_maxrss};
}

Tensor noise(const Shape& shape, uint64_t seed) {
  const RngKey key{seed, 1};
  Tensor t = Tensor::empty(shape, DType::f32);
  float* v = t.data<float>();
  for (int64_t i = 0; i < t.numel(); ++i)
    v[i] = 2.0f * key.uniform(static_cast<uint64_t>(i)) - 1.0f;
  return t;
}

double percentile(std::vector<double> sorted, double p) {
  return sorted[static_cast<size_t>(p * static_cast<double>(sorted.size() - 1) + 0.5)];
}

int run(int argc, char** argv) {
  BenchConfig c;
  const ConfigArgs given = config_parse_args(
      c, "bench_step", std::vector<std::string>(argv + 1, argv + argc),
      {.about = "Times one training step of UNet3d on made-up data.", .positionals = {}});
  if (!given.help.empty()) return std::fputs(given.help.c_str(), stdout), 0;
  const int threads = apps::set_compute_threads(1);
  unet3d::UNet3d net(1, 1, c.model);
  nn::ParameterArena arena(net, DType::f32);
  nn::initialise(net, 0);
  const auto optimizer = nn::make_adamw(arena, {});
  const Shape shape{c.batch, c.size.d, c.size.h, c.size.w, 1};
  const Tensor x = noise(shape, 1), target = noise(shape, 2);

  const auto step = [&] {
    arena.clear_gradients();
    const unet3d::Loss loss = unet3d::compute_loss(c.loss, net.forward(x), target, {});
    backward(loss.total);
    const ScopedRange range("optimizer");
    const nn::GradientNorm norm = nn::gradient_norm(arena);
    optimizer->step({.lr = 1e-3, .gradient_factor = nn::clip_factor(norm.norm, 1.0)});
  };

  for (int64_t i = 0; i < c.warmup; ++i) step();
  std::vector<double> ms;
  const Usage before = usage();
  for (int64_t i = 0; i < c.repeats; ++i) {
    const double begin = now_s();
    step();
    ms.push_back(1e3 * (now_s() - begin));
  }
  const Usage after = usage();
  std::sort(ms.begin(), ms.end());
  const MemoryStats memory = caching_allocator(cpu()).stats();
  const double faults = static_cast<double>(after.minor_faults + after.major_faults -
                                            before.minor_faults - before.major_faults) /
                        static_cast<double>(c.repeats);
  std::printf("%s\n", build_info_text().c_str());
  std::printf(
      "UNet3d base %ld, volume %ldx%ldx%ld, batch %ld, f32, %d threads: median %.1f ms a step (10 "
      "%%: %.1f, 90 %%: %.1f, "
      "min %.1f, %ld steps)\n",
      c.model.base, c.size.d, c.size.h, c.size.w, c.batch, threads, percentile(ms, 0.5),
      percentile(ms, 0.1), percentile(ms, 0.9), ms.front(), c.repeats);
  std::printf("page faults a step: %.1f; tensors at peak: %.1f MiB; peak resident: %.1f MiB\n",
              faults, static_cast<double>(memory.peak) / 1048576.0,
              static_cast<double>(after.peak_kib) / 1024.0);
  if (c.ops) {
    profile_enable(true);
    step();
    std::printf("%-34s %6s %10s\n", "op (one step, own time)", "calls", "ms");
    for (const RangeTotal& r : profile_totals())
      std::printf("%-34s %6ld %10.2f\n", r.name.c_str(), r.count, 1e3 * r.self_s);
    std::printf("%-34s %17s\n", "memory at the peak, by op", "MiB");
    for (const auto& [op, bytes] : memory.by_op_at_peak)
      std::printf("%-34s %17.1f\n", op.c_str(), static_cast<double>(bytes) / 1048576.0);
    profile_enable(false);
  }
  if (!c.json.empty())
    data::JsonlWriter(c.json, data::OpenMode::replace)
        .write(data::JsonRecord{{"base", c.model.base},
                                {"size", detail::join(c.size)},
                                {"batch", c.batch},
                                {"precision", "f32"},
                                {"threads", threads},
                                {"ms", ms},
                                {"median_ms", percentile(ms, 0.5)},
                                {"peak_mib", static_cast<double>(after.peak_kib) / 1024.0},
                                {"faults_a_step", faults}});
  return 0;
}

}  // namespace
}  // namespace bora

int main(int argc, char** argv) {
  try {
    return bora::run(argc, argv);
  } catch (const bora::UsageError& e) {
    bora::log_error(e.what());
    return 2;
  } catch (const std::exception& e) {
    bora::log_error(e.what());
    return 1;
  }
}
