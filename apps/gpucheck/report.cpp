// SPDX-License-Identifier: Apache-2.0
#include "apps/gpucheck/report.hpp"

#include <algorithm>
#include <ctime>
#include <filesystem>
#include <sstream>

#include "core/build_info.hpp"
#include "core/error.hpp"

namespace bora::gpucheck {
namespace {

/// Times of anything else but a GPU say nothing about one: they are neither shown nor compared.
bool timed(const Stage& s) { return s.device == "gpu"; }

bool begins(const std::string& text, const std::string& start) { return text.rfind(start, 0) == 0; }

/// The others measure.
bool judges(const Stage& s) { return !begins(s.name, "throughput") && !begins(s.name, "ncu"); }

double median(std::vector<double> v) {
  if (v.empty()) return 0;
  std::sort(v.begin(), v.end());
  return v[v.size() / 2];
}

/// Median over rounds of a way's medians on a network, and of its peaks.
struct Way {
  double ms = 0, peak = 0, card = 0, parameters = 0;
};
Way way(const std::vector<Stage>& stages, const std::string& network, const std::string& name) {
  std::vector<double> ms, peak, card;
  double parameters = 0;
  for (const Stage& s : stages)
    if (begins(s.name, "throughput") && timed(s))
      for (const Bench& b : s.bench)
        if (b.name == name && b.shape == network) {
          ms.push_back(b.ms_median);
          peak.push_back(b.peak_mib);
          if (s.numbers.count("card MiB") == 1) card.push_back(s.numbers.at("card MiB"));
          if (s.numbers.count("parameters") == 1) parameters = s.numbers.at("parameters");
        }
  return {median(ms), median(peak), median(card), parameters};
}

std::vector<Comparison> comparisons(const std::vector<Stage>& stages) {
  std::vector<std::string> networks;
  for (const Stage& s : stages)
    if (begins(s.name, "throughput") && timed(s))
      for (const Bench& b : s.bench)
        if ((begins(b.name, "ours") || begins(b.name, "torch")) &&
            std::find(networks.begin(), networks.end(), b.shape) == networks.end())
          networks.push_back(b.shape);
  std::vector<Comparison> out;
  for (const std::string& network : networks) {
    const Way eager = way(stages, network, "ours eager"),
              graph = way(stages, network, "ours graph");
    const Way last = way(stages, network, "torch channels_last"),
              contiguous = way(stages, network, "torch contiguous");
    // The faster of those that ran.
    const auto better = [](const Way& a, const Way& b) {
      return b.ms == 0 || (a.ms > 0 && a.ms <= b.ms) ? a : b;
    };
    const Way ours = better(graph, eager), theirs = better(last, contiguous);
    const bool same = ours.parameters == theirs.parameters;
    out.push_back(
        {.network = network,
         .ours_ms = ours.ms,
         .torch_channels_last_ms = last.ms,
         .torch_contiguous_ms = contiguous.ms,
         .ours_peak_mib = ours.peak,
         .torch_peak_mib = theirs.peak,
         .ours_card_mib = ours.card,
         .torch_card_mib = theirs.card,
         .ratio_to_best = same && ours.ms > 0 && theirs.ms > 0 ? theirs.ms / ours.ms : 0});
    if (!same && ours.ms > 0 && theirs.ms > 0)
      out.back().note = detail::join("not the same network: ", ours.parameters,
                                     " parameters here, ", theirs.parameters, " in PyTorch");
  }
  return out;
}

std::string now_utc() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  ::gmtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

std::string rounded(double v, int digits = 4) {
  std::ostringstream out;
  out.precision(digits);
  out << v;
  return out.str();
}
std::string or_not_measured(double v) { return v > 0 ? rounded(v) : "not measured"; }

void print_stages(const Run& run, std::ostream& out) {
  out << "| stage | status | device | s | checks passed | note |\n|---|---|---|---|---|---|\n";
  for (const Stage& s : run.stages) {
    const auto passed =
        std::count_if(s.checks.begin(), s.checks.end(), [](const Check& c) { return c.pass; });
    std::string note = s.error;
    for (size_t i; (i = note.find('\n')) != std::string::npos;) note[i] = ' ';
    if (const auto left = s.numbers.find("left_out_for_time"); left != s.numbers.end())
      note += detail::join(note.empty() ? "" : "; ", left->second, " left out for time");
    out << "| " << s.name << " | " << name_of(s.status) << " | " << s.device << " | "
        << rounded(s.seconds, 3) << " | " << passed << "/" << s.checks.size() << " | " << note
        << " |\n";
  }
}

void print_failures(const Run& run, std::ostream& out) {
  bool any = false;
  for (const Stage& s : run.stages)
    for (const Check& c : s.checks) {
      if (c.pass) continue;
      if (!any)
        out << "\n| failed | shape | type | rel. L2 (tol.) | max (tol.) | same bits | note |\n"
               "|---|---|---|---|---|---|---|\n";
      any = true;
      out << "| " << s.name << ": " << c.op << " | " << c.shape << " | " << c.dtype << " | "
          << rounded(c.rel_l2) << " (" << rounded(c.tol_rel_l2) << ") | " << rounded(c.max_abs)
          << " (" << rounded(c.tol_max_abs) << ") | " << (c.bitwise_repeat ? "yes" : "no") << " | "
          << c.note << " |\n";
    }
}

void print_times(const Run& run, std::ostream& out) {
  bool any = false;
  for (const Stage& s : run.stages)
    for (const Bench& b : s.bench) {
      if (!timed(s)) continue;
      if (!any)
        out << "\n| timed | shape | type | ms median (p10 .. p90) | GB/s | TFLOP/s | % of floor | "
               "peak MiB |\n|---|---|---|---|---|---|---|---|\n";
      any = true;
      out << "| " << b.name << " | " << b.shape << " | " << b.dtype << " | " << rounded(b.ms_median)
          << " (" << rounded(b.ms_p10) << " .. " << rounded(b.ms_p90) << ") | "
          << (b.bytes > 0 ? rounded(b.gb_per_s()) : "") << " | "
          << (b.flops > 0 ? rounded(b.tflop_per_s()) : "") << " | "
          << (b.pct_of_floor > 0 ? rounded(b.pct_of_floor, 3) : "") << " | "
          << (b.peak_mib > 0 ? rounded(b.peak_mib) : "") << " |\n";
    }
}

void print_plans(const Run& run, std::ostream& out) {
  bool any = false;
  for (const Stage& s : run.stages)
    for (const Plan& p : s.plans) {
      if (!any)
        out << "\n| convolution | pass | type | engine | tensor core | deterministic | workspace "
               "MiB "
               "| ms | TFLOP/s | as predicted |\n|---|---|---|---|---|---|---|---|---|---|\n";
      any = true;
      out << "| " << p.layer << " | " << p.pass << " | " << p.dtype << " | " << p.engine << " | "
          << (p.tensor_core ? "yes" : "no") << " | " << (p.deterministic ? "yes" : "no") << " | "
          << rounded(p.workspace_mib) << " | " << (p.ms > 0 ? rounded(p.ms) : "not measured")
          << " | " << (p.tflop_per_s > 0 ? rounded(p.tflop_per_s) : "") << " | "
          << (p.predicted.empty()       ? ""
              : p.predicted == p.engine ? "yes"
                                        : "no: " + p.predicted)
          << " |\n";
    }
}

void print_comparison(const Run& run, std::ostream& out) {
  if (run.compare.empty()) {
    out << "\nTraining step, ours and PyTorch's: not measured.\n";
    return;
  }
  out << "\n| training step | ours ms | PyTorch channels_last ms | PyTorch contiguous ms | times "
         "faster than its better | peak MiB ours | PyTorch's | card MiB "
         "ours | PyTorch's |\n|---|---|---|---|---|---|---|---|---|\n";
  for (const Comparison& c : run.compare)
    out << "| " << c.network << " | " << or_not_measured(c.ours_ms) << " | "
        << or_not_measured(c.torch_channels_last_ms) << " | "
        << or_not_measured(c.torch_contiguous_ms) << " | "
        << (c.note.empty() ? or_not_measured(c.ratio_to_best) : c.note) << " | "
        << or_not_measured(c.ours_peak_mib) << " | " << or_not_measured(c.torch_peak_mib) << " | "
        << or_not_measured(c.ours_card_mib) << " | " << or_not_measured(c.torch_card_mib) << " |\n";
}

}  // namespace

bool at_fault(const Stage& s, bool want_device) {
  if (!judges(s)) return false;
  switch (s.status) {
    case Status::failed:
    case Status::error:
    case Status::timed_out:
      return true;
    case Status::no_device:
    case Status::left_out:
      return want_device;
    case Status::passed:
      // Whoever wants a GPU does not take the emulator's word.
      return !s.right() || (want_device && !s.checks.empty() && s.device != "gpu");
    case Status::not_available:
    case Status::not_wanted:
      return false;
  }
  return true;
}

Run join_stages(const std::string& folder, bool want_device) {
  std::vector<std::filesystem::path> paths;
  BORA_CHECK(std::filesystem::is_directory(folder), "report: '", folder, "' is no folder");
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    if (entry.path().extension() == ".json") paths.push_back(entry.path());
  BORA_CHECK(!paths.empty(), "report: '", folder, "' holds no result of a stage (*.json)");
  std::sort(paths.begin(), paths.end());
  Run run;
  run.when = now_utc();
  run.git = build_info().git_commit;
  for (const auto& path : paths) {
    try {
      run.stages.push_back(read_stage(path.string()));
    } catch (const Error& e) {
      run.stages.push_back(
          {.name = path.stem().string(), .status = Status::error, .error = e.what()});
    }
    const Stage& s = run.stages.back();
    if (s.name == "environment") {
      run.machine = s.facts;
      run.ceilings = s.numbers;
    }
    if (begins(s.name, "throughput"))
      for (const auto& [key, value] : s.facts) run.machine[key] = value;
  }
  run.judged = std::any_of(run.stages.begin(), run.stages.end(), [&](const Stage& s) {
    return judges(s) && !s.checks.empty() && (!want_device || s.device == "gpu");
  });
  run.right = std::none_of(run.stages.begin(), run.stages.end(),
                           [&](const Stage& s) { return at_fault(s, want_device); });
  run.compare = comparisons(run.stages);
  return run;
}

const char* verdict(const Run& run) {
  if (!run.finished)
    return run.right ? "BROKEN OFF, no fault found so far" : "BROKEN OFF, FAULTS FOUND";
  if (!run.right) return "FAULTS FOUND";
  return run.judged ? "no fault found" : "NOTHING WAS JUDGED";
}

std::string table(const Run& run) {
  std::ostringstream out;
  out << "GPU check of " << run.when << ", source " << run.git << (run.dirty ? " (changed)" : "")
      << ": " << verdict(run) << "\n\n";
  for (const auto& [key, value] : run.machine) out << "- " << key << ": " << value << "\n";
  for (const auto& [key, value] : run.ceilings)
    out << "- " << key << ": " << rounded(value, 5) << "\n";
  if (!run.machine.empty() || !run.ceilings.empty()) out << "\n";
  print_stages(run, out);
  print_failures(run, out);
  print_plans(run, out);
  print_times(run, out);
  print_comparison(run, out);
  return out.str();
}

}  // namespace bora::gpucheck
