// SPDX-License-Identifier: Apache-2.0
// Step: one training step of a network on made-up data, as the trainer makes it.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <tuple>

#include "apps/common/updater.hpp"
#include "apps/train/trainer.hpp"
#include "apps/unet3d/config.hpp"
#include "comm/gradient_reducer.hpp"
#include "core/collective.hpp"
#include "core/step_graph.hpp"
#include "nn/parameter_arena.hpp"

namespace bora::bench {

struct StepConfig {
  std::string network = "unet3d";
  unet3d::ModelConfig model;
  unet3d::LossConfig loss;
  Dims3 size{64, 64, 64};
  int64_t batch = 1;
  std::string precision = "fp32";
  int64_t accumulate = 1;
  int64_t bucket_mib = 0;
  std::string gradient_type = "f32";
  bool shared_gradients = true;
  std::string step_graph = "auto";
  static constexpr auto fields() {
    return std::tuple{
        field(
            "case", &StepConfig::network,
            "unet3d: the trainer's network and loss; plain: the usual 3-D U-Net with mean squared "
            "error (of model.* only base counts)",
            one_of("unet3d", "plain")),
        field("model", &StepConfig::model, "The network"),
        field("loss", &StepConfig::loss, "The loss (case unet3d)"),
        field("size", &StepConfig::size, "extents of the volume", positive),
        field("batch", &StepConfig::batch, "samples", positive),
        field("precision", &StepConfig::precision, "as in training",
              one_of("fp32", "fp16", "bf16")),
        field("accumulate", &StepConfig::accumulate, "micro-steps an update", positive),
        field("bucket_mib", &StepConfig::bucket_mib,
              "several ranks: gradients that are reduced together, MiB; 0: automatic", at_least(0)),
        field("gradient_type", &StepConfig::gradient_type,
              "several ranks: what gradients travel in, as comm.gradient_type in training",
              one_of("f32", "f16", "bf16")),
        field("shared_gradients", &StepConfig::shared_gradients,
              "several ranks: gradients in memory that the ranks of the host share, as in "
              "training"),
        field("step_graph", &StepConfig::step_graph,
              "one GPU: replay the step from a graph, as train.step_graph in training",
              one_of("auto", "off"))};
  }
};

/// Forward, loss, backward, reduction over the ranks, gradient norm and clipping at 1, AdamW with
/// a constant rate.  Input and target are fixed noise with one channel, the same on every rank.
/// Gradients lie in memory that the ranks share, as the trainer's do.
class Step {
 public:
  /// Collective.  `ranks` outlives the step.  Throws UsageError for settings that do not go with
  /// the case.
  Step(const StepConfig& config, Collective& ranks, const train::ComputePlace& place = {});
  ~Step();
  Step(const Step&) = delete;
  Step& operator=(const Step&) = delete;

  /// Collective.  On a device it returns when the step is issued, and the one before the last is
  /// done.
  void run();
  /// Collective: the reductions of a step alone, each started at once, on gradients of no meaning.
  void reduce_only();
  /// Other samples for the next steps, (batch, ...) f32 as the noise they replace.
  void set_samples(Tensor input, Tensor target);

  using Clock = GradientReducer::Clock;
  struct Times {
    Clock::time_point begin, backward_end, end;
  };
  /// Of the last run.
  const Times& times() const { return times_; }
  const GradientReducer& reducer() const { return *reducer_; }

  int64_t n_parameters() const { return n_parameters_; }
  DType compute_type() const { return type_; }
  /// Of the last run.  Waits for a device.
  double loss() const { return loss_.item(); }
  Device device() const { return device_; }
  /// How the last run was done: "eager", "captured" or "replayed".
  const char* way() const;
  bool captures() const { return graph_.has_value(); }
  /// Since construction.
  const GradientExchange::Counters& exchange_counters() const { return reducer_->counters(); }
  /// fp16: updates skipped so far, because gradients overflowed.
  int64_t skipped() const { return scaler_ ? scaler_->skipped() : 0; }

 private:
  Tensor compute_loss();
  Tensor forward_backward();

  StepConfig config_;
  Device device_;
  std::unique_ptr<Collective> alone_;  // on a device, for one rank
  Collective& ranks_;                  // for tensors on the device
  DType type_;
  std::unique_ptr<nn::Module> network_;
  std::function<Tensor(const Tensor&)> forward_;
  std::unique_ptr<nn::ParameterArena> arena_;
  std::unique_ptr<nn::Optimizer> optimizer_;
  std::optional<nn::GradScaler> scaler_;
  std::unique_ptr<GradientReducer> reducer_;
  std::unique_ptr<apps::Updater> updater_;
  std::optional<StepGraph> graph_;
  Tensor input_, target_;
  Tensor in_transit_;  // gradients of no meaning in the type that they travel in
  int64_t n_parameters_ = 0;
  Tensor loss_;
  Times times_;
};

}  // namespace bora::bench
