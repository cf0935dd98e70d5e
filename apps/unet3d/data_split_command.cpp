// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <map>
#include <set>
#include <tuple>

#include "apps/common/help.hpp"
#include "apps/unet3d/commands.hpp"
#include "apps/unet3d/data_commands.hpp"
#include "apps/unet3d/preflight_hooks.hpp"
#include "core/counted.hpp"
#include "core/log.hpp"
#include "core/printable.hpp"
#include "data/csv.hpp"
#include "data/output_place.hpp"

namespace bora::unet3d {
namespace {

namespace fs = std::filesystem;

struct SplitCommandConfig : Config {
  std::string csv;
  bool list_cases = true;
  static constexpr auto fields() {
    return std::tuple_cat(
        std::tuple{
            field("csv", &SplitCommandConfig::csv,
                  "manifest to write: case, its files, group and part, paths relative to its "
                  "folder; volumes.list or data.files.list reads it"),
            field("list_cases", &SplitCommandConfig::list_cases,
                  "print the part of every case, not only the counts")},
        Config::fields());
  }
};

struct Part {
  const char* name;
  std::vector<int64_t> cases;
};

/// As it is written into a manifest in `folder`, an absolute one that is there: what leads from it
/// to the file.
std::string relative_path(const std::string& path, const fs::path& folder) {
  if (path.empty()) return {};
  const fs::path file = fs::absolute(path).lexically_normal(), real = fs::weakly_canonical(folder);
  // The way that names say is not the one that ".." goes where a folder on it is a link.
  for (const fs::path& way : {file.lexically_proximate(folder), file.lexically_proximate(real),
                              fs::weakly_canonical(path).lexically_proximate(real)}) {
    std::error_code ignored;
    if (fs::equivalent(folder / way, path, ignored)) return way.string();
  }
  return fs::weakly_canonical(path).string();
}

/// The columns of a wind manifest, under the names by which data.files reads them.  The angle is
/// there where all cases have one.
std::vector<std::string> wind_columns(const DataSet& set, bool& has_angle) {
  has_angle = true;
  for (const data::WindCase& c : set.wind->cases())
    has_angle = has_angle && std::isfinite(c.angle_deg);
  const data::WindColumnsConfig standard, &set_names = set.wind->config().files.columns;
  const auto name = [](const std::string& own, const std::string& other) {
    return own.empty() ? other : own;  // "" switches a column off for reading
  };
  std::vector<std::string> columns{
      name(set_names.name, standard.name), name(set_names.wind, standard.wind),
      name(set_names.mask, standard.mask), name(set_names.group, standard.group),
      name(set_names.part, standard.part)};
  if (has_angle) columns.push_back(name(set_names.angle, standard.angle));
  return columns;
}

void write_manifest(const std::string& path, const DataSet& set, const std::vector<Part>& parts) {
  const fs::path folder = fs::absolute(path).lexically_normal().parent_path();
  bool has_angle = false;
  data::CsvWriter out(
      path, set.wind ? wind_columns(set, has_angle)
                     : std::vector<std::string>{"case", "image", "label", "weight", "group", "part",
                                                "sample_weight", "box"});
  std::map<std::string, std::pair<int64_t, const char*>> rows;  // by name
  for (const Part& part : parts)
    for (const int64_t i : part.cases) rows[set.all().name(i)] = {i, part.name};
  for (const auto& [name, row] : rows) {
    const auto& [i, part] = row;
    if (set.wind) {
      const data::WindCase& c = set.wind->at(i);
      std::vector<data::CsvCell> cells{name, relative_path(c.wind_path, folder),
                                       relative_path(c.mask_path, folder), c.group, part};
      if (has_angle) cells.emplace_back(c.angle_deg);
      out.row(cells);
    } else {
      const data::VolumeCase& c = set.volumes->at(i);
      out.row({name, relative_path(c.image.path, folder), relative_path(c.label.path, folder),
               relative_path(c.weight.path, folder), c.group, part, c.sample_weight, c.box.text()});
    }
  }
  out.close();
}

void print(const DataSet& set, const std::vector<Part>& parts, const SplitCommandConfig& config) {
  const char* group = set.wind ? "geometry" : "group";
  const char* groups = set.wind ? "geometries" : "groups";
  std::map<std::string, std::set<std::string>> parts_of_group, parts_of_file;
  // A file by any of its names, told by the first one.
  std::map<std::string, std::string> name_of_file;
  for (const Part& part : parts)
    for (const int64_t i : part.cases) {
      parts_of_group[set.all().group(i)].insert(part.name);
      for (const auto& [role, file] : set.files(i))
        parts_of_file[name_of_file.emplace(fs::weakly_canonical(file).string(), file).first->second]
            .insert(part.name);
    }
  std::printf("%s in %s, %zu %s; split.by=%s, split.seed=%lu\n",
              counted(set.size(), "case").c_str(), set.root.c_str(), parts_of_group.size(),
              parts_of_group.size() == 1 ? group : groups, config.split.by.c_str(),
              static_cast<unsigned long>(config.split.seed));
  std::printf("%-12s %7s %12s\n", "part", "cases", groups);
  for (const Part& part : parts) {
    std::set<std::string> names;
    for (const int64_t i : part.cases) names.insert(set.all().group(i));
    std::printf("%-12s %7zu %12zu\n", part.name, part.cases.size(), names.size());
  }
  const auto shared = [](const auto& by_name) {
    std::string text;
    size_t n = 0;
    for (const auto& [name, where] : by_name)
      if (where.size() > 1 && n++ < 20) text += (text.empty() ? "" : ", ") + printable(name);
    return n == 0 ? std::string() : std::to_string(n) + " (" + text + (n > 20 ? ", ..." : "") + ")";
  };
  const std::string twice = shared(parts_of_group), files_twice = shared(parts_of_file);
  std::printf("%s in two parts: %s\n", groups, twice.empty() ? "none" : twice.c_str());
  if (!files_twice.empty())
    std::printf("files in two parts: %s%s\n", files_twice.c_str(),
                set.wind ? "" : ": by their boxes");
  if (config.list_cases) {
    std::printf("\n%-12s %-24s %s\n", "part", group, "case");
    for (const Part& part : parts)
      for (const int64_t i : part.cases)
        std::printf("%-12s %-24s %s\n", part.name, printable(set.all().group(i)).c_str(),
                    printable(set.all().name(i)).c_str());
  }
  std::fflush(stdout);
}

}  // namespace

int data_split_command(MpiSession& session, const std::vector<std::string>& args) {
  SplitCommandConfig config;
  // Names and headers are enough for a split, unless the user says otherwise.
  config.data.files.preflight = config.volumes.preflight = "headers";
  const ConfigArgs given = config_parse_args(
      config, "unet3d data split", args,
      {.about = "Says which case trains, validates and tests, as unet3d train will split the data "
                "set with the same keys.",
       .positionals = {}});
  if (apps::print_help(session, given)) return 0;
  settle_task(config);
  const std::string what = "data split: --csv=" + config.csv;
  if (!config.csv.empty()) {  // before the data set is looked into
    data::require_suffix(config.csv, {".csv"}, what);
    data::check_folder_of(config.csv, what);
  }
  const std::unique_ptr<Collective> ranks = open_ranks(session, config, config_text(config));
  const DataSet set = open_data_set(config, *ranks, preflight_hooks(*ranks));
  const data::Split split = set.split(config.split);
  const std::vector<Part> parts{
      {"training", split.train}, {"validation", split.validation}, {"test", split.test}};
  ranks->agree("writing the split", [&] {
    if (session.rank() != 0) return;
    if (!config.csv.empty()) {
      data::make_folder_of(config.csv, what);
      write_manifest(config.csv, set, parts);
    }
    print(set, parts, config);
    if (!config.csv.empty()) log_info("wrote ", config.csv);
  });
  return 0;
}

}  // namespace bora::unet3d
