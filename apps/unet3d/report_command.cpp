// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <tuple>

#include "apps/train/report.hpp"
#include "apps/unet3d/commands.hpp"
#include "core/config.hpp"
#include "core/log.hpp"

namespace bora::unet3d {
namespace {

struct ReportConfig {
  std::string run;
  static constexpr auto fields() {
    return std::tuple{field("run", &ReportConfig::run, "folder of the run (its output.dir)")};
  }
};

}  // namespace

int report_command(MpiSession& session, const std::vector<std::string>& args) {
  ReportConfig config;
  const ConfigArgs given = config_parse_args(
      config, "unet3d report", args,
      {.about = "Writes report.html into the folder of a run that goes on, has ended or has died, "
                "from what lies there: metrics.jsonl, config.toml, pictures.",
       .positionals = {}});
  if (session.rank() != 0) return 0;
  if (!given.help.empty()) {
    std::fputs(given.help.c_str(), stdout);
    return 0;
  }
  if (config.run.empty())
    throw UsageError("run is not set: wanted the folder of a run (--run=DIR)");
  train::write_report(config.run);
  log_info("wrote ", config.run, "/", train::kReportFile);
  return 0;
}

}  // namespace bora::unet3d
