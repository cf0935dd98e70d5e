// SPDX-License-Identifier: Apache-2.0
#include "kernels/step_scalars.hpp"

#include <cstring>
#include <vector>

#include "kernels/for_each.hpp"
#include "kernels/volume.hpp"

namespace bora::kernels {
namespace {

struct Step {
  const StepRule* rule;
  const double* stats;
  StepScalars* scalars;
  BORA_HD void operator()(int64_t) const {
    *scalars = next_step(*rule, *scalars, stats[0], stats[1]);
  }
};

struct Seed {
  double weight;
  const StepScalars* scalars;
  float* seed;
  BORA_HD void operator()(int64_t) const {
    *seed = static_cast<float>(weight * scalars->scale.scale);
  }
};

constexpr auto kRuleBytes = static_cast<int64_t>(sizeof(StepRule));

std::vector<uint8_t> bytes_of(const StepRule& rule) {
  std::vector<uint8_t> bytes(sizeof(StepRule));
  std::memcpy(bytes.data(), &rule, sizeof(StepRule));
  return bytes;
}

void check_scalars(const Tensor& scalars, Device device, const char* what) {
  check_tensor(scalars, {kStepScalars}, DType::f64, device, what);
}

}  // namespace

Tensor step_rule_on(Device device, const StepRule& rule) {
  return Tensor::from<uint8_t>({kRuleBytes}, bytes_of(rule), device);
}

void set_step_rule(Tensor& on_device, const StepRule& rule) {
  check_tensor(on_device, {kRuleBytes}, DType::u8, on_device.device(), "set_step_rule");
  on_device.copy_from(Tensor::from<uint8_t>({kRuleBytes}, bytes_of(rule)));
  on_device.stream().synchronize();
}

Tensor step_scalars_on(Device device, const StepScalars& first) {
  std::vector<double> values(kStepScalars);
  std::memcpy(values.data(), &first, sizeof(first));
  return Tensor::from<double>({kStepScalars}, values, device);
}

StepScalars step_scalars_of(const Tensor& host) {
  check_scalars(host, cpu(), "step_scalars_of");
  StepScalars s;
  std::memcpy(&s, host.raw(), sizeof(s));
  return s;
}

void step_scalars(Stream stream, const Tensor& rule, const Tensor& stats, Tensor& scalars) {
  check_scalars(scalars, scalars.device(), "step_scalars");
  check_tensor(rule, {kRuleBytes}, DType::u8, scalars.device(), "step_scalars: rule");
  check_tensor(stats, {3}, DType::f64, scalars.device(), "step_scalars: statistics");
  for_each(stream, 1,
           Step{reinterpret_cast<const StepRule*>(rule.data<uint8_t>()), stats.data<double>(),
                reinterpret_cast<StepScalars*>(scalars.data<double>())});
}

void loss_seed(Stream stream, double weight, const Tensor& scalars, Tensor& seed) {
  check_scalars(scalars, scalars.device(), "loss_seed");
  check_tensor(seed, Shape{}, DType::f32, scalars.device(), "loss_seed: seed");
  for_each(stream, 1,
           Seed{weight, reinterpret_cast<const StepScalars*>(scalars.data<double>()),
                seed.data<float>()});
}

}  // namespace bora::kernels
