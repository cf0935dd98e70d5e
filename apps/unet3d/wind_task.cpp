// SPDX-License-Identifier: Apache-2.0
#include "apps/unet3d/wind_task.hpp"

#include <cmath>
#include <utility>

#include "apps/common/text.hpp"
#include "apps/unet3d/deep_supervision.hpp"
#include "apps/unet3d/loss.hpp"
#include "apps/unet3d/picture.hpp"
#include "apps/unet3d/setup.hpp"
#include "data/window.hpp"

namespace bora::unet3d {
namespace {

/// Of a batch of one on the host, in m/s.
kernels::ErrorSums physical_errors(const Tensor& prediction, const data::Batch& batch) {
  const Tensor own = prediction.to(DType::f32);
  Tensor p =
      own.device() == cpu() && own.storage() == prediction.storage() ? own.clone() : own.to(cpu());
  Tensor t = batch.target.clone();
  data::denormalise(p, batch.scalings.at(0));
  data::denormalise(t, batch.scalings.at(0));
  return case_errors(p, t, batch.region, 0.5);
}

/// (X, Y, Z) f32 on the host, 0 in buildings.  As predict_field's.
Tensor field_in_metres_per_second(const Tensor& prediction, const data::Sample& sample) {
  const Shape s = sample.region.shape();
  Tensor y = prediction.to(DType::f32).to(cpu()).clone().reshape({s[0], s[1], s[2], 1});
  data::denormalise(y, sample.scaling);
  y = y.reshape(s);
  const Tensor building = building_cells(sample);
  for (int64_t i = 0; i < y.numel(); ++i)
    if (building.data<uint8_t>()[i] != 0) y.data<float>()[i] = 0;
  return y;
}

/// Where more than half of each sample would be padding; empty if not.
std::string padding_warning(const Dims3& shape, const data::WindDataset& cases) {
  double most = 0;
  Dims3 grid;
  for (int64_t i = 0; i < cases.size(); ++i) {
    const Dims3 g = cases.at(i).grid;
    double share = 1;
    for (const auto& [wanted, there] : {std::pair{shape.d, g.d}, {shape.h, g.h}, {shape.w, g.w}})
      if (wanted > there) share *= static_cast<double>(there) / static_cast<double>(wanted);
    if (share > most) most = share, grid = g;
  }
  if (most >= 0.5) return {};
  return detail::join("data.shape=", shape, ", but the grids are ", grid, " cells: at most ",
                      apps::brief(100 * most),
                      " % of a sample is data, the rest is padding that costs time and memory");
}

}  // namespace

WindTask::WindTask(const Config& config, Collective& ranks) : ConfiguredTask(config) {
  check_task_keys(config);
  check_network(config);
  if (config.data.root.empty())
    throw UsageError("data.root is not set: wanted the folder of the cases (--data.root=DIR)");
  cases_ = std::make_unique<Cases>(config.data, config.split, ranks);
  cases_->use_cache(ranks);
  model_ = make_model(config, cases_->n_channels());
  cases_->require_extents(model_->min_extent(), config.model.levels);
}

std::vector<std::string> WindTask::loss_names() const {
  std::vector<std::string> names = validation_loss_names();
  for (std::string& name : deep_loss_names(config().loss, config().model))
    names.push_back(std::move(name));
  return names;
}

std::vector<std::string> WindTask::validation_loss_names() const {
  return unet3d::loss_names(config().loss);
}

train::Loss WindTask::loss(const data::Batch& batch) {
  if (config().model.deep_supervision > 0)
    return deep_loss(config().loss, *model_, batch.input, batch.target, batch.region);
  return compute_loss(config().loss, *model_, batch.input, batch.target, batch.region);
}

std::vector<std::string> WindTask::score_names() const {
  return {"absolute_error", "squared_error"};
}

train::Validated WindTask::validate(const data::Batch& batch, Device device) {
  const Tensor prediction = model_->forward(batch.input.to(device));
  train::Validated result;
  result.loss =
      compute_loss(config().loss, prediction, batch.target.to(device), batch.region.to(device));
  const kernels::ErrorSums e = physical_errors(prediction, batch);
  BORA_CHECK(e.count > 0, "validation case ", batch.names.at(0),
             " has no open cell: it cannot be scored");
  result.sums = {e.abs, e.square};
  result.counts = {e.count, e.count};
  return result;
}

std::vector<train::NamedScore> WindTask::scores(const MetricSums& sums) const {
  return {{"mae_m_s", "MAE", "m/s", sums.mean("absolute_error")},
          {"rmse_m_s", "RMSE", "m/s", std::sqrt(sums.mean("squared_error"))}};
}

std::vector<train::Picture> WindTask::pictures(const std::vector<train::ScoredCase>& cases,
                                               Device device) {
  const size_t n = cases.size();
  std::vector<std::pair<size_t, std::string>> chosen{{0, "hardest"}};
  if (n > 2) chosen.emplace_back(n / 2, "middle");
  if (n > 1) chosen.emplace_back(n - 1, "easiest");
  constexpr double kPedestrians_m = 10;  // predict's height, too
  std::vector<data::SliceFigure> figures;
  for (const auto& [place, word] : chosen) {
    const train::ScoredCase& chosen_case = cases[place];
    data::Sample sample = validation()->read(chosen_case.index, data::WindowChoice::centred());
    const Tensor input = data::collate({sample}).input.to(device);
    const Tensor field = field_in_metres_per_second(model_->forward(input), sample);
    figures.push_back(prediction_figure(config().data, cases_->all().at(sample.index), sample,
                                        field, kPedestrians_m));
  }
  share_scales(figures);
  std::vector<train::Picture> pictures;
  for (size_t i = 0; i < figures.size(); ++i) {
    const auto& [place, word] = chosen[i];
    pictures.push_back(
        {.name = word,
         .title = "Case " + cases[place].name + ", the " + word + " of the validation",
         .draw = [figure = std::move(figures[i])](const std::string& path) {
           data::draw_slices(path, figure);
         }});
  }
  return pictures;
}

void WindTask::state(StateVisitor& visitor) {
  cases_->state(visitor);
  int64_t channels = model_->in_channels();
  visitor.value("model_input_channels", channels);
}

void WindTask::refuse_change(const std::string& line) const {
  if (line.starts_with("task:") || line.starts_with("loss.") ||
      line.starts_with("data.normalisation"))
    throw UsageError("the checkpoint's losses would not compare with this run's (" + line +
                     "): keep the settings of the run, or start a new one in another output.dir");
  if (line.starts_with("model."))
    throw UsageError("the checkpoint holds another network (" + line +
                     "): keep the settings of the run, or start a new one "
                     "in another output.dir");
}

std::string WindTask::why_not_captured() const {
  return config().model.dropout > 0 ? "since dropout draws other numbers each time" : "";
}

int64_t WindTask::smallest_extent() const { return smallest_sample(*model_); }

Dims3 WindTask::largest_extents() const {
  const data::WindDataset& all = cases_->all();
  Dims3 largest;
  for (int64_t i = 0; i < all.size(); ++i) {
    const Dims3 shape = data::window_shape(all.at(i).grid, all.config().shape);
    if (shape.count() > largest.count()) largest = shape;
  }
  return largest;
}

train::Task::CacheMemory WindTask::cache_memory() const {
  const data::VolumeCache* cache = cases_->all().cache();
  if (cache == nullptr) return {};
  const data::VolumeCache::Memory memory = cache->memory();
  return {memory.of_rank, memory.of_host, "data.cache"};
}

std::vector<std::string> WindTask::ways_to_less_memory() const {
  std::vector<std::string> ways;
  if (!config().model.recompute)
    ways.push_back("model.recompute=true (blocks run twice: about a third more time)");
  ways.push_back("a smaller data.shape: memory goes by its cells");
  ways.push_back(detail::join("a smaller model.base than ", config().model.base,
                              ": activations go by it, weights by its square"));
  return ways;
}

std::vector<std::string> WindTask::describe() const {
  std::vector<std::string> lines = task_lines(config());
  lines.push_back("data: " + cases_->describe());
  if (const data::VolumeCache* cache = cases_->all().cache())
    lines.push_back("data.cache: " + cache->describe());
  return lines;
}

std::vector<std::string> WindTask::warnings(int n_ranks) const {
  std::vector<std::string> warnings = network_warnings(config(), n_ranks);
  if (std::string padded = padding_warning(config().data.shape, cases_->all()); !padded.empty())
    warnings.insert(warnings.begin(), std::move(padded));
  if (std::string reading = cases_->reading_warning(); !reading.empty())
    warnings.push_back(std::move(reading));
  return warnings;
}

}  // namespace bora::unet3d
