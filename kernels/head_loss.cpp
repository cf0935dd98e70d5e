// SPDX-License-Identifier: Apache-2.0
// Checks, the choice of kernel, and the composition of convolution and loss.
#include "kernels/head_loss.hpp"

#include "core/portable.hpp"
#include "kernels/conv3d.hpp"
#include "kernels/cuda/head_loss.hpp"
#include "kernels/loss_checks.hpp"

namespace bora::kernels {
namespace {

Shape output_shape(const HeadInput& in) { return in.x.shape().with(-1, in.w.size(0)); }

void check_head(const char* op, Stream stream, const HeadInput& in) {
  BORA_CHECK(in.x.defined() && in.x.rank() == 5 && is_float(in.x.dtype()), op, ": x is ",
             in.x.shape(), " ", in.x.dtype(), ", wanted (N, D, H, W, I) of a floating type");
  BORA_CHECK(in.w.defined() && in.w.rank() == 5 && in.w.size(0) >= 1 &&
                 in.w.shape() == Shape({in.w.size(0), 1, 1, 1, in.x.size(4)}) &&
                 in.w.dtype() == in.x.dtype(),
             op, ": w is ", in.w.shape(), " ", in.w.dtype(), ", wanted (O, 1, 1, 1, ", in.x.size(4),
             ") ", in.x.dtype());
  BORA_CHECK(!in.bias.defined() ||
                 (in.bias.shape() == Shape({in.w.size(0)}) && in.bias.dtype() == in.x.dtype()),
             op, ": bias is ", in.bias.shape(), " ", in.bias.dtype(), ", wanted (", in.w.size(0),
             ") ", in.x.dtype());
  for (const Tensor* t : {&in.x, &in.w, &in.bias})
    BORA_CHECK(!t->defined() || t->device() == stream.device, op, ": a tensor is on ", t->device(),
               ", the stream belongs to ", stream.device);
}

void check_cells(const char* op, const HeadInput& in, const Tensor& cells, const char* name) {
  check_loss_cells(op, in.x, cells, name);
}

void check_target(const char* op, const HeadInput& in, const Tensor& target, const Tensor& region) {
  BORA_CHECK(target.defined() && target.device() == in.x.device(), op, ": target is ",
             target.shape(), ", wanted on ", in.x.device());
  check_loss_tensor(op, target, output_shape(in), loss_type(in.x.dtype()), "target");
  if (region.defined()) check_cells(op, in, region, "region");
}

void check_classes(const char* op, const HeadInput& in, const Tensor& labels,
                   const Tensor& region) {
  BORA_CHECK(labels.defined(), op, ": labels are undefined");
  check_cells(op, in, labels, "labels");
  if (region.defined()) check_cells(op, in, region, "region");
}

void check_gradients(const char* op, const HeadInput& in, const Tensor& dloss,
                     const HeadGradients& out) {
  check_loss_tensor(op, dloss, {}, loss_type(in.x.dtype()), "dloss");
  if (out.dx.defined()) check_loss_tensor(op, out.dx, in.x.shape(), in.x.dtype(), "dx");
  const auto check = [&](const Tensor& t, const Shape& wanted, const char* name) {
    if (!t.defined()) return;
    const bool wide = t.dtype() == DType::f32 && in.x.dtype() != DType::f64;
    check_loss_tensor(op, t, wanted, wide ? DType::f32 : in.x.dtype(), name);
  };
  check(out.dw, in.w.shape(), "dw");
  check(out.db, {in.w.size(0)}, "db");
}

/// Whether kernels/cuda/head_loss.hpp takes it.
bool in_one_kernel([[maybe_unused]] const HeadInput& in) {
  bool applies = false;
  if (in.x.device().type == DeviceType::cuda) BORA_IF_CUDA(applies = cuda::head_loss_applies(in));
  return applies;
}

Tensor widened(const Tensor& t) {
  if (!t.defined()) return t;
  const DType type = loss_type(t.dtype());
  return t.dtype() == type ? t.detach() : t.detach().to(type);
}

/// The head on its own, in acc_t.
struct Composed {
  Stream stream;
  Tensor x, w, bias, outputs;

  Composed(Stream on, const HeadInput& in)
      : stream(on), x(widened(in.x)), w(widened(in.w)), bias(widened(in.bias)) {
    outputs = Tensor::empty(output_shape(in), x.dtype(), x.device());
    conv3d_forward(stream, {}, x, w, bias, outputs);
  }
  Tensor like(const Tensor& t) const { return Tensor::empty(t.shape(), t.dtype(), t.device()); }

