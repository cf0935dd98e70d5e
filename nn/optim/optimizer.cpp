// SPDX-License-Identifier: Apache-2.0
#include "nn/optim/optimizer.hpp"

#include <cmath>
#include <limits>

#include "kernels/grad_stats.hpp"
#include "kernels/optim.hpp"

namespace bora::nn {
namespace {

/// Elements [begin, end) of the arena that decay alike: a few runs, since neighbours mostly do.
struct Run {
  int64_t begin, end;
  bool decays;
};

/// The working copy of a run, undefined where there is none.
Tensor working_of(ParameterArena& arena, const Run& run) {
  return arena.has_working() ? arena.working().slice(run.begin, run.end) : Tensor();
}

std::vector<Run> runs_of(const ParameterArena& arena, bool decay_all) {
  const std::vector<Range>& ranges = arena.layout().ranges();
  std::vector<Run> runs;
  for (size_t i = 0; i < ranges.size(); ++i) {
    const bool decays = decay_all || arena.decays(static_cast<int>(i));
    const int64_t end = i + 1 < ranges.size() ? ranges[i + 1].offset : arena.layout().size();
    if (runs.empty() || runs.back().decays != decays)
      runs.push_back({ranges[i].offset, end, decays});
    runs.back().end = end;
  }
  return runs;
}

/// Slots are saved by parameter, so that a checkpoint does not depend on the arena's order or
/// padding.
void slot_state(StateVisitor& visitor, const char* name, FlatBuffer& slot) {
  const StateVisitor::Group group(visitor, name);
  for (size_t i = 0; i < slot.layout().ranges().size(); ++i) {
    Tensor part = slot.part(static_cast<int>(i));
    visitor.tensor(slot.layout().range(static_cast<int>(i)).name, part);
  }
}

class AdamW final : public Optimizer {
 public:
  AdamW(ParameterArena& arena, const AdamWOptions& options)
      : arena_(arena),
        options_(options),
        runs_(runs_of(arena, options.decay_all)),
        m_(arena.layout(), arena.type(), arena.device()),
        v_(arena.layout(), arena.type(), arena.device()) {}

  void step(const UpdateInput& input) override {
    run_all({.learning_rate = input.lr,
             .beta1 = input.momentum >= 0 ? input.momentum : options_.beta1,
             .step = updates_ + 1,
             .gradient_factor = input.gradient_factor},
            {});
    ++updates_;
  }
  void step_from(const Tensor& scalars) override { run_all({}, scalars); }
  void set_updates(int64_t updates) override { updates_ = updates; }
  double own_momentum() const override { return options_.beta1; }
  double own_beta2() const override { return options_.beta2; }
  int64_t updates() const override { return updates_; }
  void state(StateVisitor& visitor) override {
    visitor.value("updates", updates_);
    slot_state(visitor, "m", m_);
    slot_state(visitor, "v", v_);
  }

 private:
  void run_all(kernels::AdamWUpdate update, const Tensor& scalars) {
    update.beta2 = options_.beta2;
    update.eps = options_.eps;
    for (const Run& run : runs_) {
      kernels::OptimBuffers buffers{.gradient = arena_.gradients().slice(run.begin, run.end),
                                    .master = arena_.values().slice(run.begin, run.end),
                                    .slot0 = m_.slice(run.begin, run.end),
                                    .slot1 = v_.slice(run.begin, run.end),
                                    .working = working_of(arena_, run),
                                    .skip = {},
                                    .scalars = scalars};
      update.weight_decay = run.decays ? options_.weight_decay : 0.0;
      kernels::adamw(buffers.master.stream(), update, buffers);
    }
  }

