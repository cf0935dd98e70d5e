// SPDX-License-Identifier: Apache-2.0
#include "apps/unet3d/setup.hpp"

namespace bora::unet3d {

std::unique_ptr<UNet3d> make_model(const Config& config, int64_t in_channels) {
  return std::make_unique<UNet3d>(in_channels, 1, config.model);
}

std::unique_ptr<nn::Optimizer> make_optimizer(const OptimConfig& c, nn::ParameterArena& arena) {
  if (c.kind == "adamw")
    return nn::make_adamw(arena, {.beta1 = c.beta1,
                                  .beta2 = c.beta2,
                                  .eps = c.eps,
                                  .weight_decay = c.weight_decay,
                                  .decay_all = c.decay_all});
  if (c.kind == "sgd")
    return nn::make_sgd(arena, {.momentum = c.momentum,
                                .nesterov = c.nesterov,
                                .weight_decay = c.weight_decay,
                                .decay_all = c.decay_all});
  throw UsageError("optim.kind '" + c.kind + "': wanted adamw or sgd");
}

kernels::LossScaleRule scale_rule_of(const ScalerConfig& c) {
  return {.initial = c.initial,
          .growth = c.growth,
          .backoff = c.backoff,
          .interval = c.interval,
          .lowest = c.lowest,
          .highest = c.highest,
          .hysteresis = c.hysteresis};
}

nn::Schedule schedule_of(const OptimConfig& c, int64_t total, int n_ranks) {
  const bool linear = c.scale_lr == "linear";
  if (linear && c.schedule != "one_cycle" && c.warmup == 0)
    throw UsageError("optim.scale_lr=linear with optim.schedule=" + c.schedule +
                     ": wanted optim.warmup > 0, the updates in which the rate grows from optim.lr "
                     "to optim.lr times the number of ranks");
  return {.kind = nn::schedule_kind(c.schedule),
          .peak = linear ? c.lr * n_ranks : c.lr,
          .total = total,
          .warmup = c.warmup,
          .warmup_start = linear ? c.lr : 0.0,
          .step_every = c.step_every,
          .step_factor = c.step_factor,
          .warm_fraction = c.warm_fraction,
          .div = c.div,
          .final_div = c.final_div,
          .cycle_beta1 = c.cycle_beta1};
}

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

TrainedModel load_trained(const std::string& path, Device device) {
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
