// SPDX-License-Identifier: Apache-2.0
// kernels/cuda/conv3d.hpp by cuDNN.
#include "kernels/cuda/conv3d.hpp"

#include "core/backend.hpp"
#include "kernels/cudnn/add_bias.hpp"
#include "kernels/cudnn/ready_plans.hpp"
#include "kernels/cudnn/slabs.hpp"
#include "kernels/cudnn/version_gate.hpp"

namespace bora::kernels::cudnn {
namespace {

/// The largest power of two, at most 16, that divides the addresses of all tensors.
template <class... T>
int64_t alignment_of(const T&... tensors) {
  const uintptr_t bits = (uintptr_t{16} | ... | reinterpret_cast<uintptr_t>(tensors.raw()));
  return static_cast<int64_t>(bits & (~bits + 1));
}

class CudnnEngine final : public ConvEngine {
 public:
  void forward(Stream stream, const Conv3dAttributes& a, const Tensor& x, const Tensor& w,
               const Tensor& bias, Tensor& y) override {
    const ConvProblem problem = problem_of(a, x.shape(), w.shape(), y.shape());
    if (bias.defined()) {
      const int64_t alignment = alignment_of(x, w, bias, y);
      if (run(stream, ConvPass::forward, problem, alignment, x, w, bias, y)) return;
    }
    must_run(stream, ConvPass::forward, problem, x, w, y);
    if (bias.defined()) cudnn::add_bias(stream, bias, y);
  }

  void backward_data(Stream stream, const Conv3dAttributes& a, const Tensor& dy, const Tensor& w,
                     Tensor& dx) override {
    must_run(stream, ConvPass::backward_data, problem_of(a, dx.shape(), w.shape(), dy.shape()), dy,
             w, dx);
  }

  void backward_weights(Stream stream, const Conv3dAttributes& a, const Tensor& x, const Tensor& dy,
                        GradientMode mode, Tensor& dw) override {
    const ConvProblem problem = problem_of(a, x.shape(), dw.shape(), dy.shape());
    if (dw.dtype() == x.dtype())
      return must_run(stream, ConvPass::backward_weights, problem, x, dy, dw,
                      mode == GradientMode::add);
    // cuDNN has no engine that writes an f32 gradient of 16-bit operands.
    Tensor half = Tensor::empty(dw.shape(), x.dtype(), dw.device());
    must_run(stream, ConvPass::backward_weights, problem, x, dy, half);
    Backend& b = backend(dw.device().type);
    if (mode == GradientMode::add) {
      b.accumulate(stream, dw.raw(), dw.dtype(), half.raw(), half.dtype(), dw.numel());
    } else {
      b.cast(stream, dw.raw(), dw.dtype(), half.raw(), half.dtype(), dw.numel());
    }
  }

  void add_bias(Stream stream, const Tensor& bias, Tensor& y) override {
    cudnn::add_bias(stream, bias, y);
  }

 private:
  /// False if no engine computes it; `reasons` then says why.
  static bool run(Stream stream, ConvPass pass, const ConvProblem& problem, int64_t alignment,
                  const Tensor& first, const Tensor& second, const Tensor& bias, Tensor& result,
                  bool add = false, std::string* reasons = nullptr) {
    const ConvKey key = key_of(pass, problem, result.dtype(), bias.defined(), add, alignment,
                               cuda::conv3d_settings());
    Session& session = Session::of(stream);
    const auto ready = ready_plan(session, key);
    if (!ready->plan) {
      if (reasons)
        *reasons = detail::join("cuDNN has no engine for ", text_of(key), ":\n", ready->reasons);
      return false;
    }
    session.execute(*ready->plan, bindings(pass, first, second, bias, result));
    return true;
  }

  static void must_run(Stream stream, ConvPass pass, const ConvProblem& problem,
                       const Tensor& first, const Tensor& second, Tensor& result,
                       bool add = false) {
    std::string reasons;
    const bool done = run(stream, pass, problem, alignment_of(first, second, result), first, second,
                          Tensor(), result, add, &reasons);
    BORA_CHECK(done, "conv3d on cuda: ", reasons);
  }
};

}  // namespace
}  // namespace bora::kernels::cudnn

namespace bora::kernels::cuda {

void conv3d_forward(Stream stream, const Conv3dAttributes& a, const Tensor& x, const Tensor& w,
                    const Tensor& bias, Tensor& y) {
  cudnn::CudnnEngine engine;
  cudnn::run_forward(engine, stream, a, x, w, bias, y);
}

void conv3d_backward_data(Stream stream, const Conv3dAttributes& a, const Tensor& dy,
                          const Tensor& w, const Tensor& bias, Tensor& dx) {
  cudnn::CudnnEngine engine;
  cudnn::run_backward_data(engine, stream, a, dy, w, bias, dx);
}

void conv3d_backward_weights(Stream stream, const Conv3dAttributes& a, const Tensor& x,
                             const Tensor& dy, GradientMode mode, Tensor& dw) {
  cudnn::CudnnEngine engine;
  cudnn::run_backward_weights(engine, stream, a, x, dy, mode, dw);
}

std::string conv3d_library() { return "cuDNN " + cudnn::version_text(cudnnGetVersion()); }

std::vector<std::string> conv3d_implementations() { return cudnn::ready_plan_log(); }

}  // namespace bora::kernels::cuda
