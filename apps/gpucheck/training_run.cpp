// SPDX-License-Identifier: Apache-2.0
#include "apps/gpucheck/training_run.hpp"

#include <string>

#include "core/allocator.hpp"
#include "core/precision.hpp"
#include "core/tape.hpp"
#include "kernels/pointwise.hpp"

namespace bora::gpucheck {
namespace {

/// Copies what it visits into lists, in order.
class Keeper final : public StateVisitor {
 public:
  explicit Keeper(TrainingRun::Saved& saved) : saved_(saved) {}
  bool loading() const override { return false; }
  bool has_entry(std::string_view) const override { return true; }
  void tensor(std::string_view, Tensor& value, std::string_view) override {
    saved_.tensors.push_back(value.detach().clone().to(cpu()));
  }
  void value(std::string_view, int64_t& v) override { saved_.integers.push_back(v); }
  void value(std::string_view, uint64_t& v) override {
    saved_.integers.push_back(static_cast<int64_t>(v));
  }
  void value(std::string_view, double& v) override { saved_.numbers.push_back(v); }
  void value(std::string_view, bool& v) override { saved_.integers.push_back(v); }
  void value(std::string_view name, std::string&) override { refuse(name); }
  void value(std::string_view name, std::vector<double>&) override { refuse(name); }
  void value(std::string_view name, std::vector<int64_t>&) override { refuse(name); }
  void value(std::string_view name, std::vector<std::string>&) override { refuse(name); }
  void enter(std::string_view) override {}
  void leave() override {}

 private:
  [[noreturn]] static void refuse(std::string_view name) {
    BORA_FAIL("TrainingRun: state '", std::string(name), "' is of a kind that is not kept here");
  }
  TrainingRun::Saved& saved_;
};

/// Writes the lists back, in the same order.
class Restorer final : public StateVisitor {
 public:
  explicit Restorer(const TrainingRun::Saved& saved) : saved_(saved) {}
  bool loading() const override { return true; }
  bool has_entry(std::string_view) const override { return true; }
  void tensor(std::string_view name, Tensor& value, std::string_view) override {
    BORA_CHECK(tensor_ < saved_.tensors.size(), "TrainingRun: state '", std::string(name),
               "' was not kept");
    value.copy_from(saved_.tensors[tensor_++]);
  }
  void value(std::string_view, int64_t& v) override { v = saved_.integers.at(integer_++); }
  void value(std::string_view, uint64_t& v) override {
    v = static_cast<uint64_t>(saved_.integers.at(integer_++));
  }
  void value(std::string_view, double& v) override { v = saved_.numbers.at(number_++); }
  void value(std::string_view, bool& v) override { v = saved_.integers.at(integer_++) != 0; }
  void value(std::string_view, std::string&) override {}
  void value(std::string_view, std::vector<double>&) override {}
  void value(std::string_view, std::vector<int64_t>&) override {}
  void value(std::string_view, std::vector<std::string>&) override {}
  void enter(std::string_view) override {}
  void leave() override {}

