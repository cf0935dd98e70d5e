// SPDX-License-Identifier: Apache-2.0
#include "nn/module.hpp"

#include <cmath>
#include <iomanip>
#include <set>
#include <span>
#include <sstream>

#include "core/rng.hpp"

namespace bora::nn {

Init Init::kaiming_normal(int64_t fan_in) {
  BORA_CHECK(fan_in > 0, "kaiming_normal: fan_in ", fan_in);
  return {Kind::normal, std::sqrt(2.0 / static_cast<double>(fan_in))};
}
Init Init::fan_in_uniform(int64_t fan_in) {
  BORA_CHECK(fan_in > 0, "fan_in_uniform: fan_in ", fan_in);
  return {Kind::uniform, 1.0 / std::sqrt(static_cast<double>(fan_in))};
}
Init Init::xavier_normal(int64_t fan_in, int64_t fan_out) {
  BORA_CHECK(fan_in + fan_out > 0, "xavier_normal: fans ", fan_in, ", ", fan_out);
  return {Kind::normal, std::sqrt(2.0 / static_cast<double>(fan_in + fan_out))};
}
Init Init::xavier_uniform(int64_t fan_in, int64_t fan_out) {
  BORA_CHECK(fan_in + fan_out > 0, "xavier_uniform: fans ", fan_in, ", ", fan_out);
  return {Kind::uniform, std::sqrt(6.0 / static_cast<double>(fan_in + fan_out))};
}

void Visitor::child(std::string_view name, Module& module) {
  const std::string outer = prefix_;
  prefix_ += std::string(name) + ".";
  enter(module);
  module.visit(*this);
  leave(module);
  prefix_ = outer;
}

class ModeSetter final : public Visitor {
 public:
  explicit ModeSetter(bool on) : on_(on) {}
  void parameter(std::string_view, Parameter&) override {}
  void set(Module& module) { module.training_ = on_; }

 protected:
  void enter(Module& module) override { set(module); }

 private:
  bool on_;
};

void Module::set_training(bool on) {
  ModeSetter setter(on);
  setter.set(*this);
  visit(setter);
}

namespace {

class Collector final : public Visitor {
 public:
  void parameter(std::string_view name, Parameter& p) override {
    parameters.push_back({full(name), &p});
  }
  void buffer(std::string_view name, Tensor& b) override { buffers.push_back({full(name), &b}); }

  std::vector<NamedParameter> parameters;
  std::vector<NamedBuffer> buffers;

 private:
  std::string full(std::string_view name) {
    std::string result = prefix() + std::string(name);
    BORA_CHECK(names_.insert(result).second, "Module: two parameters or buffers are named '",
               result, "'");
    return result;
  }
  std::set<std::string> names_;
};

Collector collect(Module& module) {
  Collector collector;
  module.visit(collector);
  return collector;
}

}  // namespace

std::vector<NamedParameter> named_parameters(Module& module) { return collect(module).parameters; }
std::vector<NamedBuffer> named_buffers(Module& module) { return collect(module).buffers; }

int64_t parameter_count(Module& module) {
  int64_t n = 0;
  for (const NamedParameter& p : named_parameters(module)) n += p.parameter->shape.numel();
  return n;
}

std::string summary(Module& module) {
  std::ostringstream out;
  int64_t total = 0;
  for (const auto& [name, p] : named_parameters(module)) {
    std::ostringstream shape;
    shape << p->shape;
    out << "  " << std::left << std::setw(36) << name << std::setw(24) << shape.str() << std::right
        << std::setw(12) << p->shape.numel() << '\n';
    total += p->shape.numel();
  }
  out << "  " << std::left << std::setw(60) << "parameters in all" << std::right << std::setw(12)
      << total << '\n';
  return out.str();
}

void initialise(Module& module, uint64_t seed) {
  for (const auto& [name, p] : named_parameters(module)) {
    BORA_CHECK(p->value.defined(), "initialise: parameter '", name,
               "' has no memory; make a ParameterArena first");
    const Init& init = p->init;
    Tensor value = p->value.detach();
    if (init.kind == Init::Kind::constant) {
      value.fill(static_cast<double>(static_cast<float>(init.value)));
      continue;
    }
    // In f32, so that a network in f64 starts from the same numbers.
    const bool in_place = value.dtype() == DType::f32 && value.device().type == DeviceType::cpu;
    Tensor drawn = in_place ? value : Tensor::empty(p->shape, DType::f32);
    const std::span<float> out(drawn.data<float>(), static_cast<size_t>(drawn.numel()));
    const RngKey key{seed, rng_stream(name)};
    if (init.kind == Init::Kind::normal) {
      fill_normal(key, 0, init.value, out);
    } else {
      fill_uniform(key, 0, -init.value, init.value, out);
    }
    if (!in_place) value.copy_from(drawn.to(value.device()));
  }
}

void module_state(Module& module, StateVisitor& visitor) {
  for (const auto& [name, p] : named_parameters(module)) {
    BORA_CHECK(p->value.defined(), "module_state: parameter '", name, "' has no memory");
    Tensor bytes = p->value.detach();
    visitor.tensor(name, bytes, p->axes);
  }
  for (const auto& [name, b] : named_buffers(module)) visitor.tensor(name, *b);
}

}  // namespace bora::nn
