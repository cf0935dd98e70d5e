// SPDX-License-Identifier: Apache-2.0
#include "data/wind_check.hpp"

#include <algorithm>
#include <cmath>
#include <memory>

#include "core/error.hpp"
#include "data/packed_text.hpp"
#include "data/wind_cells.hpp"

namespace bora::data {

Dims3 grid_of(const NetcdfFile& file, const std::string& variable,
              const std::vector<std::string>& axes) {
  const VariableInfo info = file.info(variable);
  return with_context("'" + file.path() + "', variable '" + variable + "'", [&] {
    info.type.dtype();
    check_dimension_names(info);
    Dims3 grid;
    for (size_t i = 0; i < 3; ++i) {
      const auto it = std::find(info.dimensions.begin(), info.dimensions.end(), axes[i]);
      BORA_CHECK(it != info.dimensions.end(), "no dimension '", axes[i], "'; the variable has ",
                 hdf5::detail::list_of(info.dimensions), ", wanted ", hdf5::detail::list_of(axes),
                 info.dimensions.empty() || info.dimensions[0].empty()
                     ? "; the axes of an array without names have those of data.files.order"
                     : "");
      const int64_t extent = info.extents[static_cast<size_t>(it - info.dimensions.begin())];
      BORA_CHECK(extent > 0, "dimension '", axes[i], "' has no cells");
      (i == 0 ? grid.d : i == 1 ? grid.h : grid.w) = extent;
    }
    return grid;
  });
}

namespace {

/// Throws Error where the coordinates say that an axis runs the other way: the lowest levels would
/// be the highest ones, angles clockwise.  Pressure and depth rise downwards.
void check_directions(const NetcdfFile& file, const std::vector<Axis>& axes) {
  for (size_t k = 0; k < 3; ++k) {
    const Axis& axis = axes[k];
    if (axis.centres.size() < 2) continue;
    const double first = axis.centres.front(), last = axis.centres.back();
    bool is_down = false;
    if (k == 2) {
      is_down = axis.units == "Pa" || axis.units == "hPa" || axis.units == "mbar";
      const hdf5::Dataset d = file.hdf5().open_dataset(axis.name);
      if (d.has_attribute("positive") &&
          d.attribute_type("positive").kind == hdf5::TypeInfo::Kind::text)
        is_down = d.attribute<std::string>("positive") == "down";
    }
    BORA_CHECK(is_down ? last <= first : first <= last, "'", file.path(), "', coordinate '",
               axis.name, "' goes from ", first, " to ", last,
               is_down ? ", which is downwards" : "", ": wanted ",
               k == 2 ? "the lowest level first" : "it to rise",
               "; turn the axis, with: ncpdq -a -", axis.name, " '", file.path(), "' out.nc");
  }
}

/// Throws Error for a unit of speed that is certainly another one than m/s; others are believed.
void check_wind_unit(const NetcdfFile& file, const std::string& variable) {
  std::string unit;
  for (const char c : file.info(variable).units)
    if (c != ' ' && c != '.' && c != '^') unit += c >= 'A' && c <= 'Z' ? char(c - 'A' + 'a') : c;
  for (const char* other : {"km/h",  "kmh-1", "kmhr-1", "km/hr", "kmh",   "kph",        "kn",
                            "kt",    "kts",   "knot",   "knots", "mph",   "miles/hour", "cm/s",
                            "cms-1", "mm/s",  "mms-1",  "km/s",  "kms-1", "ft/s",       "fts-1"})
    BORA_CHECK(unit != other, "'", file.path(), "', variable '", variable, "' is in '",
               file.info(variable).units,
               "', wanted m/s; convert its values, or its attribute "
               "'units' if that is wrong");
}

/// One of the two files: open, of a known grid.
struct OpenFile {
  NetcdfFile file;
  Dims3 grid;
  std::vector<Axis> axes;  ///< read once: opening data sets is what a look at headers costs
};
OpenFile open_file(const WindFilesConfig& files, const std::string& path,
                   const std::string& variable, FileStamp& stamp) {
  check_readable_file(path);
  stamp = FileStamp::of(path);
  OpenFile open{open_wind_file(files, path), {}, {}};
  open.grid = grid_of(open.file, variable, files.axes);
  const int64_t cells[3] = {open.grid.d, open.grid.h, open.grid.w};
  for (size_t k = 0; k < 3; ++k) open.axes.push_back(open.file.axis(files.axes[k], cells[k]));
  check_directions(open.file, open.axes);
  return open;
}

void compare(const WindFilesConfig& f, const WindCase& c, const OpenFile& wind,
             const OpenFile& mask) {
  BORA_CHECK(wind.grid == mask.grid, "'", c.wind_path, "' has a grid of ", wind.grid,
             " cells, its mask '", c.mask_path, "' one of ", mask.grid);
  for (size_t k = 0; k < f.axes.size(); ++k) {
    const std::string& name = f.axes[k];
    const Axis &a = wind.axes[k], &b = mask.axes[k];
    if (a.centres.empty() || b.centres.empty()) continue;
    // As those of volumes: to a thousandth of a cell, since one may be f32 and the other f64.
    const double cell = a.centres.size() < 2 ? 1
                                             : std::abs(a.centres.back() - a.centres.front()) /
                                                   static_cast<double>(a.centres.size() - 1);
    for (size_t i = 0; i < a.centres.size(); ++i)
      BORA_CHECK(std::abs(a.centres[i] - b.centres[i]) <= 1e-3 * cell, "'", c.wind_path,
                 "' and its mask '", c.mask_path, "' have different coordinates '", name,
                 "': ", a.centres[i], " and ", b.centres[i], " at cell ", i, ", wanted the same");
  }
}

/// The moments where all is well; as WindDataset::moments makes them, to the bit.
void look_at_values(const WindConfig& config, WindCase& c, const NetcdfFile& mask_file,
                    const std::optional<OpenFile>& wind_file, std::vector<std::string>& problems) {
  const WindFilesConfig& f = config.files;
  const Window window = kept_window(config, c.grid);
  const std::vector<Range> ranges = ranges_of(window);
  Tensor open;
  const bool is_mask_good = finds_none(problems, [&] {
    open = open_cells(mask_file.read(f.mask_variable, f.axes, ranges), f, c.mask_path, window);
  });
  if (!wind_file) return;
  const bool is_wind_good = finds_none(problems, [&] {
    Tensor wind = wind_file->file.read(f.wind_variable, f.axes, ranges);
    // Without a mask nobody knows where values may be missing.
    if (!is_mask_good) open = Tensor::zeros(wind.shape(), DType::u8);
    settle_wind(wind, open, config, c.wind_path, window);
    uint8_t* o = open.data<uint8_t>();
    for (int64_t i = 0; i < open.numel(); ++i) {
      c.missing.cells += o[i] != 0;
      c.missing.missing += o[i] == 2;
      o[i] = o[i] == 1;
    }
    BORA_CHECK(c.missing.missing == 0 || c.missing.missing < c.missing.cells, "'", c.wind_path,
               "', variable '", f.wind_variable, "': none of its ", c.missing.cells,
               " open cells has a value; nothing of the case would count");
    if (is_mask_good) c.moments = Moments::of(wind.data<float>(), o, open.numel());
  });
  if (!is_wind_good) c.moments.reset();
}

void require_as_it_was(const std::string& path, const FileStamp& stamp) {
  BORA_CHECK(FileStamp::of(path) == stamp, "'", path, "' has changed while it was looked into");
}

/// What the other ranks want to know of a case.
std::string pack(const WindCase& c) {
  TextPacker out;
  for (const int64_t n :
       {c.grid.d, c.grid.h, c.grid.w, c.wind_stamp.bytes, c.wind_stamp.mtime_ns, c.mask_stamp.bytes,
        c.mask_stamp.mtime_ns, c.missing.missing, c.missing.cells})
    out.add(n);
  if (c.moments) {
    out.add(c.moments->n);
    out.add(c.moments->mean);
    out.add(c.moments->m2);
  }
  return out.text();
}

void unpack(const std::string& record, WindCase& c) {
  TextUnpacker in(record, "wind files");
  for (int64_t* n :
       {&c.grid.d, &c.grid.h, &c.grid.w, &c.wind_stamp.bytes, &c.wind_stamp.mtime_ns,
        &c.mask_stamp.bytes, &c.mask_stamp.mtime_ns, &c.missing.missing, &c.missing.cells})
    *n = in.next_number<int64_t>();
  if (in.done()) return;
  Moments& m = c.moments.emplace();
  m.n = in.next_number<int64_t>();
  m.mean = in.next_double();
  m.m2 = in.next_double();
}

}  // namespace

void look_into(const WindConfig& config, WindCase& c, PreflightDepth depth,
               std::vector<std::string>& problems, const std::function<void()>& was_read) {
  const WindFilesConfig& f = config.files;
  const size_t n_before = problems.size();
  std::optional<OpenFile> mask, wind;
  finds_none(problems, [&] { mask = open_file(f, c.mask_path, f.mask_variable, c.mask_stamp); });
  if (!c.wind_path.empty())
    finds_none(problems, [&] { wind = open_file(f, c.wind_path, f.wind_variable, c.wind_stamp); });
  if (wind) finds_none(problems, [&] { check_wind_unit(wind->file, f.wind_variable); });
  if (problems.size() > n_before) return;
  c.grid = mask->grid;
  if (wind && !finds_none(problems, [&] { compare(f, c, *wind, *mask); })) return;
  if (depth == PreflightDepth::headers) {
    // Of no cell: dimensions, attributes and filters are looked at as by every read.
    const std::vector<Range> none(f.axes.size(), Range{0, 0});
    finds_none(problems, [&] { mask->file.read(f.mask_variable, f.axes, none); });
    if (wind) finds_none(problems, [&] { wind->file.read(f.wind_variable, f.axes, none); });
    return;
  }
  look_at_values(config, c, mask->file, wind, problems);
  if (was_read) was_read();
  finds_none(problems, [&] { require_as_it_was(c.mask_path, c.mask_stamp); });
  if (wind) finds_none(problems, [&] { require_as_it_was(c.wind_path, c.wind_stamp); });
}

void look_into_all(const WindConfig& config, WindFiles& files, Collective* ranks,
                   const PreflightHooks& hooks) {
  std::vector<PreflightItem> items;
  for (const WindCase& c : files.cases) items.push_back({c.name, {c.wind_path, c.mask_path}});
  const WindNames names(config.files);
  // Owned: a thread that waits for a file may outlive this call.
  const auto cases = std::make_shared<const std::vector<WindCase>>(files.cases);
  const PreflightCheck check = [config, names, cases](size_t i, PreflightDepth depth,
                                                      std::vector<std::string>& problems) {
    WindCase c = (*cases)[i];
    finds_none(problems, [&] { names.apply(c); });
    look_into(config, c, depth, problems);
    return pack(c);
  };
  files.preflight = preflight(
      items, check,
      {.level = preflight_level(config.files.preflight), .what = "wind files", .hooks = hooks},
      ranks);
  std::vector<WindCase> good;
  for (size_t i = 0; i < items.size(); ++i) {
    for (const std::string& problem : files.preflight.problems[i])
      files.problems.push_back(problem);
    if (files.preflight.is_bad(i)) continue;
    WindCase& c = files.cases[i];
    unpack(files.preflight.records[i], c);
    names.apply(c);
    good.push_back(std::move(c));
  }
  files.cases = std::move(good);
  files.preflight.records.clear();
}

}  // namespace bora::data
