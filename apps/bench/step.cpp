// SPDX-License-Identifier: Apache-2.0
#include "apps/bench/step.hpp"

#include <algorithm>

#include "apps/bench/plain_unet.hpp"
#include "apps/train/parallel.hpp"
#include "apps/train/setup.hpp"
#include "apps/unet3d/loss.hpp"
#include "comm/broadcast_state.hpp"
#include "core/allocator.hpp"
#include "core/precision.hpp"
#include "core/profile.hpp"
#include "core/rng.hpp"
#include "nn/ops.hpp"

namespace bora::bench {
namespace {

Tensor noise(const Shape& shape, uint64_t seed) {
  const RngKey key{seed, 1};
  Tensor t = Tensor::empty(shape, DType::f32);
  float* v = t.data<float>();
#pragma omp parallel for schedule(static)
  for (int64_t i = 0; i < t.numel(); ++i)
    v[i] = 2.0f * key.uniform(static_cast<uint64_t>(i)) - 1.0f;
  return t;
}

void check_plain(const StepConfig& c) {
  unet3d::ModelConfig model;
  model.base = c.model.base;
  if (const auto wrong = config_diff(model, c.model); !wrong.empty())
    throw UsageError("case=plain takes model.base only; also given: model." + wrong.front());
  if (const auto wrong = config_diff(unet3d::LossConfig{}, c.loss); !wrong.empty())
    throw UsageError("case=plain always uses mse; also given: loss." + wrong.front());
}

// On a device: steps that may be under way while another is issued.
constexpr int64_t kStepsAhead = 1;

BucketSizes bucket_sizes(const StepConfig& c) {
  BucketSizes sizes;
  sizes.target = c.bucket_mib << 20;
  return sizes;
}

}  // namespace

Step::Step(const StepConfig& config, Collective& ranks, const train::ComputePlace& place)
    : config_(config),
      device_(place.device),
      alone_(train::group_of_one(ranks, place)),
      ranks_(place.tensors != nullptr ? *place.tensors
             : alone_                 ? *alone_
                                      : ranks),
      type_(precision_type(config.precision)) {
  if (config.network == "plain") {
    check_plain(config);
    auto net = std::make_unique<PlainUnet>(1, 1, config.model.base);
    forward_ = [p = net.get()](const Tensor& x) { return p->forward(x); };
    network_ = std::move(net);
  } else {
    auto net = std::make_unique<unet3d::UNet3d>(1, 1, config.model);
    net->set_collective(&ranks_);
    forward_ = [p = net.get()](const Tensor& x) { return p->forward(x); };
    network_ = std::move(net);
  }
  n_parameters_ = nn::parameter_count(*network_);
  {
    const AllocationTag tag("parameters and gradients");
    arena_ = std::make_unique<nn::ParameterArena>(
        *network_, DType::f32, type_, device_,
        config.shared_gradients ? train::shared_memory(ranks_) : MemorySource{});
  }
  nn::initialise(*network_, 0);
  {
    const AllocationTag tag("optimizer state");
    optimizer_ = nn::make_adamw(*arena_, {});
  }
  if (type_ == DType::f16) scaler_.emplace(train::scale_rule_of({}), device_);
  reducer_ = std::make_unique<GradientReducer>(
      arena_->gradients(), arena_->leaves(), ranks_,
      ReducerOptions{.buckets = bucket_sizes(config),
                     .op = ReduceOp::mean,
                     .travel = dtype_from(config.gradient_type),
                     .staging_memory =
                         config.shared_gradients ? train::shared_memory(ranks_) : MemorySource{}});
  updater_ = std::make_unique<apps::Updater>(
      *arena_, *optimizer_, *reducer_,
      nn::Schedule{.kind = nn::Schedule::Kind::constant, .peak = 1e-3}, 1.0,
      scaler_ ? &*scaler_ : nullptr);
  if (device_ != cpu() && ranks_.size() == 1 && config.step_graph == "auto" &&
      config.model.dropout == 0)
    graph_.emplace(device_);
  broadcast_buffers(ranks_, {&arena_->values().all()});
  arena_->refresh_working();
  const AllocationTag tag("input and target");
  const Shape shape{config.batch, config.size.d, config.size.h, config.size.w, 1};
  input_ = noise(shape, 1).to(device_);
  target_ = noise(shape, 2).to(device_);
}

Step::~Step() = default;

Tensor Step::compute_loss() {
  const PrecisionScope precision(type_);
  const Tensor prediction = forward_(input_);
  return config_.network == "plain"
             ? nn::data_loss(prediction, target_, {}, nn::DataLoss::mse)
             : unet3d::compute_loss(config_.loss, prediction, target_, {}).total;
}

const char* Step::way() const {
  if (!graph_) return "eager";
  switch (graph_->way("step")) {
    case StepGraph::Way::eager:
      return "eager";
    case StepGraph::Way::captured:
      return "captured";
    case StepGraph::Way::replayed:
      return "replayed";
  }
  return "?";
}

Tensor Step::forward_backward() {
  Tensor last;
  for (int64_t i = 0; i < config_.accumulate; ++i) {
    reducer_->set_enabled(i + 1 == config_.accumulate);
    const Tensor loss = compute_loss();
    last = loss.detach();
    backward(loss, updater_->seed(1.0 / static_cast<double>(config_.accumulate)));
  }
  return last;
}

void Step::run() {
  times_.begin = Clock::now();
  updater_->begin_window();
  if (graph_) {
    loss_ = graph_
                ->run(
                    "step", {input_, target_},
                    [&]() -> std::vector<Tensor> {
                      Tensor loss = forward_backward();
                      updater_->enqueue_update();
                      return {loss};
                    },
                    [&] {
                      reducer_->abandon();
                      updater_->begin_window();
                    })
                .front();
  } else {
    loss_ = forward_backward();
    times_.backward_end = Clock::now();
    const ScopedRange range("update");
    // The norm reads the gradient; AdamW reads parameter, gradient and two moments and writes all
    // but the gradient, and the working copy where there is one.
    profile_add_work(0, static_cast<double>(n_parameters_) * (type_ == DType::f32 ? 32 : 34));
    updater_->enqueue_update();
  }
  const int64_t ticket = updater_->post_report();
  updater_->reports(device_ == cpu() ? ticket : ticket - kStepsAhead);
  times_.end = Clock::now();
}

void Step::reduce_only() {
  const DType wire = dtype_from(config_.gradient_type);
  Tensor gradients = arena_->gradients().all();
  if (wire != gradients.dtype()) {
    if (!in_transit_.defined()) in_transit_ = Tensor::zeros(gradients.shape(), wire, device_);
    gradients = in_transit_;
  } else {
    gradients.fill(0);  // repeated sums must stay finite
  }
  std::vector<Work> works;
  int number = 0;
  for (const Bucket& b : reducer_->buckets())
    works.push_back(ranks_.all_reduce_async(gradients.rows(b.begin, b.end), ReduceOp::mean,
                                            "bucket " + std::to_string(number++) + " alone"));
  for (const Work& work : works) work.wait();
}

void Step::set_samples(Tensor input, Tensor target) {
  BORA_CHECK(input.shape() == input_.shape() && target.shape() == target_.shape(),
             "set_samples: ", input.shape(), " and ", target.shape(), ", wanted ", input_.shape());
  input_ = input.to(device_);
  target_ = target.to(device_);
}

}  // namespace bora::bench
