// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <tuple>

#include "apps/common/help.hpp"
#include "apps/unet3d/commands.hpp"
#include "apps/unet3d/data_commands.hpp"
#include "apps/unet3d/preflight_hooks.hpp"
#include "core/counted.hpp"
#include "core/printable.hpp"
#include "data/jsonl.hpp"

namespace bora::unet3d {
namespace {

struct CheckConfig : Config {
  std::string level = "full";
  bool json = false;
  static constexpr auto fields() {
    return std::tuple_cat(
        std::tuple{field("level", &CheckConfig::level,
                         "what is looked at, instead of the data set's preflight: all values; "
                         "headers alone; auto as training does",
                         one_of("full", "auto", "headers")),
                   field("json", &CheckConfig::json,
                         "a line of JSON for each problem, and one for the outcome")},
        Config::fields());
  }
};

void print(const CheckConfig& config, const std::string& outcome,
           const std::vector<std::string>& problems, int64_t n_good) {
  if (config.json) {
    for (const std::string& problem : problems)
      std::printf("%s\n", data::json_line({{"problem", problem}}).c_str());
    std::printf("%s\n", data::json_line({{"good_cases", n_good},
                                         {"problems", static_cast<int64_t>(problems.size())},
                                         {"outcome", outcome}})
                            .c_str());
  } else {
    std::printf("%s\n", outcome.c_str());
    for (const std::string& problem : problems) std::printf("  %s\n", printable(problem).c_str());
    std::printf("%s, %s\n", counted(std::ssize(problems), "problem").c_str(),
                counted(n_good, "good case").c_str());
  }
  std::fflush(stdout);
}

}  // namespace

int data_check_command(MpiSession& session, const std::vector<std::string>& args) {
  CheckConfig config;
  const ConfigArgs given = config_parse_args(
      config, "unet3d data check", args,
      {.about = "Looks into all files of a data set: pairs, forms, grids, values, checksums. Lists "
                "what is wrong; exit code 1 if anything is. The keys are those of unet3d train.",
       .positionals = {}});
  if (apps::print_help(session, given)) return 0;
  settle_task(config);
  const std::unique_ptr<Collective> ranks = open_ranks(session, config, config_text(config));
  config.data.files.preflight = config.volumes.preflight = config.level;

  std::string outcome;
  bool listed = false;
  std::vector<std::string> problems;
  data::PreflightHooks hooks = preflight_hooks(*ranks);
  hooks.outcome = [&](const std::string& line) { outcome = line; };
  hooks.problems = [&](const std::vector<std::string>& all) {
    listed = true;
    problems = all;
  };
  int64_t n_good = 0;
  try {
    n_good = open_data_set(config, *ranks, hooks).size();
  } catch (const UsageError&) {
    throw;
  } catch (const Error&) {
    // No case is left, the same on all ranks: the list says why, if there is one.
    if (!listed || problems.empty()) throw;
  }
  if (session.rank() == 0) print(config, outcome, problems, n_good);
  return problems.empty() ? 0 : 1;
}

}  // namespace bora::unet3d
