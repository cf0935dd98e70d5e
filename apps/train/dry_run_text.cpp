// SPDX-License-Identifier: Apache-2.0
#include "apps/train/dry_run_text.hpp"

#include <algorithm>
#include <cmath>
#include <sstream>

#include "apps/common/progress.hpp"
#include "apps/common/text.hpp"
#include "apps/common/threads.hpp"
#include "apps/train/global_batch.hpp"
#include "apps/train/setup.hpp"

namespace bora::train {
namespace {

using detail::join;

void schedule_lines(const PlanFacts& f, std::ostringstream& out) {
  const RunConfig& c = f.config;
  const int64_t an_epoch = f.plan.updates_an_epoch(), total = an_epoch * c.train.epochs;
  const nn::Schedule schedule =
      schedule_of(c.optim, total, c.optim.scale_lr == "linear" ? f.n_ranks : 1);
  int64_t peak_at = 0;
  double peak = -1;
  for (int64_t u = 0; u < total; ++u) {
    const double rate = nn::learning_rate(schedule, u);
    if (rate <= peak) continue;
    peak = rate;
    peak_at = u;
  }
  out << "updates: " << an_epoch << " an epoch, " << total << " in " << c.train.epochs
      << " epochs; each takes " << f.plan.samples()
      << (f.plan.samples() == 1 ? " sample" : " samples") << " (" << f.n_ranks
      << (f.n_ranks == 1 ? " rank" : " ranks") << " x batch " << c.train.batch << " x accumulate "
      << accumulate_of(c.train, f.n_ranks) << ")\n";
  out << "learning rate: " << apps::brief(nn::learning_rate(schedule, 0)) << " at update 1, "
      << apps::brief(peak) << " at " << peak_at + 1 << ", "
      << apps::brief(nn::learning_rate(schedule, total - 1)) << " at " << total << " ("
      << c.optim.schedule << ", " << c.optim.kind << ")\n";
  if (c.train.max_updates > 0 && c.train.max_updates < total)
    out << "it leaves after " << c.train.max_updates << " updates (train.max_updates)\n";
}

void save_lines(const PlanFacts& f, std::ostringstream& out) {
  const OutputConfig& o = f.config.output;
  out << "saves: best.h5 after each epoch with a better " << f.task.judged_by()
      << (f.config.train.ema > 0 ? " of the averaged weights" : "") << "; last.h5 every ";
  out << (o.checkpoint_epochs == 1 ? std::string("epoch") : join(o.checkpoint_epochs, " epochs"));
  if (o.checkpoint_updates > 0) out << " and every " << o.checkpoint_updates << " updates";
  if (o.checkpoint_minutes > 0)
    out << " and every " << apps::brief(o.checkpoint_minutes) << " minutes";
  if (o.keep > 0) out << "; the newest " << o.keep << " of those stay";
  out << '\n';
}

void memory_lines(const PlanFacts& f, std::ostringstream& out) {
  const RankMemory& m = f.forecast.rank;
  const auto row = [&](const std::string& what, int64_t bytes, const std::string& note = "") {
    if (bytes == 0) return;
    std::string size = apps::fixed(static_cast<double>(bytes) / 1048576, 1);
    out << "  " << what << std::string(what.size() < 34 ? 34 - what.size() : 1, ' ')
        << std::string(size.size() < 10 ? 10 - size.size() : 0, ' ') << size << " MiB"
        << (note.empty() ? "" : "  " + note) << '\n';
  };
  out << "memory of a rank" << (f.n_ranks > 1 ? ", rank 0" : "")
      << (m.on_device ? ", on its device unless said:\n" : ":\n");
  row("weights", m.state.weights);
  row("gradients", m.state.gradients);
  row("optimizer (" + f.config.optim.kind + ")", m.state.optimizer);
  row("average of the weights (ema)", m.state.average);
  row("16-bit copy of the weights", m.state.halves);
  row("joining of gradients", m.state.exchange);
  row("running statistics", m.state.buffers);
  const auto& measured = f.forecast.measured;
  if (!measured.empty()) {
    const bool real = measured.back().cells() == f.samples * f.full.count();
    row("activations and scratch", m.step,
        real ? "measured"
             : join("estimate: measured up to ", measured.back().extents,
                    ", taken as linear in cells"));
  }
  if (m.step_at_most > m.step)
    out << "    (up to " << bytes_text(m.step_at_most)
        << ": the passes were too small to see more than scratch for the weights)\n";
  row(join(f.samples, f.samples == 1 ? " sample" : " samples", " computed with"), m.batch);
  row("samples read ahead", m.queue, m.on_device ? "on the host" : "");
  const std::string key = f.task.cache_memory().key;
  row(key + ", full", m.cache, m.on_device ? "on the host" : "");
  row(key + ", full", f.forecast.shared_cache,
      f.n_ranks > 1 ? "on the host, once for its ranks" : "on the host, in /dev/shm");
  row("copy for a save", m.snapshot,
      join(f.n_ranks > 1 ? "rank 0 only; " : "", m.on_device ? "on the host; " : "",
           "twice where the disk is slower than the saves"));
  row("program and libraries", m.program, m.on_device ? "on the host" : "");
  for (const HostMemory& p : f.places) {
    out << "  " << p.host;
    if (p.n_ranks > 1) out << ", " << p.n_ranks << " ranks";
    out << ": " << (measured.empty() ? "more than " : "") << bytes_text(p.need) << " of ";
    if (p.free < 0)
      out << "nobody knows how much";
    else
      out << bytes_text(p.free) << ' ' << p.reason;
    out << ": " << name_of(verdict_of(p.need, p.free)) << '\n';
  }
  if (measured.empty())
    out << "  activations were not measured: without them it does not fit already\n";
}

void advice_lines(const PlanFacts& f, std::ostringstream& out) {
  if (f.forecast.verdict == Verdict::fits) return;
  const RunConfig& c = f.config;
  out << "to need less memory:\n";
  if (c.train.batch > 1 && !f.plan.sharded())
    out << "  train.batch=1 with train.accumulate="
        << accumulate_of(c.train, f.n_ranks) * c.train.batch << ": the same update, about 1/"
        << c.train.batch << " of the activations\n";
  for (const std::string& way : f.task.ways_to_less_memory()) out << "  " << way << '\n';
  if (c.precision == "fp32") out << "  precision=bf16 or fp16: about half of the activations\n";
  const bool many = std::any_of(f.places.begin(), f.places.end(),
                                [](const HostMemory& p) { return p.n_ranks > 1; });
  if (many) out << "  fewer ranks on a host, with more threads each\n";
  const Task::CacheMemory cache = f.task.cache_memory();
  if (const int64_t bytes = std::max(cache.of_rank, cache.of_host); bytes > 0) {
    out << "  a smaller " << cache.key << ".limit_gib (now " << bytes_text(bytes)
        << " when full), ";
    if (cache.of_rank > 0 && many)
      out << cache.key << ".kind=shared (one for the ranks of a host), ";
    out << cache.key << ".kind=disk or none\n";
  }
  if (f.forecast.rank.queue > f.forecast.rank.host() / 10)
    out << "  a smaller loader.queue (now " << bytes_text(f.forecast.rank.queue) << ")\n";
}

}  // namespace

std::string bytes_text(int64_t bytes) {
  const auto value = static_cast<double>(bytes);
  if (value >= 1073741824) return apps::fixed(value / 1073741824, 2) + " GiB";
  if (value >= 1048576) return apps::fixed(value / 1048576, 1) + " MiB";
  return std::to_string((bytes + 1023) / 1024) + " KiB";
}

int64_t kept_checkpoints(const OutputConfig& output) { return output.keep; }

std::string plan_text(const PlanFacts& f) {
  std::ostringstream out;
  out << "dry run: nothing is written and nothing is trained\n";
  for (const std::string& line : f.task.describe()) out << line << '\n';
  out << "samples: " << f.full << " cells, the largest of ";
  if (f.n_looked < f.task.training().size()) out << f.n_looked << " of ";
  out << f.task.training().size() << " training cases\n";
  out << "network: " << nn::parameter_count(f.task.model()) << " parameters, " << f.config.precision
      << "; " << f.n_ranks << (f.n_ranks == 1 ? " rank" : " ranks") << " x "
      << apps::compute_threads() << " threads\n";
  schedule_lines(f, out);
  save_lines(f, out);
  out << f.output << '\n';
  if (f.forecast.epoch_s > 0)
    out << "time: about " << apps::duration_text(f.forecast.epoch_s) << " an epoch, "
        << apps::duration_text(f.forecast.epoch_s * static_cast<double>(f.config.train.epochs))
        << " in all: an estimate from passes over " << f.forecast.measured.back().extents
        << " cells, without waiting for data or other ranks\n";
  memory_lines(f, out);
  for (const std::string& warning : f.task.warnings(f.n_ranks))
    out << "warning: " << warning << '\n';
  advice_lines(f, out);
  out << "verdict: " << name_of(f.forecast.verdict) << '\n';
  return out.str();
}

}  // namespace bora::train
