// SPDX-License-Identifier: Apache-2.0
#include "data/wind_check.hpp"

#include <algorithm>
#include <sstream>

#include "core/error.hpp"
#include "data/text_rows.hpp"

namespace bora::data {

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

void look_into_all(const WindConfig& config, WindFiles& files, Collective* ranks) {
  const size_t rank = ranks ? static_cast<size_t>(ranks->rank()) : 0;
  const size_t n_ranks = ranks ? static_cast<size_t>(ranks->size()) : 1;
  const WindNames names(config.files);
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

}  // namespace bora::data
