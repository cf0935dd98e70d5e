// SPDX-License-Identifier: Apache-2.0
#include "kernels/cudnn/graph.hpp"

namespace bora::kernels::cudnn {
namespace {

cudnnDataType_t data_type(DType type) {
  switch (type) {
    case DType::f16:
      return CUDNN_DATA_HALF;
    case DType::bf16:
      return CUDNN_DATA_BFLOAT16;
    default:
      return CUDNN_DATA_FLOAT;
  }
}

enum class Storage { memory, registers };

/// Axes in cuDNN's order, (N, C, D, H, W) or (O, I/groups, kD, kH, kW), with the strides of a dense
/// array whose last axis is the second.
Descriptor tensor(int64_t id, const std::vector<int64_t>& extents, cudnnDataType_t type,
                  int64_t alignment, Storage storage = Storage::memory) {
  std::vector<int64_t> strides(5);
  int64_t stride = 1;
  for (const size_t axis : {1, 4, 3, 2, 0}) {
    strides[axis] = stride;
    stride *= extents[axis];
  }
  Descriptor t(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  t.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, id)
      .set(CUDNN_ATTR_TENSOR_DATA_TYPE, type)
      .set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, alignment)
      .set_all(CUDNN_ATTR_TENSOR_DIMENSIONS, extents)
      .set_all(CUDNN_ATTR_TENSOR_STRIDES, strides);
  if (storage == Storage::registers) t.set(CUDNN_ATTR_TENSOR_IS_VIRTUAL, true);
  t.finalize();
  return t;
}

std::vector<int64_t> list(const std::array<int64_t, 3>& v) { return {v[0], v[1], v[2]}; }

Descriptor convolution(const ConvProblem& p) {
  Descriptor d(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
  d.set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, int64_t{3})
      .set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_DATA_FLOAT)
      .set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_CROSS_CORRELATION)
      .set_all(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, list(p.pad_left))
      .set_all(
          CUDNN_ATTR_CONVOLUTION_POST_PADDINGS,
          std::vector<int64_t>{padding_behind(p, 0), padding_behind(p, 1), padding_behind(p, 2)})
      .set_all(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, list(p.stride))
      .set_all(CUDNN_ATTR_CONVOLUTION_DILATIONS, list(p.dilation));
  d.finalize();
  return d;
}

/// The names of one pass's attributes.
struct PassNames {
  cudnnBackendDescriptorType_t operation;
  cudnnBackendAttributeName_t convolution, x, w, y, alpha, beta;
};

PassNames names_of(ConvPass pass) {
  switch (pass) {
    case ConvPass::backward_data:
      return {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA};
    case ConvPass::backward_weights:
      return {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA};
    case ConvPass::forward:
      break;
  }
  return {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
          CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
          CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
          CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
          CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
          CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
          CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA};
}

Descriptor addition() {
  Descriptor d(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
  d.set(CUDNN_ATTR_POINTWISE_MODE, CUDNN_POINTWISE_ADD)
      .set(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_DATA_FLOAT);
  d.finalize();
  return d;
}

}  // namespace

ConvGraph build_graph(const ConvKey& key) {
  const ConvProblem& p = key.problem;
  BORA_CHECK(!key.bias || key.pass == ConvPass::forward, "build_graph: ", name_of(key.pass),
             " has no bias");
  const cudnnDataType_t type = data_type(key.dtype());
  const std::vector<int64_t> y_extents{p.n, p.c_out, p.out[0], p.out[1], p.out[2]};
  ConvGraph g;
  g.parts.reserve(9);  // none moves: references to them are held below
  const auto keep = [&g](Descriptor d) -> const Descriptor& {
    g.parts.push_back(std::move(d));
    return g.parts.back();
  };
  const Descriptor& x =
      keep(tensor(kIdX, {p.n, p.c_in, p.in[0], p.in[1], p.in[2]}, type, key.alignment));
  const Descriptor& w =
      keep(tensor(kIdW, {p.c_out, p.c_in / p.groups, p.kernel[0], p.kernel[1], p.kernel[2]}, type,
                  key.alignment));
  const Descriptor& y = keep(tensor(kIdY, y_extents, type, key.alignment));
  constexpr int64_t kIdSum = 5;
  const Descriptor& sum =
      key.bias ? keep(tensor(kIdSum, y_extents, CUDNN_DATA_FLOAT, 16, Storage::registers)) : y;

  const PassNames names = names_of(key.pass);
  Descriptor operation(names.operation);
  operation.set(names.convolution, keep(convolution(p)))
      .set(names.x, x)
      .set(names.w, w)
      .set(names.y, sum)
      .set(names.alpha, 1.0f)
      .set(names.beta, key.add ? 1.0f : 0.0f);
  operation.finalize();
  std::vector<const Descriptor*> operations{&keep(std::move(operation))};
  if (key.bias) {
    const Descriptor& bias = keep(tensor(kIdBias, {1, p.c_out, 1, 1, 1}, type, key.alignment));
    Descriptor add(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
    add.set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, keep(addition()))
        .set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, sum)
        .set(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, bias)
        .set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y);
    add.finalize();
    operations.push_back(&keep(std::move(add)));
  }
  g.graph = Descriptor(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  g.graph.set_all(CUDNN_ATTR_OPERATIONGRAPH_OPS, operations);
  g.graph.finalize();
  return g;
}

}  // namespace bora::kernels::cudnn
