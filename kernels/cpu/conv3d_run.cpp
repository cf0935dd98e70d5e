// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/conv3d_run.hpp"

#include <omp.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <unordered_map>

#include "kernels/cpu/conv3d_plan.hpp"
#include "kernels/cpu/onednn.hpp"

namespace bora::kernels::cpu {
namespace {

using Plans = std::vector<std::shared_ptr<const ConvPlan>>;

ConvProblem problem_of(const ConvProblem& whole, const ConvPiece& piece) {
  ConvProblem p = whole;
  p.n = piece.n;
  p.in[0] = piece.in;
  p.out[0] = piece.out;
  p.pad_left[0] = piece.pad_left;
  return p;
}

/// Plans of all pieces (nullptr for empty ones); no plans at all if oneDNN cannot do one of them.
Plans plans_of(ConvDirection direction, DType type, bool bias, const ConvProblem& p,
               const std::vector<ConvPiece>& pieces) {
  Plans plans;
  for (const ConvPiece& piece : pieces) {
    plans.push_back(piece.empty() ? nullptr
                                  : conv_plan(direction, type, bias, problem_of(p, piece)));
    if (plans.back() && plans.back()->unusable) return {};
  }
  return plans;
}

void check_pieces(const std::vector<ConvPiece>& pieces, const ConvProblem& p) {
  BORA_CHECK(!pieces.empty(), "conv3d: one plane of the input (", p.in[1], ", ", p.in[2], ", ",
             p.c_in, ") or output (", p.out[1], ", ", p.out[2], ", ", p.c_out,
             ") exceeds the limit of ", kPieceElements, " elements of the CPU engine");
}

/// Scratch of `bytes` for each thread.
class ThreadScratch {
 public:
  ThreadScratch(const Plans& plans, int n_threads) {
    for (const auto& plan : plans)
      if (plan) bytes_ = std::max(bytes_, plan->scratch_bytes);
    bytes_ = (bytes_ + 4095) / 4096 * 4096;
    memory_ = Tensor::empty({bytes_ * n_threads}, DType::u8);
  }
  void* of_this_thread() {
    return static_cast<char*>(memory_.raw()) + bytes_ * omp_get_thread_num();
  }

 private:
  int64_t bytes_ = 0;
  Tensor memory_;
};

int threads_for(size_t n_pieces) {
  return static_cast<int>(
      std::min<size_t>(static_cast<size_t>(omp_get_max_threads()), std::max<size_t>(1, n_pieces)));
}

/// Runs f(i) for the pieces, each on one thread; which one does not matter to the result.
template <class F>
void for_pieces(size_t n_pieces, int n_threads, F&& f) {
  std::exception_ptr failure;
#pragma omp parallel for schedule(dynamic, 1) num_threads(n_threads)
  for (size_t i = 0; i < n_pieces; ++i) {
    try {
      const SingleThreadScope single;
      f(i);
    } catch (...) {
#pragma omp critical(bora_conv3d_failure)
      if (!failure) failure = std::current_exception();
    }
  }
  if (failure) std::rethrow_exception(failure);
}

dnnl::memory wrap(const dnnl::memory::desc& desc, const void* data) {
  return dnnl::memory(desc, onednn_engine(), const_cast<void*>(data));
}

void execute(const ConvPlan& plan, ThreadScratch& scratch, const ConvProblem& p,
             std::unordered_map<int, dnnl::memory> arguments) {
  with_onednn(
      [&] {
        if (plan.scratch_bytes > 0) {
          const dnnl::memory::desc desc({plan.scratch_bytes}, dnnl::memory::data_type::u8,
                                        dnnl::memory::format_tag::a);
          arguments[DNNL_ARG_SCRATCHPAD] = wrap(desc, scratch.of_this_thread());
        }
        plan.primitive.execute(onednn_stream(), arguments);
      },
      [&] {
        return detail::join("conv3d ", p.n, " x ", p.in[0], "x", p.in[1], "x", p.in[2], " x ",
                            p.c_in, " -> ", p.c_out, " (", plan.implementation, ")");
      });
}

/// Weights in the layouts that the plans want; mostly one layout.
class PackedWeights {
 public:
  PackedWeights(const Plans& plans, const WeightExtents& e, WeightUse use, const Tensor& w) {
    for (const auto& plan : plans) {
      size_t found = 0;
      if (plan) {
        while (found < descs_.size() && descs_[found] != plan->weights) ++found;
        if (found == descs_.size()) {
          descs_.push_back(plan->weights);
          buffers_.push_back(
              Tensor::empty({static_cast<int64_t>(plan->weights.get_size())}, DType::u8));
          pack_weights(plan->layout, e, use, w.raw(), size_of(w.dtype()), buffers_.back().raw());
        }
      }
      buffer_of_.push_back(found);
    }
  }
  const void* of(size_t piece) const { return buffers_[buffer_of_[piece]].raw(); }

