// SPDX-License-Identifier: Apache-2.0
// ToyTask: a task of made-up volumes and two convolutions, with hooks where a trainer calls it.
#pragma once

#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "apps/train/task.hpp"
#include "nn/layers/conv3d.hpp"
#include "nn/layers/norm.hpp"
#include "nn/ops.hpp"

namespace bora::testing {

/// Volumes of 4 x 4 x 4 cells; the target is a fixed function of the input.
class ToyData final : public data::Dataset {
 public:
  ToyData(std::string prefix, int64_t n) : prefix_(std::move(prefix)), n_(n) {}
  int64_t size() const override { return n_; }
  int64_t n_channels() const override { return 1; }
  std::string name(int64_t index) const override { return prefix_ + std::to_string(index); }
  /// Its target is NaN (or whatever) in one cell.
  int64_t bad_case = -1;
  float bad_value = std::numeric_limits<float>::quiet_NaN();

  data::Sample read(int64_t index, const data::WindowChoice&) const override {
    constexpr int64_t kCells = 64;
    const RngKey key{11, rng_stream(prefix_, 0, static_cast<uint64_t>(index))};
    std::vector<float> x, y;
    for (int64_t i = 0; i < kCells; ++i) {
      x.push_back(key.uniform(static_cast<uint64_t>(i)) - 0.5f);
      y.push_back(std::sin(3.0f * x.back()));
    }
    if (index == bad_case) y[5] = bad_value;
    data::Sample s;
    s.input = Tensor::from<float>({4, 4, 4, 1}, x);
    s.target = Tensor::from<float>({4, 4, 4, 1}, y);
    s.region = Tensor::from<uint8_t>({4, 4, 4}, std::vector<uint8_t>(kCells, 1));
    s.valid = s.region;
    s.name = name(index);
    s.index = index;
    return s;
  }

 private:
  std::string prefix_;
  int64_t n_;
};

struct ToyNet final : nn::Module {
  explicit ToyNet(nn::NormKind kind) : norm(kind, 8, 4) {}
  nn::Conv3d a{1, 8, {3, 3, 3}, nn::Bias::yes, {.padding = {1, 1, 1}}};
  nn::Conv3d b{8, 1, {3, 3, 3}, nn::Bias::yes, {.padding = {1, 1, 1}}};
  nn::Norm norm;
  Tensor forward(const Tensor& x) { return b.forward(nn::silu(norm.forward(a.forward(x)))); }
  void visit(nn::Visitor& v) override {
    v.child("a", a);
    v.child("norm", norm);
    v.child("b", b);
  }
};

/// Where a trainer calls the task.
enum class Moment { loss, validate, save };

struct ToyOptions {
  int64_t n_training = 13, n_validation = 3;
  nn::NormKind norm = nn::NormKind::group;
  int64_t bad_training = -1, bad_validation = -1;
  std::function<void(Moment)> hook{};
  std::function<void(Collective&)> prepare{};
  std::vector<std::string>* used = nullptr;  ///< names of the samples that entered a loss
};

class ToyTask final : public train::ConfiguredTask<train::RunConfig> {
 public:
  ToyTask(const train::RunConfig& config, ToyOptions options)
      : ConfiguredTask(config),
        options_(std::move(options)),
        net_(options_.norm),
        training_("t", options_.n_training),
        validation_("v", options_.n_validation) {
    training_.bad_case = options_.bad_training;
    validation_.bad_case = options_.bad_validation;
  }
  nn::Module& model() override { return net_; }
  const data::Dataset& training() const override { return training_; }
  const data::Dataset* validation() const override { return &validation_; }
  void set_collective(Collective* ranks) override { net_.norm.set_collective(ranks); }

  train::Loss loss(const data::Batch& batch) override {
    if (training_mode_ && options_.used)
      options_.used->insert(options_.used->end(), batch.names.begin(), batch.names.end());
    if (training_mode_) call(Moment::loss);
    train::Loss loss;
    const Tensor prediction = nn::cast(net_.forward(batch.input), DType::f32);
    loss.total = nn::data_loss(prediction, batch.target, batch.region, nn::DataLoss::mse);
    loss.parts.emplace_back("loss", loss.total.detach());
    return loss;
  }
  train::Validated validate(const data::Batch& batch, Device device) override {
    call(Moment::validate);
    training_mode_ = false;
    train::Validated result = Task::validate(batch, device);
    training_mode_ = true;
    return result;
  }
  void prepare(Collective& ranks) override {
    if (options_.prepare) options_.prepare(ranks);
  }
  void state(StateVisitor& visitor) override {
    if (!visitor.loading()) call(Moment::save);
  }

 private:
  void call(Moment moment) const {
    if (options_.hook) options_.hook(moment);
  }
  ToyOptions options_;
  ToyNet net_;
  ToyData training_, validation_;
  bool training_mode_ = true;
};

}  // namespace bora::testing
