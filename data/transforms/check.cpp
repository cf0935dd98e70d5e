// SPDX-License-Identifier: Apache-2.0
// check_transforms: what is refused before the first sample is read.
#include <algorithm>

#include "core/error.hpp"
#include "data/transforms/label_swap.hpp"

namespace bora::data {
namespace {

template <class... Parts>
[[noreturn]] void refuse(const Parts&... parts) {
  throw UsageError(bora::detail::join(parts...));
}

bool is_on(const TransformConfig& c) {
  return c.flip_x > 0 || c.flip_y > 0 || c.flip_z > 0 || !c.quarter_turns.empty() ||
         !c.rotation.empty() || !c.zoom.empty() || c.elastic > 0 || !c.noise.empty() ||
         !c.blur.empty() || !c.brightness.empty() || !c.contrast.empty() ||
         !c.low_resolution.empty() || !c.gamma.empty();
}

void check_range(const std::vector<double>& range, const std::string& key) {
  if (range.empty()) return;
  if (range.size() != 2 || range[0] > range[1])
    refuse(key, " has ", range.size(), " numbers", range.size() == 2 ? ", the larger first" : "",
           "; wanted the lowest and the highest, or none");
}

void check_turns(const TransformConfig& c, const TransformUse& use) {
  for (const std::string& plane : c.quarter_turns) {
    const int first = plane[0] - 'x', second = plane[1] - 'x';
    if (use.patch[first] == use.patch[second] && use.patch[first] > 0) continue;
    refuse(use.prefix, ".quarter_turns in the plane ", plane,
           " wants a patch with as many cells along both axes, it is ", use.patch,
           use.patch[first] == 0 || use.patch[second] == 0 ? " (0: as large as the case)" : "");
  }
}

void check_sides(const TransformConfig& c, const TransformUse& use) {
  const LabelSwap swap(c, use.prefix);
  if (swap.axis() < 0) {
    if (!swap.pairs().empty())
      refuse(use.prefix, ".swap_labels needs ", use.prefix,
             ".sides, the axis along which the labels name sides");
    return;
  }
  const std::array<double, 3> flips{c.flip_x, c.flip_y, c.flip_z};
  if (flips[static_cast<size_t>(swap.axis())] > 0 && swap.pairs().empty())
    refuse(use.prefix, ".flip_", c.sides, " would make the labels false: they name sides along ",
           c.sides, "; name the labels that change places in ", use.prefix,
           ".swap_labels, or switch it off");
  for (const std::string& plane : c.quarter_turns)
    if (plane.find(c.sides) != plane.npos)
      refuse(use.prefix, ".quarter_turns in the plane ", plane,
             " would make the labels false: they name sides along ", c.sides,
             ", which a turn would bring to another axis");
  if (use.n_classes == 0) return;
  for (const auto& [a, b] : swap.pairs())
    if (std::max(a, b) >= use.n_classes)
      refuse(use.prefix, ".swap_labels names the label ", std::max(a, b), ", there are ",
             use.n_classes, " classes, from 0");
}

}  // namespace

void check_transforms(const TransformConfig& c, const TransformUse& use) {
  const auto key = [&](const char* name) { return use.prefix + "." + name; };
  if (use.input == TransformUse::Input::building_mask) {
    if (is_on(c))
      refuse(use.prefix,
             " are for images: a building mask has two values, which interpolation and changes of "
             "intensity would destroy, and its wind has a direction, which they do not turn; for "
             "wind use data.augment (flip_x, flip_y, quarter_turns, noise)");
    return;
  }
  if (c.rotation.size() == 2 || c.rotation.size() > 3)
    refuse(key("rotation"), " has ", c.rotation.size(),
           " angles; wanted three, about x, y and z, or one for all, or none");
  check_range(c.zoom, key("zoom"));
  check_range(c.noise, key("noise"));
  check_range(c.blur, key("blur"));
  check_range(c.brightness, key("brightness"));
  check_range(c.contrast, key("contrast"));
  check_range(c.low_resolution, key("low_resolution"));
  check_range(c.gamma, key("gamma"));
  if (6 * c.elastic >= static_cast<double>(c.elastic_spacing))
    refuse(key("elastic"), " is ", c.elastic, " cells with points ", c.elastic_spacing,
           " cells apart: the warp could fold; wanted below a sixth of ", key("elastic_spacing"));
  check_turns(c, use);
  check_sides(c, use);
}

}  // namespace bora::data
