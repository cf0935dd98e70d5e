// SPDX-License-Identifier: Apache-2.0
// Pre-flight: all files of a data set are looked into before the first step, by all threads of all
// ranks, and every rank learns the same.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/collective.hpp"
#include "core/error.hpp"

namespace bora::data {

/// How much is looked into.
enum class PreflightLevel {
  automatic,  ///< values too: of all cases up to kPreflightAutoBytes of files, beyond that of every
              ///< n-th case, so that about as many bytes are read
  full,       ///< all values of all cases, once
  headers,    ///< what files say about themselves; no values
};
/// "auto", "full" or "headers"; throws UsageError with the list for another text.
PreflightLevel preflight_level(const std::string& text);
std::string name_of(PreflightLevel level);

/// Up to so many bytes of files, `auto` reads all values: 1 GiB, compressed as it lies there, takes
/// 10 s from a disk that gives 100 MB/s, and as long to unpack on one core.  It is the same number
/// for any count of ranks and threads: which files are found bad must not depend on those.
inline constexpr int64_t kPreflightAutoBytes = int64_t{1} << 30;

/// One case and its files; a path that is empty is none.
struct PreflightItem {
  std::string name;
  std::vector<std::string> files;
};

/// What the caller of a pre-flight wants to be asked or told meanwhile.
struct PreflightHooks {
  /// About every second, and at the end, on every rank in the thread that called preflight(): cases
  /// that this rank has done, of its share.
  std::function<void(int64_t done, int64_t of, double seconds)> progress;
  /// About ten times a second, in the same thread; throws Error to leave (a signal has come).
  std::function<void()> may_go_on;
  /// Gets the line of the outcome (PreflightReport::line), on rank 0.
  std::function<void(const std::string& line)> outcome;
  /// Gets the list of what is wrong, on every rank, instead of the policy stop or skip: bad cases
  /// are left out (unet3d data check).
  std::function<void(const std::vector<std::string>& problems)> problems;
};

struct PreflightOptions {
  PreflightLevel level = PreflightLevel::automatic;
  std::string what = "files";  ///< for messages: "wind files"
  int n_threads = 0;  ///< of this rank; 0: its cores, shared with the ranks on them, up to 8
  /// A case that gives no answer for so long, and a second more for every 4 MiB of its files, ends
  /// the pre-flight with an Error that names it: its file system hangs.
  double silence_s = 60;
  PreflightHooks hooks{};
};

/// A read outside of the pre-flight and of the loader: how long it may take, and what is asked
/// meanwhile.
struct ReadBound {
  double silence_s = PreflightOptions{}.silence_s;  ///< and a second more for every 4 MiB
  std::function<void()> may_go_on{};                ///< as PreflightHooks has it
};

/// What a look is asked for.
enum class PreflightDepth { headers, values };

/// Looks into case `index`.  Appends to `problems` what is wrong, one line each (file, variable,
/// found, wanted); an Error that it throws is such a line, too, a UsageError ends the pre-flight.
/// What it returns every rank gets as the case's record: any bytes.  Called from several threads
/// at once.  May be running still when a pre-flight has failed because a file does not answer: it
/// must own, or share, all it uses.
using PreflightCheck = std::function<std::string(size_t index, PreflightDepth depth,
                                                 std::vector<std::string>& problems)>;

/// Runs `body`; an Error becomes a problem, a UsageError goes through.  Whether there was none.
template <class Body>
bool finds_none(std::vector<std::string>& problems, Body&& body) {
  try {
    body();
    return true;
  } catch (const UsageError&) {
    throw;
  } catch (const Error& e) {
    problems.emplace_back(e.what());
    return false;
  }
}

/// The outcome: the same on all ranks but for `seconds`.
struct PreflightReport {
  std::vector<std::string> records;                ///< of each case; empty where its look threw
  std::vector<std::vector<std::string>> problems;  ///< of each case, in the order they were found
  PreflightLevel level = PreflightLevel::automatic;
  int64_t n_cases = 0, n_files = 0, bytes = 0;  ///< of files as they lie there
  int64_t n_read = 0;                           ///< cases whose values were asked for
  int64_t n_bad = 0;                            ///< cases with a problem
  int n_threads = 1;                            ///< of all ranks
  double seconds = 0;

  bool is_bad(size_t index) const { return !problems.at(index).empty(); }
  /// "pre-flight: 1000 files (123 MiB) of 500 cases in 2.1 s by 2 threads, preflight = auto: all
  /// values read, none bad"; says what was not looked at.
  std::string line() const;
};

/// Collective (nullptr: this process alone).  Looks into every item: rank r of W takes r, r + W,
/// ..., its threads the next one each.  Throws the same Error on all ranks if a check throws
/// UsageError, a hook throws, or a file does not answer.
PreflightReport preflight(const std::vector<PreflightItem>& items, const PreflightCheck& check,
                          const PreflightOptions& options, Collective* ranks);

/// What to do about problems, the same on all ranks since they have the same list.  hooks.problems
/// gets them if it is set.  Else none: nothing.  `refuse`: throws Error with the first 20 and their
/// number; `key` = "files.on_bad_files" is told as the way to go on without such cases.  Else rank
/// 0 warns with the same text.  `where`: "the files in 'DIR'".
void settle_problems(const std::vector<std::string>& problems, const std::string& where,
                     bool refuse, const std::string& key, Collective* ranks,
                     const PreflightHooks& hooks = {});

/// Throws Error naming the path unless it is a file with content that this process may read:
/// missing, a link to nothing (and to what), a folder, a pipe or device, empty, no permission.
/// Nothing is opened that could block.
void check_readable_file(const std::string& path);

}  // namespace bora::data
