// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <charconv>

#include "apps/common/text.hpp"
#include "apps/unet3d/field.hpp"

namespace bora::unet3d {
namespace {

std::array<double, 3> overlaps(const FieldConfig& config) {
  const std::vector<double>& o = config.overlap;
  if (o.size() == 1) return {o[0], o[0], o[0]};
  return {o.at(0), o.at(1), o.at(2)};
}

/// Windows start at the ground, as in training: a network has learned where the ground is, and one
/// that is shown a box in the air takes its lowest level for it.
int64_t levels_of(const Dims3& wanted, const Dims3& trained_on, const Dims3& grid) {
  const int64_t levels = trained_on.w == 0 ? grid.w : trained_on.w;
  if (wanted.w != 0 && wanted.w != levels)
    throw UsageError(detail::join(
        "--window=", wanted, ": the network was trained on ", levels,
        " levels from the ground up, and would take the lowest level of a window for the ground; "
        "wanted 0 or ",
        levels, " along z"));
  return levels;
}

void check_extents(const Dims3& window, const TrainedModel& trained, const std::string& option) {
  const int64_t least = trained.model->min_extent();
  if (window.d < least || window.h < least || window.w < least)
    throw UsageError(detail::join("--window=", option, ": windows of ", window,
                                  " cells, the network wants at least ", least,
                                  " along each axis"));
}

std::string overlap_text(const std::array<double, 3>& overlap) {
  std::string text = apps::brief(overlap[0]);
  if (overlap[1] != overlap[0] || overlap[2] != overlap[0])
    text += ", " + apps::brief(overlap[1]) + ", " + apps::brief(overlap[2]);
  return text;
}

}  // namespace

Dims3 window_extents(const std::string& text) {
  std::array<int64_t, 3> v{};
  const char* at = text.data();
  const char* last = at + text.size();
  bool good = true;
  for (size_t i = 0; i < 3 && good; ++i) {
    const auto [end, error] = std::from_chars(at, last, v[i]);
    good = error == std::errc{} && v[i] >= 0 && (i == 2 ? end == last : end != last && *end == 'x');
    at = good && i < 2 ? end + 1 : end;
  }
  if (!good)
    throw UsageError("--window=" + text +
                     ": wanted auto, whole, centred, or three extents like 64x64x0");
  return {v[0], v[1], v[2]};
}

void check_field_config(const FieldConfig& config, const std::string& command) {
  if (config.checkpoint.empty())
    throw UsageError(command + ": --checkpoint=FILE is wanted (best.h5 of a run)");
  if (config.overlap.size() != 1 && config.overlap.size() != 3)
    throw UsageError(detail::join(command, ": --overlap has ", config.overlap.size(),
                                  " numbers, wanted one, or one for each axis"));
  if (config.mirror && config.flips != "none" && config.flips != "y")
    throw UsageError(command + ": --mirror is --flips=y, but --flips=" + config.flips +
                     " is given too");
  if (config.window != "auto" && config.window != "whole" && config.window != "centred")
    window_extents(config.window);
}

Flips flips_of(const FieldConfig& config, const TrainedModel& trained) {
  const std::string kind = config.mirror ? "y" : config.flips;
  const Flips flips{.x = kind == "x" || kind == "xy", .y = kind == "y" || kind == "xy"};
  const std::string what = config.mirror ? "--mirror" : "--flips=" + kind;
  const data::WindConfig& data = trained.config.data;
  if (flips.x && data.wind_direction == "fixed")
    throw UsageError(what +
                     ": the mirror image in x is no valid case: the wind blows along +x in every "
                     "file (data.wind_direction=fixed of the run)");
  if ((flips.x || flips.y) && data.wind_direction == "angle" && !data.angle_channels)
    throw UsageError(what +
                     ": a mirror image is no valid case: the wind blows towards the angle in the "
                     "name, which the network is not told (data.angle_channels of the run)");
  for (const auto& [wanted, trained_on, axis] : {std::tuple{flips.x, data.augment.flip_x, "x"},
                                                 std::tuple{flips.y, data.augment.flip_y, "y"}})
    if (wanted && !trained_on)
      throw UsageError(what + ": the run of " + trained.path +
                       " did not train on mirrored cases (data.augment.flip_" + axis + ")");
  return flips;
}

FieldPlan plan_field(const FieldConfig& config, const TrainedModel& trained, const Dims3& grid) {
  const Dims3 shape = trained.config.data.shape;
  const bool whole_grids = shape == Dims3{};
  const bool given =
      config.window != "auto" && config.window != "whole" && config.window != "centred";
  const Dims3 wanted = given ? window_extents(config.window) : Dims3{};
  const int64_t levels = levels_of(wanted, shape, grid);
  Dims3 window{grid.d, grid.h, levels};
  std::string why;
  if (given) {
    window = data::window_shape({grid.d, grid.h, levels}, wanted);
    why = "as --window says";
  } else if (config.window == "whole") {
    why = "--window=whole";
  } else {
    window = data::window_shape({grid.d, grid.h, levels}, shape);
    why = config.window == "centred" ? "--window=centred"
          : whole_grids              ? "the run was trained on whole grids"
                                     : detail::join("the run was trained on windows of ", window);
  }
  check_extents(window, trained, config.window);

  FieldPlan plan;
  Dims3 area{grid.d, grid.h, std::min(levels, grid.w)};
  if (config.window == "centred")
    area = {std::min(grid.d, window.d), std::min(grid.h, window.h), area.w};
  plan.area = data::centred_window(grid, area);
  plan.layout = lay_windows(area, window, overlaps(config));
  const int64_t n = plan.layout.count();
  if (n > 1)
    plan.text = detail::join(n, " windows of ", window, ", overlap ",
                             overlap_text(overlaps(config)), ", over ", area, " cells");
  else if (window == grid)
    plan.text = detail::join("the whole grid of ", grid, " cells at once");
  else
    plan.text = detail::join("one window of ", window, " for a grid of ", grid, " cells");
  plan.text += " (" + why + ")";
  if (area.w < grid.w)
    plan.text += detail::join("; the ", grid.w - area.w,
                              " levels above those that the network was trained on stay empty");
  if (area.d < grid.d || area.h < grid.h) plan.text += "; cells beside the window stay empty";
  return plan;
}

}  // namespace bora::unet3d