  ParameterArena& arena_;
  AdamWOptions options_;
  std::vector<Run> runs_;
  FlatBuffer m_, v_;
  int64_t updates_ = 0;
};

class Sgd final : public Optimizer {
 public:
  Sgd(ParameterArena& arena, const SgdOptions& options)
      : arena_(arena), options_(options), runs_(runs_of(arena, options.decay_all)) {
    BORA_CHECK(!options.nesterov || options.momentum > 0,
               "Sgd: nesterov wants a momentum above 0, got ", options.momentum);
    if (options.momentum > 0) buffer_ = FlatBuffer(arena.layout(), arena.type(), arena.device());
  }

  void step(const UpdateInput& input) override {
    // A momentum of 0 has no buffer; a cycled momentum needs one from the start.
    run_all({.learning_rate = input.lr,
             .momentum = has_buffer() && input.momentum >= 0 ? input.momentum : options_.momentum,
             .gradient_factor = input.gradient_factor},
            {});
    ++updates_;
  }
  void step_from(const Tensor& scalars) override {
    run_all({.momentum = options_.momentum}, scalars);
  }
  void set_updates(int64_t updates) override { updates_ = updates; }
  double own_momentum() const override { return options_.momentum; }
  double own_beta2() const override { return 0.0; }
  int64_t updates() const override { return updates_; }
  void state(StateVisitor& visitor) override {
    visitor.value("updates", updates_);
    if (has_buffer()) slot_state(visitor, "momentum", buffer_);
  }

 private:
  bool has_buffer() const { return options_.momentum > 0; }

  void run_all(kernels::SgdUpdate update, const Tensor& scalars) {
    update.nesterov = options_.nesterov;
    for (const Run& run : runs_) {
      kernels::OptimBuffers buffers{
          .gradient = arena_.gradients().slice(run.begin, run.end),
          .master = arena_.values().slice(run.begin, run.end),
          .slot0 = has_buffer() ? buffer_.slice(run.begin, run.end) : Tensor(),
          .slot1 = {},
          .working = working_of(arena_, run),
          .skip = {},
          .scalars = scalars};
      update.weight_decay = run.decays ? options_.weight_decay : 0.0;
      kernels::sgd(buffers.master.stream(), update, buffers);
    }
  }

  ParameterArena& arena_;
  SgdOptions options_;
  std::vector<Run> runs_;
  FlatBuffer buffer_;
  int64_t updates_ = 0;
};

}  // namespace

std::unique_ptr<Optimizer> make_adamw(ParameterArena& arena, const AdamWOptions& options) {
  return std::make_unique<AdamW>(arena, options);
}

std::unique_ptr<Optimizer> make_sgd(ParameterArena& arena, const SgdOptions& options) {
  return std::make_unique<Sgd>(arena, options);
}

GradientNorm gradient_norm(const ParameterArena& arena) {
  const Tensor& gradients = arena.gradients().all();
  Tensor out = Tensor::empty({3}, DType::f64, gradients.device());
  kernels::grad_stats(gradients.stream(), gradients, out);
  return gradient_norm_of(out);
}

GradientNorm gradient_norm_of(const Tensor& statistics) {
  const std::vector<double> stats = statistics.to_vector<double>();
  GradientNorm result;
  result.non_finite = static_cast<int64_t>(stats[1]);
  result.norm =
      result.non_finite == 0 ? std::sqrt(stats[0]) : std::numeric_limits<double>::quiet_NaN();
  return result;
}

double clip_factor(double norm, double max_norm) { return kernels::clip_factor(norm, max_norm); }

std::string first_non_finite_gradient(const ParameterArena& arena) {
  const FlatBuffer& gradients = arena.gradients();
  for (size_t i = 0; i < gradients.layout().ranges().size(); ++i) {  // backward's order
    const Tensor part = gradients.part(static_cast<int>(i));
    Tensor out = Tensor::empty({3}, DType::f64, part.device());
    kernels::grad_stats(part.stream(), part.reshape({part.numel()}), out);
    if (out.to_vector<double>()[1] > 0) return gradients.layout().range(static_cast<int>(i)).name;
  }
  return "";
}

}  // namespace bora::nn