 private:
  std::vector<dnnl::memory::desc> descs_;
  std::vector<Tensor> buffers_;
  std::vector<size_t> buffer_of_;
};

const char* at(const Tensor& t, int64_t element) {
  return static_cast<const char*>(t.raw()) + element * size_of(t.dtype());
}
char* at(Tensor& t, int64_t element) {
  return static_cast<char*>(t.raw()) + element * size_of(t.dtype());
}

/// Does some window along each axis lie wholly inside the input?  Where none does, oneDNN 2.6.3's
/// bf16 weight gradient leaves taps uninitialised.
bool has_inner_window(const ConvProblem& p) {
  for (size_t i = 0; i < 3; ++i) {
    const int64_t o = (p.pad_left[i] + p.stride[i] - 1) / p.stride[i];  // first one not on the left
    if (o >= p.out[i] || o * p.stride[i] - p.pad_left[i] + p.reach(static_cast<int>(i)) > p.in[i])
      return false;
  }
  return true;
}

}  // namespace

void fill_rows(char* out, int64_t rows, int64_t channels, const Tensor& bias, DType type) {
  const auto row_bytes = static_cast<size_t>(channels * size_of(type));
  for (int64_t r = 0; r < rows; ++r) {
    char* row = out + static_cast<size_t>(r) * row_bytes;
    if (bias.defined()) {
      std::memcpy(row, bias.raw(), row_bytes);
    } else {
      std::memset(row, 0, row_bytes);
    }
  }
}

WeightExtents extents_of(const ConvProblem& p) {
  return {p.groups, p.c_out / p.groups, p.kernel[0] * p.kernel[1] * p.kernel[2], p.c_in / p.groups};
}

bool run_forward(const ConvProblem& p, WeightUse use, const WeightExtents& e, const Tensor& in,
                 const Tensor& w, const Tensor& bias, Tensor& out) {
  const std::vector<ConvPiece> pieces = cut_output(p, piece_count(p));
  check_pieces(pieces, p);
  const Plans plans = plans_of(ConvDirection::forward, in.dtype(), bias.defined(), p, pieces);
  if (plans.empty()) return false;
  const PackedWeights weights(plans, e, use, w);
  const int n_threads = threads_for(pieces.size());
  ThreadScratch scratch(plans, n_threads);
  for_pieces(pieces.size(), n_threads, [&](size_t i) {
    const ConvPiece& piece = pieces[i];
    char* to = at(out, (piece.n0 * p.out[0] + piece.out0) * p.out_plane());
    if (piece.empty()) {
      fill_rows(to, piece.n * piece.out * p.out[1] * p.out[2], p.c_out, bias, out.dtype());
      return;
    }
    const ConvPlan& plan = *plans[i];
    const char* from = at(in, (piece.n0 * p.in[0] + piece.in0) * p.in_plane());
    std::unordered_map<int, dnnl::memory> arguments{
        {DNNL_ARG_SRC, wrap(plan.x, from)},
        {DNNL_ARG_WEIGHTS, wrap(plan.weights, weights.of(i))},
        {DNNL_ARG_DST, wrap(plan.y, to)}};
    if (bias.defined()) arguments[DNNL_ARG_BIAS] = wrap(plan.bias, bias.raw());
    execute(plan, scratch, p, std::move(arguments));
  });
  return true;
}

bool run_backward_data(const ConvProblem& p, const Tensor& dy, const Tensor& w, Tensor& dx) {
  const std::vector<ConvPiece> pieces = cut_input(p, piece_count(p));
  check_pieces(pieces, p);
  const Plans plans = plans_of(ConvDirection::backward_data, dy.dtype(), false, p, pieces);
  if (plans.empty()) return false;
  const PackedWeights weights(plans, extents_of(p), WeightUse::forward, w);
  const int n_threads = threads_for(pieces.size());
  ThreadScratch scratch(plans, n_threads);
  for_pieces(pieces.size(), n_threads, [&](size_t i) {
    const ConvPiece& piece = pieces[i];
    char* to = at(dx, (piece.n0 * p.in[0] + piece.in0) * p.in_plane());
    if (piece.empty()) {
      fill_rows(to, piece.n * piece.in * p.in[1] * p.in[2], p.c_in, Tensor(), dx.dtype());
      return;
    }
    const ConvPlan& plan = *plans[i];
    const char* from = at(dy, (piece.n0 * p.out[0] + piece.out0) * p.out_plane());
    execute(plan, scratch, p,
            {{DNNL_ARG_DIFF_DST, wrap(plan.y, from)},
             {DNNL_ARG_WEIGHTS, wrap(plan.weights, weights.of(i))},
             {DNNL_ARG_DIFF_SRC, wrap(plan.x, to)}});
  });
  return true;
}

bool run_backward_weights(const ConvProblem& p, const Tensor& x, const Tensor& dy,
                          GradientMode mode, Tensor& dw) {
  std::vector<ConvPiece> pieces = cut_output(p, weight_piece_count(p));
  check_pieces(pieces, p);
  std::erase_if(pieces, [](const ConvPiece& piece) { return piece.empty(); });
  if (x.dtype() == DType::bf16)
    for (const ConvPiece& piece : pieces)
      if (!has_inner_window(problem_of(p, piece))) return false;
  const Plans plans = plans_of(ConvDirection::backward_weights, x.dtype(), false, p, pieces);
  if (plans.size() != pieces.size()) return false;
  int64_t elements = 0;
  for (const auto& plan : plans) elements = std::max(elements, plan->layout.elements);
  elements = (elements + 63) / 64 * 64;  // parts begin on cache lines
  Tensor partial = Tensor::empty({static_cast<int64_t>(pieces.size()), elements}, DType::f32);
  const int n_threads = threads_for(pieces.size());
  ThreadScratch scratch(plans, n_threads);
  std::vector<PartialGradient> parts(pieces.size());
  for_pieces(pieces.size(), n_threads, [&](size_t i) {
    const ConvPiece& piece = pieces[i];
    const ConvPlan& plan = *plans[i];
    char* to = at(partial, static_cast<int64_t>(i) * elements);
    parts[i] = {reinterpret_cast<const float*>(to), &plan.layout};
    execute(plan, scratch, p,
            {{DNNL_ARG_SRC, wrap(plan.x, at(x, (piece.n0 * p.in[0] + piece.in0) * p.in_plane()))},
             {DNNL_ARG_DIFF_DST,
              wrap(plan.y, at(dy, (piece.n0 * p.out[0] + piece.out0) * p.out_plane()))},
             {DNNL_ARG_DIFF_WEIGHTS, wrap(plan.weights, to)}});
  });
  join_gradients(parts, extents_of(p), mode, dw.data<float>());
  return true;
}

}  // namespace bora::kernels::cpu
