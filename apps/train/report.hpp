// SPDX-License-Identifier: Apache-2.0
// report.html of a run: settings, curves, cases, pictures, machine, in one file for people.
#pragma once

#include <string>
#include <vector>

#include "apps/train/run_log.hpp"

namespace bora::train {

/// A picture beside the curves.
struct ReportPicture {
  std::string title;
  std::string png;  ///< the file's bytes
};

struct ReportInput {
  std::string name;      ///< of the run
  std::string written;   ///< when, as text
  std::string settings;  ///< lines of TOML; may be empty
  std::vector<ReportPicture> pictures;
};

/// Pure: the page, as one HTML text that needs nothing else: no network (a policy in the page
/// forbids it), no font, no script of others.  Readable without script and on paper, in light and
/// in dark.  All texts are escaped.
std::string report_html(const RunLog& log, const ReportInput& input);

/// Writes `folder`/report.html, atomically, from metrics.jsonl, config.toml and the pictures that
/// the log names, all in `folder`: of a run that ended, that died, or that goes on.  Pictures
/// beyond 1.2 MB together are left out, with a word in the page.  Throws Error naming the file that
/// cannot be read or written; a missing config.toml or picture is told in the page.
void write_report(const std::string& folder);

inline constexpr const char* kReportFile = "report.html";

}  // namespace bora::train
