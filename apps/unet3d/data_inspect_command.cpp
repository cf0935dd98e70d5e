// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <tuple>

#include "apps/common/help.hpp"
#include "apps/common/text.hpp"
#include "apps/unet3d/commands.hpp"
#include "apps/unet3d/data_commands.hpp"
#include "apps/unet3d/file_report.hpp"
#include "comm/communicator.hpp"
#include "core/log.hpp"
#include "data/output_place.hpp"
#include "data/preflight.hpp"

namespace bora::unet3d {
namespace {

struct InspectConfig {
  std::string variable, order;
  bool values = true;
  std::string picture;
  static constexpr auto fields() {
    return std::tuple{
        field("variable", &InspectConfig::variable,
              "the field of a NetCDF or HDF5 file; empty: all that have three axes"),
        field("order", &InspectConfig::order,
              "axes of an array without names, slowest first (zyx, xyz, czyx, zyxc)"),
        field("values", &InspectConfig::values, "read the values, too: range, percentiles, NaN"),
        field("picture", &InspectConfig::picture,
              "PNG of the middle planes of the one field that is looked at")};
  }
};

}  // namespace

int data_inspect_command(MpiSession& session, const std::vector<std::string>& args) {
  InspectConfig config;
  const ConfigArgs given = config_parse_args(
      config, "unet3d data inspect", args,
      {.about = "Says what files hold: NIfTI, NetCDF-4, HDF5, NumPy. Exit code 1 if one cannot be "
                "read.",
       .positionals = "FILE..."});
  if (apps::print_help(session, given)) return 0;
  const std::vector<std::string>& files = given.positionals;
  if (files.empty()) throw UsageError("data inspect: no file given");
  if (!config.picture.empty() && (files.size() != 1 || !config.values))
    throw UsageError("picture: wanted one file whose values are read, given " +
                     std::to_string(files.size()) +
                     " file(s), values=" + (config.values ? "true" : "false"));
  if (!config.picture.empty()) {
    data::require_suffix(config.picture, {".png"}, "picture '" + config.picture + "'");
    data::check_folder_of(config.picture, "picture '" + config.picture + "'");
  }
  const std::unique_ptr<Collective> ranks = make_communicator(session);

  // Owned: a thread that waits for a file may outlive the call.
  std::vector<data::PreflightItem> items;
  for (const std::string& file : files) items.push_back({file, {file}});
  const auto check = [files, config](size_t i, data::PreflightDepth,
                                     std::vector<std::string>& problems) {
    data::check_readable_file(files[i]);
    return report_file(files[i],
                       {.variable = config.variable,
                        .order = config.order,
                        .values = config.values,
                        .picture = config.picture},
                       problems);
  };
  const data::PreflightReport report = data::preflight(
      items, check, {.level = data::PreflightLevel::full, .what = "files"}, ranks.get());
  if (session.rank() == 0) {
    const char* between = "";
    for (const std::string& record : report.records) {
      if (record.empty()) continue;
      std::printf("%s%s", between, record.c_str());
      between = "\n";
    }
    std::fflush(stdout);
    for (const auto& problems : report.problems)
      for (const std::string& problem : problems) log_error(problem);
  }
  return report.n_bad > 0 ? 1 : 0;
}

}  // namespace bora::unet3d
