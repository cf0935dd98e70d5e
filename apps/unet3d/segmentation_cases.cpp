// SPDX-License-Identifier: Apache-2.0
#include "apps/unet3d/segmentation_cases.hpp"

#include <algorithm>
#include <utility>

#include "apps/common/stop.hpp"
#include "apps/common/text.hpp"
#include "apps/unet3d/orientation_check.hpp"
#include "apps/unet3d/preflight_hooks.hpp"
#include "core/counted.hpp"
#include "data/chunk_shape.hpp"
#include "data/window.hpp"

namespace bora::unet3d {
namespace {

constexpr const char* kParts[] = {"training", "validation", "test"};

}  // namespace

std::string class_list(const std::vector<std::string>& classes) {
  std::string text;
  for (size_t k = 0; k < classes.size(); ++k)
    text += detail::join(k == 0 ? "" : ", ", k, ' ', classes[k]);
  return text;
}

SegmentationCases::SegmentationCases(const data::VolumesConfig& volumes,
                                     const data::SplitConfig& split, Collective& ranks,
                                     const data::VolumeNormaliser* normaliser)
    : dataset_(std::make_unique<data::VolumeDataset>(volumes, &ranks, preflight_hooks(ranks))),
      split_(data::split_volumes(dataset_->cases(), split)) {
  training_ = std::make_unique<data::Subset>(*dataset_, dataset_->patches_of(split_.train));
  validation_ = std::make_unique<data::Subset>(*dataset_, split_.validation);
  if (normaliser) dataset_->normaliser() = *normaliser;
}

void SegmentationCases::fit(Collective& ranks) {
  dataset_->fit_normaliser(
      split_.train, ranks, {.may_go_on = [] {
        apps::leave_if_told("reading the training cases for their mean and spread");
      }});
}

std::vector<double> SegmentationCases::training_weights() const {
  std::vector<double> weights;
  bool given = false;
  for (const int64_t index : training_->indices()) {
    weights.push_back(dataset_->at(index).sample_weight);
    given = given || weights.back() != 1;
  }
  return given ? weights : std::vector<double>();
}

std::vector<std::string> SegmentationCases::names(const std::string& name) const {
  std::vector<std::string> names;
  for (const int64_t index : part(name)) names.push_back(dataset_->name(index));
  return names;
}

Dims3 SegmentationCases::patch_of(int64_t index) const {
  return data::window_shape(dataset_->at(index).box.count, dataset_->config().patch);
}

void SegmentationCases::require_extents(int64_t extent, int64_t levels) const {
  for (int64_t i = 0; i < dataset_->size(); ++i) {
    const Dims3 shape = patch_of(i);
    BORA_CHECK(shape.d >= extent && shape.h >= extent && shape.w >= extent, "case ",
               dataset_->name(i), ": a sample of ", shape, " cells is too small for a network of ",
               levels, " levels: each extent must be at least ", extent,
               " (volumes.patch pads; model.levels makes it shallower)");
  }
}

Dims3 SegmentationCases::largest_patch() const {
  Dims3 largest;
  for (int64_t i = 0; i < dataset_->size(); ++i)
    if (const Dims3 shape = patch_of(i); shape.count() > largest.count()) largest = shape;
  return largest;
}

std::string SegmentationCases::padding_warning() const {
  const Dims3 patch = dataset_->config().patch;
  double most = 0;
  Dims3 grid;
  for (const int64_t i : split_.train) {
    const Dims3 box = dataset_->at(i).box.count;
    double share = 1;
    for (int axis = 0; axis < 3; ++axis)
      if (patch[axis] > box[axis])
        share *= static_cast<double>(box[axis]) / static_cast<double>(patch[axis]);
    if (share > most) most = share, grid = box;
  }
  if (most == 0 || most >= 0.5) return {};
  return detail::join("volumes.patch=", patch, ", but the volumes are ", grid, " cells: at most ",
                      apps::brief(100 * most),
                      " % of a sample is data, the rest is padding that costs time and memory");
}

std::string SegmentationCases::reading_warning() const {
  const data::VolumesConfig& c = dataset_->config();
  if (split_.train.empty() || c.cache.kind != "none") return {};
  const auto file = data::open_volume(dataset_->at(split_.train.front()).image);
  return data::amplification_warning(file->info(), c.patch, "volumes");
}

void SegmentationCases::require_one_shape() const {
  for (const int64_t i : split_.train)
    if (const Dims3 first = patch_of(split_.train.front()), other = patch_of(i); !(first == other))
      throw UsageError(detail::join(
          "train.batch: samples of one batch must be alike, but those of case ",
          dataset_->name(split_.train.front()), " have ", first, " cells and those of case ",
          dataset_->name(i), ' ', other, ": set volumes.patch, or train.batch=1"));
}

std::vector<std::string> SegmentationCases::describe() const {
  const data::VolumesConfig& c = dataset_->config();
  const auto n = static_cast<int64_t>(split_.train.size());
  std::vector<std::string> lines{detail::join(
      "data: ", counted(dataset_->size(), "case"), " in ", c.root,
      c.list.empty() ? "" : " (" + c.list + ")", ": ", n, " train, ", split_.validation.size(),
      " validate, ", split_.test.size(), " test; ", c.normalisation, " normalisation")};
  std::string patches =
      c.patch == Dims3{}
          ? std::string("whole volumes")
          : detail::join("patches of ", data::window_shape(largest_patch(), c.patch));
  if (c.patches_per_volume > 1)
    patches += detail::join(", ", c.patches_per_volume, " of each case in an epoch");
  if (c.foreground > 0)
    patches += ", " + apps::brief(100 * c.foreground) + " % centred on a labelled cell";
  lines.push_back("classes: " + class_list(c.classes) + "; " + patches);
  return lines;
}

std::string SegmentationCases::orientation() const {
  if (split_.train.empty()) return {};
  const std::string& first = dataset_->at(split_.train.front()).orientation;
  const bool alike = std::all_of(split_.train.begin(), split_.train.end(),
                                 [&](int64_t i) { return dataset_->at(i).orientation == first; });
  return alike ? first : std::string();
}

void SegmentationCases::state(StateVisitor& visitor) {
  {
    const StateVisitor::Group group(visitor, "normaliser");
    dataset_->normaliser().state(visitor);
  }
  const StateVisitor::Group group(visitor, "cases");
  for (const char* name : kParts) {
    const std::vector<std::string> here = names(name);
    std::vector<std::string> there = here;
    visitor.value(name, there);
    if (there != here)
      throw UsageError(detail::join(
          "the checkpoint was trained with ", there.size(), " ", name, " cases, this run has ",
          here.size(),
          " or others: keep volumes.root, volumes.list and the split's settings, or start a new "
          "run"));
  }
  const std::string here = orientation();
  // Volumes without an affine have none, nor have checkpoints of before it was kept.
  if (visitor.loading() ? !visitor.has_entry("orientation") : here.empty()) return;
  std::string there = here;
  visitor.value("orientation", there);
  for (const int64_t i : split_.train) {
    const data::VolumeCase& c = dataset_->at(i);
    if (!orientations_agree(there, c.orientation))
      throw UsageError("the checkpoint was trained on volumes whose axes run " + there +
                       ", those of '" + c.image.path + "' run " + c.orientation +
                       ": it would see it mirrored or turned. Train on volumes as before, or start "
                       "a new run");
  }
}

}  // namespace bora::unet3d
