// SPDX-License-Identifier: Apache-2.0
#include "data/preflight.hpp"

#include <sched.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>

#include "core/counted.hpp"
#include "core/error.hpp"
#include "core/host.hpp"
#include "core/log.hpp"
#include "data/packed_text.hpp"
#include "data/preflight_work.hpp"
#include "data/text_rows.hpp"

namespace bora::data {

namespace {

namespace fs = std::filesystem;
constexpr size_t kListed = 20;         // lines of a message; a broken copy has hundreds
constexpr int kMostThreads = 8;        // each holds a case in memory, and one disk serves them all
constexpr double kSlowRate = 4 << 20;  // bytes a second of a file system that still counts as alive

struct Outcome {
  std::string record;
  std::vector<std::string> problems;
};

/// "0 1" for the cores of the affinity mask.
std::string cores_of_process(int& n) {
  cpu_set_t set;
  n = 1;
  if (::sched_getaffinity(0, sizeof(set), &set) != 0) return "unknown";
  n = std::max(1, CPU_COUNT(&set));
  std::string text;
  for (int i = 0; i < CPU_SETSIZE; ++i)
    if (CPU_ISSET(i, &set)) text += std::to_string(i) + " ";
  return text;
}

/// Cores of this rank's mask, shared with the ranks of this host that have the same.
int threads_of_rank(Collective* ranks) {
  int cores = 1;
  const std::string mine = host_name() + "\n" + cores_of_process(cores);
  int64_t sharers = 1;
  if (ranks) {
    const std::vector<std::string> all = ranks->all_gather_text(mine, "cores for the pre-flight");
    sharers = std::count(all.begin(), all.end(), mine);
  }
  return std::clamp(static_cast<int>(cores / sharers), 1, kMostThreads);
}

/// As many as fit into the limit, evenly spaced; a function of the data set alone.
bool is_chosen(size_t index, size_t n_items, int64_t bytes, PreflightLevel level) {
  if (level == PreflightLevel::headers) return false;
  if (level == PreflightLevel::full || bytes <= kPreflightAutoBytes) return true;
  const size_t n =
      static_cast<size_t>(static_cast<double>(n_items) * static_cast<double>(kPreflightAutoBytes) /
                          static_cast<double>(bytes));
  return (index + 1) * n / n_items > index * n / n_items;
}

std::string mib(int64_t bytes) {
  char text[32];
  const double m = static_cast<double>(bytes) / (1 << 20);
  std::snprintf(text, sizeof(text), m < 10 ? "%.1f MiB" : "%.0f MiB", m);
  return text;
}

/// Sizes of this rank's files, as far as they have one: the look itself says what is wrong.
int64_t bytes_of(const PreflightItem& item) {
  int64_t bytes = 0;
  for (const std::string& file : item.files) {
    std::error_code code;
    const auto size = file.empty() ? 0 : fs::file_size(file, code);
    if (!code) bytes += static_cast<int64_t>(size);
  }
  return bytes;
}

/// Without the place in our source that BORA_CHECK adds: the list is for people with bad files.
std::string without_place(const std::string& text) {
  const size_t at = text.rfind("  [");
  const bool is_place =
      at != text.npos && text.ends_with(']') &&
      (text.find(".cpp:", at) != text.npos || text.find(".hpp:", at) != text.npos);
  return is_place ? text.substr(0, at) : text;
}

Outcome look(const PreflightCheck& check, size_t index, PreflightDepth depth) {
  Outcome outcome;
  try {
    outcome.record = check(index, depth, outcome.problems);
  } catch (const UsageError&) {
    throw;
  } catch (const std::exception& e) {
    outcome.problems.push_back(e.what());
  }
  for (std::string& problem : outcome.problems) problem = one_line(without_place(problem));
  return outcome;
}

}  // namespace

PreflightLevel preflight_level(const std::string& text) {
  for (PreflightLevel level :
       {PreflightLevel::automatic, PreflightLevel::full, PreflightLevel::headers})
    if (name_of(level) == text) return level;
  throw UsageError("preflight '" + text + "', wanted auto, full or headers");
}

std::string name_of(PreflightLevel level) {
  switch (level) {
    case PreflightLevel::automatic:
      return "auto";
    case PreflightLevel::full:
      return "full";
    case PreflightLevel::headers:
      return "headers";
  }
  return "?";
}

std::string PreflightReport::line() const {
  char time[32];
  std::snprintf(time, sizeof(time), seconds < 10 ? "%.2f s" : "%.0f s", seconds);
  const std::string read =
      n_read == n_cases ? "all values read"
      : n_read == 0
          ? "no values read, only what the files say of themselves"
          : bora::detail::join("values of ", counted(n_read, "case"), " read, spread evenly; of ",
                               n_cases - n_read, " only what the files say of themselves");
  return bora::detail::join(
      "pre-flight: ", counted(n_files, "file"), " (", mib(bytes), ") of ", counted(n_cases, "case"),
      " in ", time, " by ", counted(n_threads, "thread"), ", preflight = ", name_of(level), ": ",
      read, ", ", n_bad == 0 ? std::string("none bad") : std::to_string(n_bad) + " bad");
}

PreflightReport preflight(const std::vector<PreflightItem>& items, const PreflightCheck& check,
                          const PreflightOptions& options, Collective* ranks) {
  BORA_CHECK(check, "preflight: no check given");
  BORA_CHECK(options.n_threads >= 0, "preflight: n_threads ", options.n_threads,
             ", wanted 0 or more");
  BORA_CHECK(options.silence_s > 0, "preflight: silence_s ", options.silence_s, ", wanted above 0");
  const auto begin = std::chrono::steady_clock::now();
  const size_t rank = ranks ? static_cast<size_t>(ranks->rank()) : 0;
  const size_t n_ranks = ranks ? static_cast<size_t>(ranks->size()) : 1;
  const int threads = options.n_threads > 0 ? options.n_threads : threads_of_rank(ranks);
  const auto together = [&](const char* doing, const std::function<void()>& body) {
    if (ranks)
      ranks->agree(bora::detail::join(doing, " the ", options.what), body);
    else
      body();
  };

  // Shared with the threads, which outlive this function where a file does not answer.
  struct Share {
    std::vector<PreflightItem> items;
    std::vector<size_t> index;
    std::vector<int64_t> bytes;
    std::vector<Outcome> outcomes;
  };
  const auto share = std::make_shared<Share>();
  for (size_t i = rank; i < items.size(); i += n_ranks) {
    share->index.push_back(i);
    share->items.push_back(items[i]);
  }
  const size_t n_mine = share->index.size();
  share->bytes.assign(n_mine, 0);
  share->outcomes.resize(n_mine);
  detail::Work work{.n = n_mine,
                    .n_threads = threads,
                    .what = options.what,
                    .allowed_s = {},
                    .name = {},
                    .body = {},
                    .hooks = {}};
  work.name = [share](size_t k) {
    std::string text = "case '" + share->items[k].name + "'";
    for (const std::string& file : share->items[k].files)
      if (!file.empty()) text += " '" + file + "'";
    return text;
  };
  work.hooks.may_go_on = options.hooks.may_go_on;
  work.allowed_s = [silence = options.silence_s](size_t) { return silence; };
  work.body = [share](size_t k) { share->bytes[k] = bytes_of(share->items[k]); };
  together("looking at the sizes of", [&] { detail::work_through(work); });

  PreflightReport report;
  report.level = options.level;
  report.n_cases = static_cast<int64_t>(items.size());
  for (int64_t b : share->bytes) report.bytes += b;
  for (const PreflightItem& item : items)
    report.n_files += std::count_if(item.files.begin(), item.files.end(),
                                    [](const std::string& f) { return !f.empty(); });
  report.n_threads = threads;
  if (ranks) {
    report.bytes = ranks->all_reduce(report.bytes, ReduceOp::sum, "bytes of the files");
    report.n_threads = static_cast<int>(
        ranks->all_reduce(int64_t{threads}, ReduceOp::sum, "threads of the pre-flight"));
  }
  for (size_t i = 0; i < items.size(); ++i)
    report.n_read += is_chosen(i, items.size(), report.bytes, options.level);

  work.hooks = options.hooks;
  work.allowed_s = [share, silence = options.silence_s](size_t k) {
    return silence + static_cast<double>(share->bytes[k]) / kSlowRate;
  };
  work.body = [share, check, n = items.size(), bytes = report.bytes,
               level = options.level](size_t k) {
    const size_t i = share->index[k];
    share->outcomes[k] = look(
        check, i, is_chosen(i, n, bytes, level) ? PreflightDepth::values : PreflightDepth::headers);
  };
  together("looking into", [&] { detail::work_through(work); });

  TextPacker mine;
  for (size_t k = 0; k < n_mine; ++k) {
    mine.add(std::to_string(share->index[k]));
    mine.add(share->outcomes[k].record);
    mine.add(std::to_string(share->outcomes[k].problems.size()));
    for (const std::string& problem : share->outcomes[k].problems) mine.add(problem);
  }
  const std::vector<std::string> texts =
      ranks ? ranks->all_gather_text(mine.text(), "outcome of the pre-flight")
            : std::vector<std::string>{mine.text()};
  report.records.resize(items.size());
  report.problems.resize(items.size());
  for (const std::string& text : texts)
    for (TextUnpacker in(text, "pre-flight"); !in.done();) {
      const size_t i = in.next_number();
      report.records.at(i) = in.next();
      for (size_t n = in.next_number(); n > 0; --n) report.problems[i].push_back(in.next());
    }
  for (const auto& problems : report.problems) report.n_bad += !problems.empty();
  report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  if (rank == 0 && options.hooks.outcome) options.hooks.outcome(report.line());
  return report;
}

void settle_problems(const std::vector<std::string>& problems, const std::string& where,
                     bool refuse, const std::string& key, Collective* ranks,
                     const PreflightHooks& hooks) {
  if (hooks.problems) {
    hooks.problems(problems);
    return;
  }
  if (problems.empty()) return;
  std::string text = std::to_string(problems.size()) + " problem(s) with " + where + ":";
  for (size_t i = 0; i < problems.size() && i < kListed; ++i) text += "\n  " + problems[i];
  if (problems.size() > kListed)
    text += "\n  and " + std::to_string(problems.size() - kListed) + " more";
  BORA_CHECK(!refuse, text, "\n(", key, " = \"skip\" leaves such cases out)");
  if (!ranks || ranks->rank() == 0) log_warn(text, "\nThese cases are left out.");
}

}  // namespace bora::data