  /// compute(mode, buffer) of acc_t, for a gradient that may be narrower.
  template <class Compute>
  void into(Tensor& out, GradientMode mode, const Compute& compute) const {
    if (!out.defined()) return;
    if (out.dtype() == x.dtype()) return compute(mode, out);
    Tensor wide = Tensor::empty(out.shape(), x.dtype(), out.device());
    if (mode == GradientMode::add) wide.copy_from(out);
    compute(mode, wide);
    out.copy_from(wide);
  }
  void backward(const Tensor& doutputs, HeadGradients& out) const {
    into(out.dx, GradientMode::overwrite, [&](GradientMode, Tensor& dx) {
      conv3d_backward_data(stream, {}, doutputs, w, Tensor(), dx);
    });
    into(out.dw, out.dw_mode, [&](GradientMode mode, Tensor& dw) {
      conv3d_backward_weights(stream, {}, x, doutputs, mode, dw);
    });
    into(out.db, out.db_mode,
         [&](GradientMode mode, Tensor& db) { channel_sum(stream, doutputs, mode, db); });
  }
};

}  // namespace

void head_data_loss_sums(Stream stream, const DataLossAttributes& attributes, const HeadInput& in,
                         const Tensor& target, const Tensor& region, Tensor& sums) {
  constexpr const char* kOp = "head_data_loss_sums";
  check_head(kOp, stream, in);
  check_target(kOp, in, target, region);
  check_loss_tensor(kOp, sums, {in.x.size(0), 2}, DType::f64, "sums");
  if (in_one_kernel(in))
    BORA_IF_CUDA(return cuda::head_data_loss_sums(stream, attributes, in, target, region, sums));
  const Composed head(stream, in);
  data_loss_sums(stream, attributes, head.outputs, target, region, sums);
}

void head_data_loss_backward(Stream stream, const DataLossAttributes& attributes,
                             const HeadInput& in, const Tensor& target, const Tensor& region,
                             const Tensor& sums, const Tensor& dloss, HeadGradients& out) {
  constexpr const char* kOp = "head_data_loss_backward";
  check_head(kOp, stream, in);
  check_target(kOp, in, target, region);
  check_loss_tensor(kOp, sums, {in.x.size(0), 2}, DType::f64, "sums");
  check_gradients(kOp, in, dloss, out);
  if (in_one_kernel(in))
    BORA_IF_CUDA(return cuda::head_data_loss_backward(stream, attributes, in, target, region, sums,
                                                      dloss, out));
  const Composed head(stream, in);
  Tensor doutputs = head.like(head.outputs);
  data_loss_backward(stream, attributes, head.outputs, target, region, sums, dloss, doutputs);
  head.backward(doutputs, out);
}

void head_class_loss_sums(Stream stream, const HeadInput& in, const Tensor& labels,
                          const Tensor& region, Tensor& sums) {
  constexpr const char* kOp = "head_class_loss_sums";
  check_head(kOp, stream, in);
  check_classes(kOp, in, labels, region);
  check_loss_tensor(kOp, sums, {in.x.size(0), in.w.size(0), 5}, DType::f64, "sums");
  if (in_one_kernel(in))
    BORA_IF_CUDA(return cuda::head_class_loss_sums(stream, in, labels, region, sums));
  const Composed head(stream, in);
  Tensor normaliser = Tensor::empty(labels.shape().append(2), head.outputs.dtype(), in.x.device());
  class_loss_sums(stream, head.outputs, {labels, region}, normaliser, sums);
}

void head_class_loss_backward(Stream stream, const ClassLossAttributes& attributes,
                              const HeadInput& in, const Tensor& labels, const Tensor& region,
                              const Tensor& sums, const Tensor& dloss, HeadGradients& out) {
  constexpr const char* kOp = "head_class_loss_backward";
  check_head(kOp, stream, in);
  check_classes(kOp, in, labels, region);
  check_loss_tensor(kOp, sums, {in.x.size(0), in.w.size(0), 5}, DType::f64, "sums");
  check_gradients(kOp, in, dloss, out);
  first_scored_class(kOp, attributes, in.w.size(0));
  if (in_one_kernel(in))
    BORA_IF_CUDA(return cuda::head_class_loss_backward(stream, attributes, in, labels, region, sums,
                                                       dloss, out));
  const Composed head(stream, in);
  Tensor normaliser = Tensor::empty(labels.shape().append(2), head.outputs.dtype(), in.x.device());
  Tensor again = head.like(sums);  // the same numbers; wanted is the normaliser
  class_loss_sums(stream, head.outputs, {labels, region}, normaliser, again);
  Tensor doutputs = head.like(head.outputs);
  class_loss_backward(stream, attributes, head.outputs, {labels, region}, normaliser, sums, dloss,
                      doutputs);
  head.backward(doutputs, out);
}

}  // namespace bora::kernels
