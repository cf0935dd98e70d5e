// SPDX-License-Identifier: Apache-2.0
#include "apps/unet3d/setup.hpp"

#include "apps/train/parallel.hpp"
#include "apps/unet3d/orientation_check.hpp"

namespace bora::unet3d {

std::unique_ptr<UNet3d> make_model(const Config& config, int64_t in_channels) {
  return std::make_unique<UNet3d>(in_channels, outputs_of(config), config.model);
}

void check_task_keys(const Config& config) {
  const std::vector<std::string> foreign =
      is_segmentation(config) ? std::vector<std::string>{"data.", "loss."}
                              : std::vector<std::string>{"volumes.", "segmentation."};
  for (const std::string& line : config_diff(Config{}, config))
    for (const std::string& table : foreign)
      if (line.starts_with(table))
        throw UsageError(line.substr(0, line.find(':')) + " is set, but task=" + config.task +
                         " does not use the table [" + table.substr(0, table.size() - 1) +
                         "]: wanted " +
                         (is_segmentation(config) ? "[volumes] and [segmentation], or task=wind"
                                                  : "[data] and [loss], or task=segmentation"));
}

void check_network(const Config& config) {
  const std::string& norm = config.model.norm;
  if (train::reproducible(config) && (norm == "batch" || norm == "sync_batch"))
    throw UsageError("comm.all_reduce=reproducible with model.norm=" + norm +
                     ": statistics over a batch depend on how samples are shared among the ranks; "
                     "wanted group or instance");
}

std::vector<std::string> network_warnings(const Config& config, int n_ranks) {
  std::vector<std::string> warnings;
  if (config.model.norm != "batch") return warnings;
  if (n_ranks > 1)
    warnings.push_back(detail::join(
        "batch norm with ", n_ranks,
        " ranks: each rank normalises with its own statistics, and rank 0's running ones are used "
        "for validation and saved; model.norm=sync_batch joins them"));
  if (config.train.batch == 1)
    warnings.push_back(
        "batch norm with batch 1: statistics of one sample; group or instance norm suit better");
  return warnings;
}

int64_t smallest_sample(const UNet3d& model) {
  // A batch norm wants more values than one where the network is narrowest.
  const std::string& norm = model.config().norm;
  return model.min_extent() * (norm == "batch" || norm == "sync_batch" ? 2 : 1);
}

std::vector<std::string> task_lines(const Config& config) {
  const int64_t deep = config.model.deep_supervision;
  return {is_segmentation(config) ? "task: segmentation, the class of each cell of an image"
                                  : "task: wind, the wind speed from building masks",
          detail::join("unet3d: base ", config.model.base, ", ", config.model.norm, " norm",
                       deep > 0 ? detail::join(", ", deep, " further heads in training") : "")};
}

namespace {

/// Puts "ema.<parameter>" into the parameters; buffers stay those of "model".
void load_average(nn::Module& model, data::CheckpointReader& reader) {
  const StateVisitor::Group group(reader, "ema");
  for (const auto& [name, parameter] : nn::named_parameters(model)) {
    Tensor value = parameter->value.detach();
    reader.tensor(name, value, parameter->axes);
  }
}

}  // namespace

kernels::ErrorSums case_errors(const Tensor& prediction, const Tensor& target, const Tensor& region,
                               double hit_threshold) {
  const int64_t cells = target.numel();
  BORA_CHECK(prediction.numel() == cells && region.numel() == cells, "case_errors: prediction ",
             prediction.shape(), ", target ", target.shape(), ", region ", region.shape());
  Tensor row = Tensor::empty({1, kernels::ErrorSums::kNumbers}, DType::f64);
  kernels::error_sums(target.stream(), {.threshold = hit_threshold, .relative_floor = 0.5},
                      prediction.reshape({1, cells, 1}), target.reshape({1, cells, 1}),
                      region.reshape({1, cells}), row);
  return kernels::ErrorSums::from_row(row.data<double>());
}

Weights weights_from(const std::string& name) {
  if (name == "auto") return Weights::automatic;
  if (name == "model") return Weights::model;
  if (name == "ema") return Weights::ema;
  throw UsageError("weights '" + name + "': wanted auto, model or ema");
}

const char* name_of(Weights weights) { return weights == Weights::ema ? "ema" : "model"; }

void require_task(const TrainedModel& trained, const std::string& task,
                  const std::string& command) {
  if (trained.config.task != task)
    throw UsageError(command + ": " + trained.path + " was trained with task=" +
                     trained.config.task + "; this is for task=" + task);
}

TrainedModel load_trained(const std::string& path, Device device, Weights weights) {
  data::CheckpointReader reader(path);
  TrainedModel trained;
  trained.path = path;
  with_context("checkpoint " + path, [&] {
    BORA_CHECK(reader.has("config") && reader.has("model_input_channels"),
               "this is no checkpoint of unet3d: it holds no configuration");
    config_load_text(trained.config, reader.peek<std::string>("config"), path);
    trained.model = make_model(trained.config, reader.peek<int64_t>("model_input_channels"));
    trained.arena = std::make_unique<nn::ParameterArena>(*trained.model, DType::f32, device);
    {
      const StateVisitor::Group group(reader, "model");
      nn::module_state(*trained.model, reader);
    }
    const bool has_average = reader.has("ema_begin");
    BORA_CHECK(weights != Weights::ema || has_average,
               "the file has no average of the weights: the run was trained without train.ema");
    if (weights != Weights::model && has_average) {
      load_average(*trained.model, reader);
      trained.weights = Weights::ema;
    }
    {
      const StateVisitor::Group group(reader, "normaliser");
      if (is_segmentation(trained.config)) {
        trained.images = std::make_unique<data::VolumeNormaliser>(trained.config.volumes);
        trained.images->state(reader);
      } else {
        trained.normaliser =
            data::Normaliser(data::norm_mode_from(trained.config.data.normalisation));
        trained.normaliser.state(reader);
      }
    }
    trained.updates = reader.peek<int64_t>("updates");
    trained.training = reader.peek<std::vector<std::string>>("cases.training");
    trained.validation = reader.peek<std::vector<std::string>>("cases.validation");
    trained.test = reader.peek<std::vector<std::string>>("cases.test");
    trained.orientation = trained_orientation(reader);
    reader.finish(data::Unread::allow);
  });
  trained.model->set_training(false);
  return trained;
}

}  // namespace bora::unet3d
