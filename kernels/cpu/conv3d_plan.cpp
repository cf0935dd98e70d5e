// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/conv3d_plan.hpp"

#include <algorithm>
#include <mutex>
#include <set>

#include "core/log.hpp"
#include "kernels/cpu/onednn.hpp"
#include "kernels/plan_cache.hpp"

namespace bora::kernels::cpu {
namespace {

using dnnl::memory;

struct PlanKey {
  int64_t direction, type, bias, n, c_in, c_out, groups;
  std::array<int64_t, 3> in, out, kernel, stride, pad_left, dilation;
};

// A U-Net of 5 levels needs about 150 (three directions, first, middle and last pieces); a plan is
// some 100 kB of code.
PlanCache<PlanKey, ConvPlan>& cache() {
  static auto* instance = new PlanCache<PlanKey, ConvPlan>(1024);
  return *instance;
}

struct PlanLog {
  std::mutex mutex;
  std::set<std::string> lines;
};
PlanLog& plan_log() {
  static auto* log = new PlanLog();
  return *log;
}

/// False if it is listed already, or the list is full.
bool add_line(const std::string& line) {
  PlanLog& log = plan_log();
  const std::lock_guard lock(log.mutex);
  constexpr size_t kLines = 4096;  // a process that meets ever new shapes must not grow for it
  return log.lines.size() < kLines && log.lines.insert(line).second;
}

PlanKey key_of(ConvDirection direction, DType type, bool bias, const ConvProblem& p) {
  return {static_cast<int64_t>(direction),
          static_cast<int64_t>(type),
          bias,
          p.n,
          p.c_in,
          p.c_out,
          p.groups,
          p.in,
          p.out,
          p.kernel,
          p.stride,
          p.pad_left,
          p.dilation};
}

/// (N, C, D, H, W) over channels-last memory.
memory::desc data_desc(int64_t n, int64_t c, const std::array<int64_t, 3>& e,
                       memory::data_type type) {
  return memory::desc(memory::dims{n, c, e[0], e[1], e[2]}, type,
                      memory::dims{e[0] * e[1] * e[2] * c, 1, e[1] * e[2] * c, e[2] * c, c});
}

std::string describe(ConvDirection direction, DType type, const ConvProblem& p) {
  const Dims3 in{p.in[0], p.in[1], p.in[2]}, k{p.kernel[0], p.kernel[1], p.kernel[2]},
      s{p.stride[0], p.stride[1], p.stride[2]}, l{p.dilation[0], p.dilation[1], p.dilation[2]};
  const char* name = direction == ConvDirection::forward         ? "forward"
                     : direction == ConvDirection::backward_data ? "data gradient"
                                                                 : "weight gradient";
  return detail::join(name, " ", type, " ", p.n, "x", in, " ", p.c_in, "->", p.c_out, " k", k, " s",
                      s, " dilation ", l, " pad ", p.pad_left[0], ",", p.pad_left[1], ",",
                      p.pad_left[2], " groups ", p.groups);
}

template <class PrimitiveDesc>
void take(ConvPlan& plan, const PrimitiveDesc& pd, const memory::desc& weights) {
  plan.weights = weights;
  plan.layout = WeightLayout::of(weights);
  plan.scratch_bytes = static_cast<int64_t>(pd.scratchpad_desc().get_size());
  plan.implementation = pd.impl_info_str();
  plan.unusable = plan.implementation.find("ref") != std::string::npos;
}

void build(ConvPlan& plan, ConvDirection direction, DType type, bool bias, const ConvProblem& p) {
  const auto t = onednn_type(type);
  plan.x = data_desc(p.n, p.c_in, p.in, t);
  plan.y = data_desc(p.n, p.c_out, p.out, t);
  const int64_t o = p.c_out / p.groups, i = p.c_in / p.groups;
  const memory::dims wd = p.groups == 1
                              ? memory::dims{o, i, p.kernel[0], p.kernel[1], p.kernel[2]}
                              : memory::dims{p.groups, o, i, p.kernel[0], p.kernel[1], p.kernel[2]};
  const bool gradient = direction == ConvDirection::backward_weights;
  const memory::desc w(wd, t, memory::format_tag::any);
  const memory::desc dw(wd, memory::data_type::f32, memory::format_tag::any);
  if (bias) plan.bias = memory::desc(memory::dims{p.c_out}, t, memory::format_tag::a);
  memory::dims stride, dilation, left, right;
  for (int a = 0; a < 3; ++a) {
    stride.push_back(p.stride[static_cast<size_t>(a)]);
    dilation.push_back(p.dilation[static_cast<size_t>(a)] - 1);
    left.push_back(p.pad_left[static_cast<size_t>(a)]);
    // Negative: the last cells are seen by no window; oneDNN rounds down itself.
    right.push_back(std::max<int64_t>(0, p.pad_right(a)));
  }
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  const auto algorithm = dnnl::algorithm::convolution_direct;
  const auto kind = dnnl::prop_kind::forward_training;
  const dnnl::engine& engine = onednn_engine();
  using Forward = dnnl::convolution_forward;
  const Forward::desc forward =
      bias ? Forward::desc(kind, algorithm, plan.x, w, plan.bias, plan.y, stride, dilation, left,
                           right)
           : Forward::desc(kind, algorithm, plan.x, w, plan.y, stride, dilation, left, right);
  const Forward::primitive_desc forward_pd(forward, attr, engine);
  if (direction == ConvDirection::forward) {
    take(plan, forward_pd, forward_pd.weights_desc());
    if (!plan.unusable) plan.primitive = Forward(forward_pd);
  } else if (!gradient) {
    using Data = dnnl::convolution_backward_data;
    const Data::primitive_desc pd({algorithm, plan.x, w, plan.y, stride, dilation, left, right},
                                  attr, engine, forward_pd);
    take(plan, pd, pd.weights_desc());
    if (!plan.unusable) plan.primitive = Data(pd);
  } else {
    using Weights = dnnl::convolution_backward_weights;
    const Weights::primitive_desc pd({algorithm, plan.x, dw, plan.y, stride, dilation, left, right},
                                     attr, engine, forward_pd);
    take(plan, pd, pd.diff_weights_desc());
    if (!plan.unusable) plan.primitive = Weights(pd);
  }
}

ConvPlan make_plan(ConvDirection direction, DType type, bool bias, const ConvProblem& p) {
  const SingleThreadScope single;
  ConvPlan plan;
  try {
    build(plan, direction, type, bias, p);
  } catch (const dnnl::error& e) {
    // A shape it does not take: the caller has another way.  Anything else is an error.
    if (e.status != dnnl_unimplemented && e.status != dnnl_invalid_arguments)
      throw_onednn(e, describe(direction, type, p));
    plan.implementation = std::string("none (") + e.what() + ")";
    plan.unusable = true;
  }
  const std::string line = describe(direction, type, p) + ": " + plan.implementation;
  const bool fresh = add_line(line);
  if (plan.unusable && fresh)
    log_warn("conv3d: oneDNN has no fast kernel for ", line, "; a slower way is taken");
  return plan;
}

}  // namespace

std::shared_ptr<const ConvPlan> conv_plan(ConvDirection direction, DType type, bool bias,
                                          const ConvProblem& p) {
  return cache().find_or_make(key_of(direction, type, bias, p),
                              [&] { return make_plan(direction, type, bias, p); });
}

void log_own_kernel(ConvDirection direction, DType type, bool bias, const ConvProblem& p,
                    const char* implementation) {
  static auto* seen = new PlanCache<PlanKey, bool>(1024);  // strings are made once a shape
  seen->find_or_make(key_of(direction, type, bias, p), [&] {
    add_line(describe(direction, type, p) + ": " + implementation);
    return true;
  });
}

std::vector<std::string> conv_plan_log() {
  PlanLog& log = plan_log();
  const std::lock_guard lock(log.mutex);
  return {log.lines.begin(), log.lines.end()};
}

}  // namespace bora::kernels::cpu
