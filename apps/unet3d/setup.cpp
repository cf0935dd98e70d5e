// SPDX-License-Identifier: Apache-2.0
#include "apps/unet3d/setup.hpp"

namespace bora::unet3d {

std::unique_ptr<UNet3d> make_model(const Config& config, int64_t in_channels) {
  return std::make_unique<UNet3d>(in_channels, 1, config.model);
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
    trained.normaliser = data::Normaliser(data::norm_mode_from(trained.config.data.normalisation));
    {
      const StateVisitor::Group group(reader, "normaliser");
      trained.normaliser.state(reader);
    }
    trained.updates = reader.peek<int64_t>("updates");
    trained.training = reader.peek<std::vector<std::string>>("cases.training");
    trained.validation = reader.peek<std::vector<std::string>>("cases.validation");
    trained.test = reader.peek<std::vector<std::string>>("cases.test");
    reader.finish(data::Unread::allow);
  });
  trained.model->set_training(false);
  return trained;
}

}  // namespace bora::unet3d
