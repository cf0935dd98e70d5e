// SPDX-License-Identifier: Apache-2.0
// The look into the files of a wind data set before training begins.
#pragma once

#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "core/collective.hpp"
#include "core/error.hpp"
#include "data/name_pattern.hpp"
#include "data/netcdf.hpp"
#include "data/preflight.hpp"
#include "data/wind_files.hpp"

namespace bora::data {

/// What the configuration says about names, compiled once.
struct WindNames {
  AnglePatterns angles;
  std::optional<NamePattern> layout;
  explicit WindNames(const WindFilesConfig& config) : angles(config.angle_patterns) {
    if (!config.layout_pattern.empty())
      layout.emplace("data.files.layout_pattern", config.layout_pattern);
  }
  void apply(WindCase& c) const {
    c.angle_deg = c.listed_angle_deg ? *c.listed_angle_deg
                  : angles.empty()   ? std::numeric_limits<double>::quiet_NaN()
                                     : angles.parse(c.name);
    c.group = c.listed_group.value_or(c.name);
    if (!layout || c.listed_group) return;
    const std::optional<std::string> group = layout->find(c.name);
    BORA_CHECK(group, "'", c.name, "': no layout in the name; data.files.layout_pattern is ",
               layout->text());
    c.group = *group;
  }
};

/// The grid of one variable of a file, in the order x, y, z; `axes` names its dimensions.
/// Throws Error naming file and variable where a dimension is missing or has no cells, or the type
/// is none that is read.
Dims3 grid_of(const NetcdfFile& file, const std::string& variable,
              const std::vector<std::string>& axes);

/// Fills in the case's grid and stamps and, with `values`, its moments, and appends what is wrong
/// with its files, one line each: no file, another form, grids or coordinates that differ; with
/// `values` those that cannot be, in the levels that training reads, and a chunk that does not
/// unpack or has another checksum; a file that changed meanwhile.  Safe to call from several
/// threads.  `was_read`, if set, is called between the reading of the values and the last look at
/// the files' stamps: a test changes a file there.
void look_into(const WindConfig& config, WindCase& c, PreflightDepth depth,
               std::vector<std::string>& problems, const std::function<void()>& was_read = {});

/// The pre-flight of all pairs: names, grids, stamps and moments are filled in, what is wrong is
/// appended to `files.problems` and such cases are left out, the same on all ranks (nullptr: this
/// process alone).
void look_into_all(const WindConfig& config, WindFiles& files, Collective* ranks,
                   const PreflightHooks& hooks = {});

}  // namespace bora::data
