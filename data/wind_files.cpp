// SPDX-License-Identifier: Apache-2.0
#include "data/wind_files.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <sstream>

#include "core/error.hpp"
#include "core/log.hpp"
#include "data/name_pattern.hpp"
#include "data/netcdf.hpp"

namespace bora::data {

namespace {

namespace fs = std::filesystem;
constexpr size_t kListed = 20;  // lines of a message; a broken copy has hundreds

bool ends_with(const std::string& text, const std::string& end) {
  return text.size() > end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}

/// What the configuration says about names, compiled once.
struct Names {
  AnglePatterns angles;
  std::optional<NamePattern> layout;
  explicit Names(const WindFilesConfig& config) : angles(config.angle_patterns) {
    if (!config.layout_pattern.empty()) layout.emplace("layout_pattern", config.layout_pattern);
  }
  void apply(WindCase& c) const {
    c.angle_deg = angles.empty() ? std::numeric_limits<double>::quiet_NaN() : angles.parse(c.name);
    c.group = c.name;
    if (!layout) return;
    const std::optional<std::string> group = layout->find(c.name);
    BORA_CHECK(group, "'", c.name, "': no layout in the name; layout_pattern is ", layout->text());
    c.group = *group;
  }
};

/// Case -> files, sorted; appends to `problems`.
std::map<std::string, std::vector<std::string>> list_folder(const std::string& root,
                                                            const std::string& folder,
                                                            const std::string& suffix,
                                                            std::vector<std::string>& problems) {
  const fs::path path = fs::path(root) / folder;
  std::error_code code;
  BORA_CHECK(fs::is_directory(path, code), "data folder '", path.string(), "' does not exist",
             code && code != std::errc::no_such_file_or_directory
                 ? bora::detail::join(" (", code.message(), ")")
                 : std::string());
  const std::string extension = fs::path(suffix).extension().string();
  std::map<std::string, std::vector<std::string>> files;
  const auto options = fs::directory_options::follow_directory_symlink;
  for (fs::recursive_directory_iterator it(path, options, code), end; it != end;
       it.increment(code)) {
    BORA_CHECK(!code, "cannot list '", path.string(), "': ", code.message());
    std::error_code ignored;  // a link to nothing is looked into later, and named
    if (it->is_directory(ignored)) continue;
    const std::string name = it->path().filename().string();
    if (ends_with(name, suffix))
      files[name.substr(0, name.size() - suffix.size())].push_back(it->path().string());
    else if (it->path().extension() == extension)
      problems.push_back(
          bora::detail::join("'", it->path().string(), "' is not called <case>", suffix));
  }
  BORA_CHECK(!code, "cannot list '", path.string(), "': ", code.message());
  for (auto& [name, paths] : files) std::sort(paths.begin(), paths.end());
  return files;
}

void pair_files(const WindConfig& config, WindFiles& out) {
  const WindFilesConfig& f = config.files;
  const auto wind = list_folder(config.root, f.wind_folder, f.wind_suffix, out.problems);
  const auto mask = list_folder(config.root, f.mask_folder, f.mask_suffix, out.problems);
  for (const auto* files : {&wind, &mask})
    for (const auto& [name, paths] : *files)
      if (paths.size() > 1) {
        std::string text = "case '" + name + "' occurs " + std::to_string(paths.size()) + " times:";
        for (const std::string& path : paths) text += " '" + path + "'";
        out.problems.push_back(text);
      }
  for (const auto& [name, paths] : wind) {
    const auto partner = mask.find(name);
    if (partner == mask.end())
      out.problems.push_back("'" + paths[0] + "' has no mask '" + name + f.mask_suffix + "' in " +
                             f.mask_folder);
    else if (paths.size() == 1 && partner->second.size() == 1)
      out.cases.push_back({name, paths[0], partner->second[0], "", 0, {}, {}, {}});
  }
  for (const auto& [name, paths] : mask)
    if (!wind.contains(name))
      out.problems.push_back("'" + paths[0] + "' has no wind file '" + name + f.wind_suffix +
                             "' in " + f.wind_folder);
}

/// The grid of one variable, in the order x, y, z.
Dims3 grid_of(const NetcdfFile& file, const std::string& variable,
              const std::vector<std::string>& axes) {
  const VariableInfo info = file.info(variable);
  return with_context("'" + file.path() + "', variable '" + variable + "'", [&] {
    info.type.dtype();
    Dims3 grid;
    for (size_t i = 0; i < 3; ++i) {
      const auto it = std::find(info.dimensions.begin(), info.dimensions.end(), axes[i]);
      BORA_CHECK(it != info.dimensions.end(), "no dimension '", axes[i], "'; the variable has ",
                 hdf5::detail::list_of(info.dimensions), ", wanted ", hdf5::detail::list_of(axes));
      const int64_t extent = info.extents[static_cast<size_t>(it - info.dimensions.begin())];
      BORA_CHECK(extent > 0, "dimension '", axes[i], "' has no cells");
      (i == 0 ? grid.d : i == 1 ? grid.h : grid.w) = extent;
    }
    return grid;
  });
}

/// Fills in the case's grid and stamps; throws Error saying what is wrong with its files.
void look_into(const WindConfig& config, WindCase& c) {
  const WindFilesConfig& f = config.files;
  hdf5::Lock lock;
  c.mask_stamp = FileStamp::of(c.mask_path);
  const NetcdfFile mask = NetcdfFile::open(c.mask_path);
  c.grid = grid_of(mask, f.mask_variable, f.axes);
  if (c.wind_path.empty()) return;
  c.wind_stamp = FileStamp::of(c.wind_path);
  const NetcdfFile wind = NetcdfFile::open(c.wind_path);
  const Dims3 grid = grid_of(wind, f.wind_variable, f.axes);
  BORA_CHECK(grid == c.grid, "'", c.wind_path, "' has a grid of ", grid, " cells, its mask '",
             c.mask_path, "' one of ", c.grid);
  for (const std::string& name : f.axes) {
    const Axis a = wind.axis(name), b = mask.axis(name);
    if (a.centres.empty() || b.centres.empty()) continue;
    BORA_CHECK(a.centres == b.centres, "'", c.wind_path, "' and its mask '", c.mask_path,
               "' have different coordinates '", name, "'");
  }
}

std::string listed(const std::vector<std::string>& problems) {
  std::string text;
  for (size_t i = 0; i < problems.size() && i < kListed; ++i) text += "\n  " + problems[i];
  if (problems.size() > kListed)
    text += "\n  and " + std::to_string(problems.size() - kListed) + " more";
  return text;
}

std::string one_line(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  std::replace(text.begin(), text.end(), '\t', ' ');
  return text;
}

/// The list of pairs that rank 0 made, as text for the others.
std::string pack_pairs(const WindFiles& files) {
  std::string text;
  for (const WindCase& c : files.cases)
    text += "c\t" + c.name + "\t" + c.wind_path + "\t" + c.mask_path + "\n";
  for (const std::string& p : files.problems) text += "p\t" + one_line(p) + "\n";
  return text;
}

std::vector<std::string> cut(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::istringstream in(text);
  for (std::string part; std::getline(in, part, separator);) parts.push_back(part);
  return parts;
}

WindFiles unpack_pairs(const std::string& text) {
  WindFiles files;
  for (const std::string& line : cut(text, '\n')) {
    const std::vector<std::string> p = cut(line, '\t');
    if (p.at(0) == "c")
      files.cases.push_back({p.at(1), p.at(2), p.at(3), "", 0, {}, {}, {}});
    else
      files.problems.push_back(p.at(1));
  }
  return files;
}

/// Looks into every W-th case and tells the other ranks.
void look_into_all(const WindConfig& config, WindFiles& files, Collective* ranks) {
  const size_t rank = ranks ? static_cast<size_t>(ranks->rank()) : 0;
  const size_t n_ranks = ranks ? static_cast<size_t>(ranks->size()) : 1;
  const Names names(config.files);
  std::ostringstream mine;
  for (size_t i = rank; i < files.cases.size(); i += n_ranks) {
    WindCase& c = files.cases[i];
    std::string problem;
    try {
      names.apply(c);
      look_into(config, c);
    } catch (const Error& e) {
      problem = one_line(e.what());
    }
    mine << i << '\t' << c.grid.d << '\t' << c.grid.h << '\t' << c.grid.w << '\t'
         << c.wind_stamp.bytes << '\t' << c.wind_stamp.mtime_ns << '\t' << c.mask_stamp.bytes
         << '\t' << c.mask_stamp.mtime_ns << '\t' << problem << '\n';
  }
  const std::vector<std::string> texts = ranks ? ranks->all_gather_text(mine.str(), "wind files")
                                               : std::vector<std::string>{mine.str()};
  std::vector<bool> bad(files.cases.size(), false);
  for (const std::string& text : texts)
    for (const std::string& line : cut(text, '\n')) {
      const std::vector<std::string> p = cut(line, '\t');
      const size_t i = std::stoul(p.at(0));
      WindCase& c = files.cases.at(i);
      c.grid = {std::stol(p.at(1)), std::stol(p.at(2)), std::stol(p.at(3))};
      c.wind_stamp = {std::stol(p.at(4)), std::stol(p.at(5))};
      c.mask_stamp = {std::stol(p.at(6)), std::stol(p.at(7))};
      bad[i] = p.size() > 8;
      if (bad[i])
        files.problems.push_back(p[8]);
      else
        names.apply(c);
    }
  std::vector<WindCase> good;
  for (size_t i = 0; i < files.cases.size(); ++i)
    if (!bad[i]) good.push_back(std::move(files.cases[i]));
  files.cases = std::move(good);
}

}  // namespace

FileStamp FileStamp::of(const std::string& path) {
  struct stat s {};
  if (::stat(path.c_str(), &s) != 0) {
    const int code = errno;
    BORA_FAIL("'", path, "': ", std::strerror(code), " (errno ", code, ")");
  }
  return {s.st_size, static_cast<int64_t>(s.st_mtim.tv_sec) * 1000000000 + s.st_mtim.tv_nsec};
}

WindFiles find_wind_files(const WindConfig& config, Collective* ranks) {
  check_wind_config(config);
  WindFiles files;
  const bool first = !ranks || ranks->rank() == 0;
  const auto pair = [&] {
    if (first) pair_files(config, files);
  };
  if (ranks) {
    ranks->agree("looking for the wind files", pair);
    files = unpack_pairs(ranks->broadcast_text(first ? pack_pairs(files) : "", 0, "wind files"));
  } else {
    pair();
  }
  look_into_all(config, files, ranks);
  std::sort(files.problems.begin(), files.problems.end());
  if (!files.problems.empty()) {
    const std::string text = std::to_string(files.problems.size()) +
                             " problem(s) with the files in '" + config.root +
                             "':" + listed(files.problems);
    BORA_CHECK(config.files.on_bad_files == "skip", text,
               "\n(files.on_bad_files = \"skip\" leaves such cases out)");
    if (first) log_warn(text, "\nThese cases are left out.");
  }
  BORA_CHECK(!files.cases.empty(), "no case in '", config.root, "': wanted pairs of ",
             config.files.wind_folder, "/<case>", config.files.wind_suffix, " and ",
             config.files.mask_folder, "/<case>", config.files.mask_suffix);
  return files;
}

std::string wind_case_name(const WindConfig& config, const std::string& mask_path) {
  const std::string file = fs::path(mask_path).filename().string();
  const std::string& suffix = config.files.mask_suffix;
  return ends_with(file, suffix) ? file.substr(0, file.size() - suffix.size())
                                 : fs::path(file).stem().string();
}

WindCase open_wind_case(const WindConfig& config, const std::string& mask_path,
                        const std::string& wind_path) {
  WindCase c;
  c.mask_path = mask_path;
  c.wind_path = wind_path;
  c.name = wind_case_name(config, mask_path);
  // The layout only matters for splits; the angle only where the network is told it.
  WindFilesConfig names = config.files;
  names.layout_pattern.clear();
  if (!config.angle_channels) names.angle_patterns.clear();
  Names(names).apply(c);
  look_into(config, c);
  return c;
}

}  // namespace bora::data
