// SPDX-License-Identifier: Apache-2.0
#include "core/precision.hpp"

#include "core/op.hpp"

namespace bora {
namespace {

thread_local DType t_half_type = DType::f32;

bool is_narrow(DType t) { return t == DType::f16 || t == DType::bf16; }
bool may_change(const Tensor& x) {
  return x.defined() && (is_narrow(x.dtype()) || x.dtype() == DType::f32);
}

struct Cast {
  static constexpr OpInfo info{"cast", Precision::follow};
  DType type;
  DType from{};
  Tensor forward(OpContext&, const Tensor& x) {
    from = x.dtype();
    return x.detach().to(type);
  }
  Tensor backward(OpContext&, const Tensor& dy) const { return dy.to(from); }
};

}  // namespace

DType half_type() { return t_half_type; }

PrecisionScope::PrecisionScope(DType type) : previous_(t_half_type) {
  BORA_CHECK(type == DType::f32 || is_narrow(type), "PrecisionScope: mixed precision in ", type,
             ", wanted f16, bf16 or f32 (off)");
  t_half_type = type;
}
PrecisionScope::~PrecisionScope() { t_half_type = previous_; }

DType precision_type(const std::string& name) {
  if (name == "fp32") return DType::f32;
  if (name == "fp16") return DType::f16;
  if (name == "bf16") return DType::bf16;
  throw UsageError("precision '" + name + "': wanted fp32, fp16 or bf16");
}

Tensor cast(const Tensor& x, DType type) {
  BORA_CHECK(x.defined() && is_float(x.dtype()), "cast: wants a floating tensor, got ",
             x.defined() ? name_of(x.dtype()) : "an undefined one");
  BORA_CHECK(is_float(type), "cast: to ", type, ", wanted a floating type");
  return x.dtype() == type ? x : apply(Cast{type}, x);
}

Tensor autocast(Precision p, const Tensor& x) {
  if (t_half_type == DType::f32 || p == Precision::follow || !may_change(x)) return x;
  if (p == Precision::full) return cast(x, DType::f32);
  if (const auto* leaf = dynamic_cast<const Leaf*>(x.node().get())) {
    const Tensor& working = leaf->working();
    if (working.defined() && working.dtype() == t_half_type) return working.with_node(x.node());
  }
  return cast(x, t_half_type);
}

Tensor autocast_like(const Tensor& first, const Tensor& x) {
  if (t_half_type == DType::f32 || !may_change(first) || !may_change(x)) return x;
  return cast(x, first.dtype());
}

}  // namespace bora
