// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <cstdio>
#include <numeric>
#include <tuple>

#include "apps/common/help.hpp"
#include "apps/common/text.hpp"
#include "apps/unet3d/commands.hpp"
#include "apps/unet3d/data_commands.hpp"
#include "apps/unet3d/part_statistics.hpp"
#include "apps/unet3d/preflight_hooks.hpp"

namespace bora::unet3d {
namespace {

struct StatsConfig : Config {
  std::string part = "training";
  std::vector<double> percentiles = {0.1, 1, 5, 25, 50, 75, 95, 99, 99.9};
  int64_t bins = 16;
  static constexpr auto fields() {
    return std::tuple_cat(
        std::tuple{
            field("part", &StatsConfig::part, "whose cases",
                  one_of("training", "validation", "test", "all")),
            field("percentiles", &StatsConfig::percentiles, "to print", between(0, 100)),
            field("bins", &StatsConfig::bins, "of the histogram; 0: none", between(0, 1000))},
        Config::fields());
  }
};

void print_channel(const data::ValueSummary& v, const StatsConfig& config) {
  std::printf("  mean %s  sigma %s  min %s  max %s\n", apps::brief(v.moments().mean).c_str(),
              apps::brief(std::sqrt(v.moments().variance())).c_str(), apps::brief(v.min()).c_str(),
              apps::brief(v.max()).c_str());
  if (v.n_nan() > 0) std::printf("  NaN or missing: %ld\n", static_cast<long>(v.n_nan()));
  if (v.n() == 0) return;
  std::printf("  percentiles:");
  for (const double p : config.percentiles)
    std::printf(" %s: %s", apps::brief(p).c_str(), apps::brief(v.percentile(p)).c_str());
  std::printf("\n");
  if (config.bins == 0) return;
  const double low = v.percentile(0.1), high = v.percentile(99.9);
  const int n = static_cast<int>(config.bins);
  const std::vector<int64_t> counts = v.histogram(low, high, n);
  std::printf(
      "  histogram from the 0.1th to the 99.9th percentile, what is beyond in the outer bins:\n");
  for (int i = 0; i < n; ++i) {
    const double share =
        static_cast<double>(counts[static_cast<size_t>(i)]) / static_cast<double>(v.n());
    std::printf("  %10s to %10s %6.2f %% %s\n", apps::brief(low + (high - low) * i / n).c_str(),
                apps::brief(low + (high - low) * (i + 1) / n).c_str(), 100 * share,
                std::string(static_cast<size_t>(std::lround(50 * share)), '#').c_str());
  }
}

void print(const DataSet& set, const PartStatistics& s, size_t n_cases, const StatsConfig& config) {
  std::printf("%s part: %zu of %ld cases in %s\n", config.part.c_str(), n_cases,
              static_cast<long>(set.size()), set.root.c_str());
  for (size_t k = 0; k < s.channels.size(); ++k) {
    if (set.wind)
      std::printf("%s in m/s: %ld values, open cells of the levels that samples have\n",
                  config.data.files.wind_variable.c_str(), static_cast<long>(s.channels[k].n()));
    else
      std::printf("image, channel %zu: %ld values, %s cells\n", k,
                  static_cast<long>(s.channels[k].n()), config.volumes.normalise_cells.c_str());
    print_channel(s.channels[k], config);
  }
  if (set.wind)
    std::printf("cells: %ld, %.2f %% open, the others building\n", static_cast<long>(s.n_cells),
                100 * static_cast<double>(s.n_open) / static_cast<double>(s.n_cells));
  int64_t labelled = s.n_ignored;
  for (const int64_t n : s.class_cells) labelled += n;
  for (size_t k = 0; k < s.class_cells.size(); ++k)
    std::printf("class %zu %-16s %12ld cells %8.4f %%, in %ld cases\n", k,
                config.volumes.classes.at(k).c_str(), static_cast<long>(s.class_cells[k]),
                100 * static_cast<double>(s.class_cells[k]) / static_cast<double>(labelled),
                static_cast<long>(s.class_cases[k]));
  if (s.n_ignored > 0) std::printf("ignored %26ld cells\n", static_cast<long>(s.n_ignored));
  for (const std::string& line : suggestions(set, s)) std::printf("suggested: %s\n", line.c_str());
  std::fflush(stdout);
}

}  // namespace

int data_stats_command(MpiSession& session, const std::vector<std::string>& args) {
  StatsConfig config;
  // Values are read, and judged, by the statistics themselves.
  config.data.files.preflight = config.volumes.preflight = "headers";
  const ConfigArgs given = config_parse_args(
      config, "unet3d data stats", args,
      {.about = "Mean, spread, percentiles and classes of the training part, and what would suit "
                "them. The keys are those of unet3d train.",
       .positionals = {}});
  if (apps::print_help(session, given)) return 0;
  settle_task(config);
  const std::unique_ptr<Collective> ranks = open_ranks(session, config, config_text(config));
  Config physical = config;
  physical.data.normalisation = "none";
  const data::PreflightHooks hooks = preflight_hooks(*ranks);
  const auto set = std::make_shared<const DataSet>(open_data_set(physical, *ranks, hooks));
  std::vector<int64_t> part(static_cast<size_t>(set->size()));
  std::iota(part.begin(), part.end(), 0);
  // All cases need no split, which one case alone cannot have.
  if (config.part != "all") part = data::part_of(set->split(config.split), config.part);
  if (part.empty())
    throw UsageError("data stats: no case in the " + config.part +
                     " part (split.validation, split.test); choose another --part");
  const PartStatistics statistics = part_statistics(set, part, *ranks, hooks);
  if (session.rank() == 0) print(*set, statistics, part.size(), config);
  return 0;
}

}  // namespace bora::unet3d