 private:
  const TrainingRun::Saved& saved_;
  size_t tensor_ = 0, integer_ = 0, number_ = 0;
};

}  // namespace

/// One rank: gradients are what they are.
struct TrainingRun::Alone final : GradientExchange {
  void begin_micro_step(bool) override {}
  void end_micro_step() override {}
  void finish() override { ++counters_.windows; }
  void abandon() override {}
};

TrainingRun::TrainingRun(Problem problem, const Options& options)
    : options_(options), problem_(std::move(problem)), alone_(std::make_unique<Alone>()) {
  BORA_CHECK(is_float(options.type) && options.type != DType::f64, "TrainingRun: type ",
             options.type, ", wanted f32, f16 or bf16");
  Tensor first;
  {
    nn::ParameterArena start(*problem_.network, DType::f32);
    nn::initialise(*problem_.network, 2026);
    first = start.values().all();
  }
  arena_ = std::make_unique<nn::ParameterArena>(*problem_.network, DType::f32, options.type,
                                                options.device);
  Tensor all = arena_->values().all();
  all.copy_from(first);
  all.stream().synchronize();  // `first` may go now
  if (arena_->has_working()) arena_->refresh_working();
  optimizer_ = nn::make_adamw(*arena_, {});
  if (options.type == DType::f16)
    scaler_.emplace(
        kernels::LossScaleRule{.initial = options.loss_scale, .interval = options.growth_interval},
        options.device);
  updater_ = std::make_unique<apps::Updater>(
      *arena_, *optimizer_, *alone_,
      nn::Schedule{.kind = nn::Schedule::Kind::constant, .peak = options.rate}, 1.0,
      scaler_ ? &*scaler_ : nullptr);
  input_ = problem_.input.to(options.device);
  target_ = problem_.target.to(options.device);
  input_.stream().synchronize();
}

TrainingRun::~TrainingRun() = default;

Tensor TrainingRun::forward_backward(double seed_factor) {
  const PrecisionScope precision(options_.type);
  const Tensor loss = problem_.loss(input_, target_);
  Tensor seed = updater_->seed(1.0);
  if (seed_factor != 1) {
    Tensor scaled = Tensor::empty(seed.shape(), seed.dtype(), seed.device());
    kernels::scale(seed.stream(), seed_factor, seed, scaled);
    seed = scaled;
  }
  backward(loss, seed);
  return loss.detach();
}

int64_t TrainingRun::issue(double seed_factor) {
  updater_->begin_window();
  if (!graph_) {
    loss_ = forward_backward(seed_factor);
    return updater_->end_window();
  }
  BORA_CHECK(seed_factor == 1, "TrainingRun: a graph keeps the seed that it was captured with");
  const auto body = [&]() -> std::vector<Tensor> {
    const Tensor loss = forward_backward(1);
    updater_->enqueue_update();
    return {loss};
  };
  loss_ = graph_->run("step", {input_, target_}, body, [&] { updater_->begin_window(); }).front();
  return updater_->post_report();
}

void TrainingRun::enqueue(double seed_factor) {
  issue(seed_factor);
  updater_->reports();
}

void TrainingRun::wait() {
  current_stream(options_.device).synchronize();
  updater_->reports(INT64_MAX);
}

void TrainingRun::use_graph() { graph_.emplace(options_.device); }

std::string TrainingRun::why_not_replayed() const {
  BORA_CHECK(graph_, "TrainingRun: use_graph() comes first");
  if (graph_->way("step") == StepGraph::Way::replayed) return {};
  const std::string reason = graph_->why_eager("step");
  return reason.empty() ? "it is still warming up" : reason;
}

double TrainingRun::step(double seed_factor) {
  if (updater_->pending() > 0) wait();
  const int64_t ticket = issue(seed_factor);
  const double loss = loss_.item();
  report_ = updater_->reports(ticket).back();
  return loss;
}

Tensor TrainingRun::values() const { return arena_->values().all().detach().clone().to(cpu()); }

int64_t TrainingRun::n_parameters() const { return nn::parameter_count(*problem_.network); }

TrainingRun::Memory TrainingRun::memory() const {
  const MemoryStats own = caching_allocator(options_.device).stats(),
                    graph = graph_ ? graph_->memory() : MemoryStats{};
  return {own.peak + graph.peak, own.reserved + graph.reserved};
}

void TrainingRun::count_memory_anew() {
  wait();
  caching_allocator(options_.device).release_cached();
  caching_allocator(options_.device).reset_peak();
}

void TrainingRun::state(StateVisitor& visitor) {
  nn::module_state(*problem_.network, visitor);
  optimizer_->state(visitor);
  if (scaler_) scaler_->state(visitor);
}

TrainingRun::Saved TrainingRun::save() {
  Saved saved;
  Keeper keeper(saved);
  state(keeper);
  return saved;
}

void TrainingRun::load(const Saved& saved) {
  Restorer restorer(saved);
  state(restorer);
  current_stream(options_.device).synchronize();
  if (arena_->has_working()) arena_->refresh_working();
}

}  // namespace bora::gpucheck
