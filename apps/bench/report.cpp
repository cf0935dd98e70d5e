// SPDX-License-Identifier: Apache-2.0
#include "apps/bench/report.hpp"

#include <cstdio>

#include "core/error.hpp"
#include "data/jsonl.hpp"

namespace bora::bench {
namespace {

double mib(int64_t bytes) { return static_cast<double>(bytes) / 1048576.0; }
double share(double floor_ms, double ms) { return ms > 0 ? floor_ms / ms : 0; }

/// "12.3" or "-" for nothing.
std::string number(double value, int digits) {
  if (value == 0) return "-";
  char text[32];
  std::snprintf(text, sizeof text, "%.*f", digits, value);
  return text;
}

void print_ops(const StepReport& r) {
  const MachinePeak& m = *r.machine;
  std::printf("machine: %.0f GFLOP/s f32 (%s)", m.f32 * 1e-9, m.vectors.c_str());
  if (m.bf16 > 0) std::printf(", %.0f GFLOP/s bf16", m.bf16 * 1e-9);
  std::printf(", copy %.1f and triad %.1f GB/s, %d threads\n", m.copy * 1e-9, m.triad * 1e-9,
              m.threads);
  const char* row = "%-30s %6s %9s %9s %8s %9s %7s\n";
  std::printf(row, "op (a step, own time)", "calls", "ms", "GFLOP/s", "GB/s", "floor ms", "share");
  double ms = 0, flops = 0, bytes = 0;
  for (const OpFigures& o : r.ops) {
    std::printf(row, o.name.c_str(), number(o.calls, 0).c_str(), number(o.ms, 2).c_str(),
                number(o.flops / o.ms * 1e-6, 1).c_str(), number(o.bytes / o.ms * 1e-6, 1).c_str(),
                number(o.floor_ms, 2).c_str(), number(share(o.floor_ms, o.ms), 2).c_str());
    ms += o.ms;
    flops += o.flops;
    bytes += o.bytes;
  }
  std::printf(row, "total", "", number(ms, 2).c_str(), number(flops / ms * 1e-6, 1).c_str(),
              number(bytes / ms * 1e-6, 1).c_str(), number(r.floor_ms(), 2).c_str(),
              number(share(r.floor_ms(), ms), 2).c_str());
  std::printf(
      "floor: direct-convolution arithmetic (%.1f GFLOP a step) at the measured peak, the operands "
      "of all other ops at the measured bandwidth; shares above 1 are Winograd's (less "
      "arithmetic) or the caches'\n",
      flops * 1e-9);
}

void print_memory(const MemoryStats& memory) {
  std::printf("%-30s %16s\n", "tensors at the peak, by op", "MiB");
  for (const auto& [op, bytes] : memory.by_op_at_peak)
    std::printf("%-30s %16.1f\n", op.c_str(), mib(bytes));
  std::printf("%-30s %16.1f\n", "total", mib(memory.peak));
}

void print_convolutions(const StepReport& r) {
  const char* row = "%-34s %5s %9s %9s %9s %9s\n";
  std::printf(row, "convolution alone (least ms)", "count", "forward", "d data", "d weight",
              "GFLOP/s");
  for (const auto& [c, time] : r.convolutions)
    std::printf(row, c.text().c_str(), number(static_cast<double>(c.count), 0).c_str(),
                number(1e3 * time.forward_s, 2).c_str(), number(1e3 * time.data_s, 2).c_str(),
                number(1e3 * time.weights_s, 2).c_str(),
                number(c.flops() * c.n_passes() / time.total_s() * 1e-9, 0).c_str());
  std::printf("sum of oneDNN's convolutions %.1f ms; the step takes %.3f times that\n",
              r.convolutions_ms(), r.median_ms() / r.convolutions_ms());
}

}  // namespace

std::vector<OpFigures> op_figures(const std::vector<RangeTotal>& totals, int64_t n_steps,
                                  const MachinePeak& peak, DType type) {
  BORA_CHECK(n_steps > 0 && peak.f32 > 0 && peak.bandwidth() > 0, "op_figures: ", n_steps,
             " steps, peak ", peak.f32, " FLOP/s and ", peak.bandwidth(),
             " bytes/s, wanted more than 0 of each");
  const double n = static_cast<double>(n_steps);
  std::vector<OpFigures> out;
  for (const RangeTotal& t : totals) {
    OpFigures o{.name = t.name,
                .calls = static_cast<double>(t.count) / n,
                .ms = 1e3 * t.self_s / n,
                .flops = t.flops / n,
                .bytes = t.bytes / n};
    o.floor_ms = 1e3 * (o.flops > 0 ? o.flops / peak.arithmetic(size_of(type) == 2)
                                    : o.bytes / peak.bandwidth());
    out.push_back(std::move(o));
  }
  return out;
}

double StepReport::percentile_ms(double p) const {
  BORA_CHECK(!ms.empty(), "StepReport: no step was timed");
  return ms[static_cast<size_t>(p * static_cast<double>(ms.size() - 1) + 0.5)];
}
double StepReport::median_ms() const { return percentile_ms(0.5); }

double StepReport::samples_per_s() const {
  return 1e3 * static_cast<double>(config.batch * config.accumulate * ranks) / median_ms();
}

double StepReport::floor_ms() const {
  double sum = 0;
  for (const OpFigures& o : ops) sum += o.floor_ms;
  return sum;
}

double StepReport::convolutions_ms() const {
  double sum = 0;
  for (const auto& [c, time] : convolutions)
    sum += 1e3 * time.total_s() * static_cast<double>(c.count);
  return sum;
}

void print(const StepReport& r) {
  std::printf("device: %s; step %s\n", r.device.c_str(), r.way.c_str());
  std::printf(
      "%s base %ld, %ld parameters, volume %ldx%ldx%ld, batch %ld, %s, %d threads: median %.1f ms "
      "a step (10 %%: %.1f, 90 %%: %.1f, min %.1f, %zu steps)\n",
      r.config.network.c_str(), r.config.model.base, r.n_parameters, r.config.size.d,
      r.config.size.h, r.config.size.w, r.config.batch, r.config.precision.c_str(), r.threads,
      r.median_ms(), r.percentile_ms(0.1), r.percentile_ms(0.9), r.ms.front(), r.ms.size());
  if (r.ranks > 1)
    std::printf(
        "%d ranks: %.3f ms a step of exposed communication (%.2f %% of the median); %.3f ms with "
        "the wait for the slowest rank\n",
        r.ranks, r.exposed_ms, 100 * share(r.exposed_ms, r.median_ms()), r.longest_wait_ms);
  std::printf(
      "%.2f samples/s on %d rank%s\n",
      1e3 * static_cast<double>(r.config.batch * r.config.accumulate * r.ranks) / r.median_ms(),
      r.ranks, r.ranks > 1 ? "s" : "");
  std::printf("page faults a step: %.1f; tensors at peak: %.1f MiB; peak resident: %.1f MiB\n",
              r.faults_a_step, mib(r.memory.peak), r.peak_resident_mib);
  if (r.skipped > 0)
    std::printf("%ld of all updates were skipped: gradients overflowed\n", r.skipped);
  if (!r.ops.empty()) {
    print_ops(r);
    print_memory(r.memory);
  }
  if (!r.convolutions.empty()) print_convolutions(r);
}

void write_json(const StepReport& r, const std::string& path) {
  data::JsonlWriter out(path, data::OpenMode::replace);
  data::JsonRecord step{{"kind", "step"},
                        {"case", r.config.network},
                        {"base", r.config.model.base},
                        {"size", detail::join(r.config.size)},
                        {"batch", r.config.batch},
                        {"precision", r.config.precision},
                        {"device", r.device},
                        {"step", r.way},
                        {"samples_per_s", r.samples_per_s()},
                        {"threads", r.threads},
                        {"ranks", r.ranks},
                        {"exposed_ms", r.exposed_ms},
                        {"longest_wait_ms", r.longest_wait_ms},
                        {"parameters", r.n_parameters},
                        {"ms", r.ms},
                        {"median_ms", r.median_ms()},
                        {"peak_mib", r.peak_resident_mib},
                        {"tensors_peak_mib", mib(r.memory.peak)},
                        {"faults_a_step", r.faults_a_step},
                        {"skipped", r.skipped}};
  if (r.machine) {
    step.insert(step.end(), {{"peak_f32_gflops", r.machine->f32 * 1e-9},
                             {"peak_bf16_gflops", r.machine->bf16 * 1e-9},
                             {"copy_gbs", r.machine->copy * 1e-9},
                             {"triad_gbs", r.machine->triad * 1e-9},
                             {"floor_ms", r.floor_ms()},
                             {"floor_share", share(r.floor_ms(), r.median_ms())}});
  }
  if (!r.convolutions.empty()) {
    step.insert(step.end(), {{"convolutions_ms", r.convolutions_ms()},
                             {"step_over_convolutions", r.median_ms() / r.convolutions_ms()}});
  }
  out.write(step);
  for (const OpFigures& o : r.ops)
    out.write({{"kind", "op"},
               {"op", o.name},
               {"calls", o.calls},
               {"ms", o.ms},
               {"gflops", o.flops / o.ms * 1e-6},
               {"gbs", o.bytes / o.ms * 1e-6},
               {"floor_ms", o.floor_ms},
               {"floor_share", share(o.floor_ms, o.ms)}});
  if (!r.ops.empty())
    for (const auto& [op, bytes] : r.memory.by_op_at_peak)
      out.write({{"kind", "memory"}, {"op", op}, {"mib", mib(bytes)}});
  for (const auto& [c, time] : r.convolutions)
    out.write({{"kind", "convolution"},
               {"shape", c.text()},
               {"count", c.count},
               {"forward_ms", 1e3 * time.forward_s},
               {"data_gradient_ms", 1e3 * time.data_s},
               {"weight_gradient_ms", 1e3 * time.weights_s},
               {"gflop", c.flops() * c.n_passes() * 1e-9}});
}

}  // namespace bora::bench
