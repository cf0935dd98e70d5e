// SPDX-License-Identifier: Apache-2.0
#include "kernels/cudnn/slabs.hpp"

namespace bora::kernels::cudnn {
namespace {

using cpu::ConvPiece;

/// Planes [z0, z0 + planes) of samples [n0, n0 + n): all planes unless n is 1, so always dense.
/// Operands may be recorded on the tape: their parts are not.
Tensor part(const Tensor& t, int64_t n0, int64_t n, int64_t z0, int64_t planes) {
  const Shape& s = t.shape();
  const int64_t plane = s[2] * s[3] * s[4];
  return t.detach().view((n0 * s[1] + z0) * plane, {n, planes, s[2], s[3], s[4]});
}

Tensor input_part(const Tensor& x, const ConvPiece& p) { return part(x, p.n0, p.n, p.in0, p.in); }
Tensor output_part(const Tensor& y, const ConvPiece& p) {
  return part(y, p.n0, p.n, p.out0, p.out);
}

Conv3dAttributes piece_attributes(Conv3dAttributes a, const ConvPiece& piece) {
  a.padding.d = piece.pad_left;
  return a;
}

void check_cut(const char* op, const std::vector<ConvPiece>& pieces, const Shape& x, const Shape& y,
               int64_t limit) {
  BORA_CHECK(!pieces.empty(), op, " on cuda: ", x, " with ", y,
             " cannot be cut along D into pieces of at most ", limit,
             " elements: one plane and its neighbours are larger");
}

bool whole(const std::vector<ConvPiece>& pieces) {
  return pieces.size() == 1 && !pieces.front().empty();
}

void fill_with_bias(ConvEngine& engine, Stream stream, const Tensor& bias, Tensor& y) {
  y.fill(0.0);
  if (bias.defined()) engine.add_bias(stream, bias, y);
}

}  // namespace

void run_forward(ConvEngine& engine, Stream stream, const Conv3dAttributes& a, const Tensor& x,
                 const Tensor& w, const Tensor& bias, Tensor& y, int64_t limit) {
  if (y.numel() == 0) return;
  const StreamScope scope(stream);  // for Tensor's own fills and copies
  if (x.numel() == 0) return fill_with_bias(engine, stream, bias, y);
  const ConvProblem problem = problem_of(a, x.shape(), w.shape(), y.shape());
  const auto pieces = cpu::cut_output(problem, 1, limit);
  check_cut("conv3d", pieces, x.shape(), y.shape(), limit);
  if (whole(pieces)) return engine.forward(stream, a, x, w, bias, y);
  for (const ConvPiece& piece : pieces) {
    Tensor y_part = output_part(y, piece);
    if (piece.empty()) {
      fill_with_bias(engine, stream, bias, y_part);
    } else {
      engine.forward(stream, piece_attributes(a, piece), input_part(x, piece), w, bias, y_part);
    }
  }
}

void run_backward_data(ConvEngine& engine, Stream stream, const Conv3dAttributes& a,
                       const Tensor& dy, const Tensor& w, const Tensor& bias, Tensor& dx,
                       int64_t limit) {
  if (dx.numel() == 0) return;
  const StreamScope scope(stream);
  if (dy.numel() == 0) return fill_with_bias(engine, stream, bias, dx);
  const ConvProblem problem = problem_of(a, dx.shape(), w.shape(), dy.shape());
  const auto pieces = cpu::cut_input(problem, 1, limit);
  check_cut("conv3d (data gradient)", pieces, dx.shape(), dy.shape(), limit);
  for (const ConvPiece& piece : pieces) {
    Tensor dx_part = input_part(dx, piece);
    if (piece.empty()) {
      dx_part.fill(0.0);
    } else {
      engine.backward_data(stream, piece_attributes(a, piece), output_part(dy, piece), w, dx_part);
    }
  }
  if (bias.defined()) engine.add_bias(stream, bias, dx);
}

void run_backward_weights(ConvEngine& engine, Stream stream, const Conv3dAttributes& a,
                          const Tensor& x, const Tensor& dy, GradientMode mode, Tensor& dw,
                          int64_t limit) {
  if (dw.numel() == 0) return;
  const StreamScope scope(stream);
  if (x.numel() == 0 || dy.numel() == 0) {
    if (mode == GradientMode::overwrite) dw.fill(0.0);
    return;
  }
  const ConvProblem problem = problem_of(a, x.shape(), dw.shape(), dy.shape());
  const auto pieces = cpu::cut_output(problem, 1, limit);
  check_cut("conv3d (weight gradient)", pieces, x.shape(), dy.shape(), limit);
  if (whole(pieces)) return engine.backward_weights(stream, a, x, dy, mode, dw);
  // In f32: what a half sum of many pieces would lose is the small ones.
  const bool wide = dw.dtype() == DType::f32;
  Tensor sum = wide ? dw : Tensor::empty(dw.shape(), DType::f32, dw.device());
  bool begun = wide && mode == GradientMode::add;
  if (!wide && mode == GradientMode::add) {
    sum.copy_from(dw);
    begun = true;
  }
  for (const ConvPiece& piece : pieces) {
    if (piece.empty()) continue;
    engine.backward_weights(stream, piece_attributes(a, piece), input_part(x, piece),
                            output_part(dy, piece),
                            begun ? GradientMode::add : GradientMode::overwrite, sum);
    begun = true;
  }
  if (!begun) sum.fill(0.0);
  if (!wide) dw.copy_from(sum);
}

}  // namespace bora::kernels::cudnn
