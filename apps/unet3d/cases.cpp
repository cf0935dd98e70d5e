// SPDX-License-Identifier: Apache-2.0
#include "apps/unet3d/cases.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include "apps/common/stop.hpp"
#include "apps/unet3d/preflight_hooks.hpp"
#include "core/counted.hpp"
#include "data/chunk_shape.hpp"
#include "data/netcdf.hpp"
#include "data/wind_storage.hpp"

namespace bora::unet3d {
namespace {

/// Empty where the file tells none.
std::vector<double> level_heights(const std::string& path, const std::string& z) {
  const data::hdf5::Lock lock;
  const data::NetcdfFile file = data::NetcdfFile::open(path);
  const data::Axis axis = file.axis(z);
  if (!axis.centres.empty() || !file.has(z)) return axis.centres;
  const data::VariableInfo info = file.info(z);
  if (info.extents.size() != 1) return {};
  return file.hdf5().open_dataset(z).read().to(DType::f64).to_vector<double>();
}

}  // namespace

Cases::Cases(const data::WindConfig& config, const data::SplitConfig& split_config,
             Collective& ranks, const data::Normaliser* normaliser)
    : root_(config.root),
      dataset_(std::make_unique<data::WindDataset>(config, &ranks, preflight_hooks(ranks))) {
  const data::Split split = data::split_wind(dataset_->cases(), split_config);
  training_ = std::make_unique<data::Subset>(*dataset_, split.train);
  validation_ = std::make_unique<data::Subset>(*dataset_, split.validation);
  test_ = std::make_unique<data::Subset>(*dataset_, split.test);
  if (normaliser) dataset_->normaliser() = *normaliser;
}

void Cases::fit(Collective& ranks) {
  dataset_->fit_normaliser(
      training_->indices(), ranks, {.may_go_on = [] {
        apps::leave_if_told("reading the training cases for their mean and spread");
      }});
}

const data::Dataset& Cases::part(const std::string& name) const {
  if (name == "training") return *training_;
  if (name == "validation") return *validation_;
  if (name == "test") return *test_;
  if (name == "all") return *dataset_;
  throw UsageError("part '" + name + "' of the cases: wanted training, validation, test or all");
}

void Cases::require_extents(int64_t extent, int64_t levels) const {
  for (int64_t i = 0; i < dataset_->size(); ++i) {
    const Dims3 shape = data::window_shape(dataset_->at(i).grid, dataset_->config().shape);
    BORA_CHECK(shape.d >= extent && shape.h >= extent && shape.w >= extent, "case ",
               dataset_->name(i), ": volume ", shape, " is too small for a network of ", levels,
               " levels: each extent must be at least ", extent,
               " (data.shape pads; model.levels makes it shallower)");
  }
}

std::string Cases::reading_warning() const {
  const data::WindConfig& c = dataset_->config();
  if (training_->size() == 0 || c.cache.kind != "none") return {};
  const data::WindCase& first = dataset_->at(training_->indices().front());
  for (const auto& [path, variable] : {std::pair{first.wind_path, c.files.wind_variable},
                                       {first.mask_path, c.files.mask_variable}}) {
    if (path.empty()) continue;
    data::VolumeInfo info = data::wind_storage(c.files, path, variable);
    // Samples begin at the lowest level: of the others only what shares their chunks is unpacked.
    if (c.shape.w > 0) info.grid.w = std::min(info.grid.w, c.shape.w);
    std::string warning = data::amplification_warning(info, c.shape, "data");
    if (!warning.empty()) return warning;
  }
  return {};
}

std::string Cases::describe() const {
  const data::Scaling s = dataset_->normaliser().scaling();
  return detail::join(counted(dataset_->size(), "case"), " in ", root_, ": ", training_->size(),
                      " train, ", validation_->size(), " validate, ", test_->size(), " test; ",
                      name_of(dataset_->normaliser().mode()), " normalisation, mean ", s.mean,
                      " m/s, sigma ", s.sigma, " m/s");
}

std::optional<std::vector<double>> Cases::heights(const data::Sample& sample) const {
  const data::WindCase& files = dataset_->at(sample.index);
  const std::string& z = dataset_->config().files.axes.at(2);
  const std::vector<double> centres = level_heights(files.mask_path, z);
  if (centres.empty()) return std::nullopt;
  BORA_CHECK(static_cast<int64_t>(centres.size()) == files.grid.w, "'", files.mask_path, "': '", z,
             "' has ", centres.size(), " heights, wanted one for each of the ", files.grid.w,
             " levels, in metres");
  std::vector<double> heights(static_cast<size_t>(sample.window.shape.w),
                              std::numeric_limits<double>::infinity());
  for (int64_t k = 0; k < sample.window.shape.w; ++k) {
    const int64_t level = sample.window.begin.w + k;
    if (level >= 0 && level < files.grid.w)
      heights[static_cast<size_t>(k)] = centres[static_cast<size_t>(level)];
  }
  return heights;
}

void Cases::state(StateVisitor& visitor) {
  {
    const StateVisitor::Group group(visitor, "normaliser");
    dataset_->normaliser().state(visitor);
  }
  const StateVisitor::Group group(visitor, "cases");
  for (const char* name : {"training", "validation", "test"}) {
    const std::vector<std::string> here = names_of(part(name));
    std::vector<std::string> names = here;
    visitor.value(name, names);
    if (names != here)
      throw UsageError(detail::join(
          "the checkpoint was trained with ", names.size(), " ", name, " cases, this run has ",
          here.size(), " or others: keep data.root and the split's settings, or start a new run"));
  }
}

Tensor building_cells(const data::Sample& sample) {
  Tensor building = Tensor::zeros(sample.valid.shape(), DType::u8);
  const int64_t channels = sample.input.size(3);
  const float* mask = sample.input.data<float>();
  const uint8_t* valid = sample.valid.data<uint8_t>();
  uint8_t* out = building.data<uint8_t>();
  for (int64_t i = 0; i < building.numel(); ++i) out[i] = valid[i] && mask[i * channels] < 0;
  return building;
}

}  // namespace bora::unet3d
