// SPDX-License-Identifier: Apache-2.0
#include "nn/parameter_arena.hpp"

#include <algorithm>

namespace bora::nn {

ParameterArena::ParameterArena(Module& module, DType type, Device device)
    : ParameterArena(module, type, type, device) {}

ParameterArena::ParameterArena(Module& module, DType type, DType working, Device device,
                               const MemorySource& gradient_memory) {
  BORA_CHECK(type == DType::f32 || type == DType::f64,
             "ParameterArena: master weights are f32 or f64, not ", type);
  BORA_CHECK(
      working == type || (type == DType::f32 && (working == DType::f16 || working == DType::bf16)),
      "ParameterArena: working copies in ", working, " of master weights in ", type,
      ", wanted f16 or bf16 of f32");
  std::vector<NamedParameter> parameters = named_parameters(module);
  BORA_CHECK(!parameters.empty(), "ParameterArena: the module has no parameters");
  std::reverse(parameters.begin(), parameters.end());
  FlatLayout layout;
  for (const auto& [name, p] : parameters) layout.add(name, p->shape);
  values_ = FlatBuffer(layout, type, device);
  gradients_ = FlatBuffer::make(layout, type, device, gradient_memory);
  if (working != type) working_ = FlatBuffer(layout, working, device);
  for (size_t i = 0; i < parameters.size(); ++i) {
    const int range = static_cast<int>(i);
    Parameter& p = *parameters[i].parameter;
    p.value = make_leaf(values_.part(range), parameters[i].name);
    nodes_.push_back(p.value.node());
    leaves_.push_back(&leaf_of(p.value));
    leaves_.back()->set_gradient_buffer(gradients_.part(range));
    if (has_working()) leaves_.back()->set_working(working_.part(range));
    decays_.push_back(p.decay);
  }
  for (const NamedBuffer& b : named_buffers(module))
    if (b.buffer->defined()) *b.buffer = b.buffer->to(device);
}

void ParameterArena::refresh_working() {
  if (has_working()) working_.all().copy_from(values_.all());
}

void ParameterArena::clear_gradients() {
  for (Leaf* leaf : leaves_) leaf->clear_gradient();
}

std::vector<std::string> ParameterArena::missing_gradients() const {
  std::vector<std::string> names;
  for (const Leaf* leaf : leaves_)
    if (!leaf->has_gradient()) names.push_back(leaf->name());
  return names;
}

void ParameterArena::zero_missing_gradients() {
  for (size_t i = 0; i < leaves_.size(); ++i)
    if (!leaves_[i]->has_gradient()) gradients_.part(static_cast<int>(i)).fill(0.0);
}

}  // namespace bora::nn
