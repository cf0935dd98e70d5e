// SPDX-License-Identifier: Apache-2.0
#include "kernels/cudnn/problem.hpp"

#include <algorithm>

namespace bora::kernels::cudnn {
namespace {

Dims3 dims_of(const std::array<int64_t, 3>& v) { return {v[0], v[1], v[2]}; }

}  // namespace

const char* name_of(ConvPass pass) {
  switch (pass) {
    case ConvPass::forward:
      return "forward";
    case ConvPass::backward_data:
      return "backward_data";
    case ConvPass::backward_weights:
      return "backward_weights";
  }
  return "?";
}

ConvKey key_of(ConvPass pass, const ConvProblem& problem, DType type, bool bias, bool add,
               int64_t alignment, const cuda::Conv3dSettings& settings) {
  BORA_CHECK(type == DType::f16 || type == DType::bf16 || type == DType::f32,
             "conv3d on cuda: ", type,
             " values, wanted f16, bf16 or f32 (f64 is for gradient checks on the CPU)");
  return {.pass = pass,
          .type = static_cast<int64_t>(type),
          .tf32 = type == DType::f32 && settings.tf32,
          .bias = bias,
          .add = add,
          .alignment = alignment,
          .deterministic = settings.deterministic,
          .workspace_limit = settings.workspace_limit,
          .problem = problem};
}

int64_t padding_behind(const ConvProblem& p, int axis) {
  const auto i = static_cast<size_t>(axis);
  const auto out_of = [&](int64_t right) {
    return (p.in[i] + p.pad_left[i] + right - p.reach(axis)) / p.stride[i] + 1;
  };
  if (out_of(p.pad_left[i]) == p.out[i]) return p.pad_left[i];
  const int64_t right = std::max<int64_t>(0, p.pad_right(axis));
  BORA_CHECK(out_of(right) == p.out[i], "conv3d on cuda: no padding gives ", p.out[i],
             " cells along axis ", axis, " from ", p.in[i], " with ", p.pad_left[i],
             " cells before, kernel ", p.kernel[i], ", stride ", p.stride[i], ", dilation ",
             p.dilation[i]);
  return right;
}

std::string text_of(const ConvKey& k) {
  const ConvProblem& p = k.problem;
  const Dims3 behind{padding_behind(p, 0), padding_behind(p, 1), padding_behind(p, 2)};
  return detail::join(name_of(k.pass), ' ', k.tf32 ? "tf32" : name_of(k.dtype()), ' ', p.n, 'x',
                      dims_of(p.in), 'x', p.c_in, " -> ", dims_of(p.out), 'x', p.c_out, " k",
                      dims_of(p.kernel), " s", dims_of(p.stride), " p", dims_of(p.pad_left), '+',
                      behind, " d", dims_of(p.dilation), " g", p.groups, k.bias ? " bias" : "",
                      k.add ? " add" : "", " a", k.alignment, k.deterministic ? "" : " any-order",
                      " w", k.workspace_limit);
}

}  // namespace bora::kernels::cudnn
