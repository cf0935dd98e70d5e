// SPDX-License-Identifier: Apache-2.0
// TrainingRun: a network trained as the trainer does it, on one device, on one batch.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "apps/common/updater.hpp"
#include "apps/gpucheck/networks.hpp"
#include "core/state.hpp"
#include "core/step_graph.hpp"

namespace bora::gpucheck {

class TrainingRun {
 public:
  struct Options {
    Device device{};
    DType type = DType::f32;  ///< f16: with dynamic loss scaling
    double rate = 1e-3;
    double loss_scale = 65536;
    int64_t growth_interval = 2000;
  };
  /// Weights are initialised on the CPU from a fixed seed and copied: the same on every device.
  TrainingRun(Problem problem, const Options& options);
  ~TrainingRun();
  TrainingRun(const TrainingRun&) = delete;
  TrainingRun& operator=(const TrainingRun&) = delete;

  /// One update, without waiting for the device.  `seed_factor` multiplies the loss's gradient: inf
  /// makes every gradient overflow.
  void enqueue(double seed_factor = 1);
  /// One update; returns the loss before it, and waits.
  double step(double seed_factor = 1);
  /// Waits for what was enqueued, and takes its reports.
  void wait();
  /// From now on steps are launches of a captured graph, after the eager ones that it needs to warm
  /// up.
  void use_graph();
  /// Empty if the last step was such a launch, else the reason.
  std::string why_not_replayed() const;
  /// The report of the last step().
  const apps::UpdateReport& report() const { return report_; }

  /// Master weights, on the CPU.
  Tensor values() const;
  double loss_scale() const { return updater_->loss_scale(); }
  int64_t updates() const { return optimizer_->updates(); }
  int64_t skipped() const { return scaler_ ? scaler_->skipped() : 0; }
  int64_t n_parameters() const;
  /// Bytes of tensors, those of convolutions' workspaces and of the graph included.  allocated: in
  /// use at the peak since the last start of counting; reserved: taken from the device now, in use
  /// or kept for the next.
  struct Memory {
    int64_t allocated = 0, reserved = 0;
  };
  Memory memory() const;
  /// Gives what lies unused back to the device, and counts the peak from now on.
  void count_memory_anew();
  const std::string& text() const { return problem_.text; }
  Device device() const { return options_.device; }

  /// Everything that a checkpoint holds, copied to the host; load() takes it into another run.
  struct Saved {
    std::vector<Tensor> tensors{};
    std::vector<int64_t> integers{};
    std::vector<double> numbers{};
  };
  Saved save();
  void load(const Saved& saved);

 private:
  struct Alone;
  Tensor forward_backward(double seed_factor);
  int64_t issue(double seed_factor);
  void state(StateVisitor& visitor);

  Options options_;
  Problem problem_;
  std::unique_ptr<nn::ParameterArena> arena_;
  std::unique_ptr<nn::Optimizer> optimizer_;
  std::optional<nn::GradScaler> scaler_;
  std::unique_ptr<Alone> alone_;
  std::unique_ptr<apps::Updater> updater_;
  std::optional<StepGraph> graph_;
  Tensor input_, target_, loss_;
  apps::UpdateReport report_;
};

}  // namespace bora::gpucheck
