// SPDX-License-Identifier: Apache-2.0
// What a graph means.  Source: the definitions of the operators, onnx.ai/onnx/operators, set 21.
#include <algorithm>
#include <cmath>
#include <functional>
#include <stdexcept>

#include "tests/apps/onnx_file.hpp"

namespace bora::test {
namespace {

using Ints = std::vector<int64_t>;

OnnxArray zeros(Ints shape) {
  OnnxArray a;
  a.shape = std::move(shape);
  a.values.assign(static_cast<size_t>(a.numel()), 0.0);
  return a;
}

Ints integers(const OnnxArray& a) { return {a.values.begin(), a.values.end()}; }

/// An element of an (N, C, X, Y, Z) array.
template <class Array>
auto& at(Array& a, int64_t n, int64_t c, int64_t x, int64_t y, int64_t z) {
  const Ints& s = a.shape;
  return a.values[static_cast<size_t>((((n * s[1] + c) * s[2] + x) * s[3] + y) * s[4] + z)];
}

void for_each(const Ints& s,
              const std::function<void(int64_t, int64_t, int64_t, int64_t, int64_t)>& f) {
  for (int64_t n = 0; n < s[0]; ++n)
    for (int64_t c = 0; c < s[1]; ++c)
      for (int64_t x = 0; x < s[2]; ++x)
        for (int64_t y = 0; y < s[3]; ++y)
          for (int64_t z = 0; z < s[4]; ++z) f(n, c, x, y, z);
}

/// f over two arrays whose extents, aligned at the end, are equal or 1.
OnnxArray broadcast(const OnnxArray& a, const OnnxArray& b,
                    const std::function<double(double, double)>& f) {
  const size_t rank = std::max(a.shape.size(), b.shape.size());
  const auto extent = [rank](const OnnxArray& m, size_t axis) {
    const size_t missing = rank - m.shape.size();
    return axis < missing ? int64_t{1} : m.shape[axis - missing];
  };
  Ints shape;
  for (size_t axis = 0; axis < rank; ++axis) {
    const int64_t p = extent(a, axis), q = extent(b, axis);
    if (p != q && p != 1 && q != 1) throw std::runtime_error("onnx: shapes do not broadcast");
    shape.push_back(std::max(p, q));
  }
  OnnxArray out = zeros(shape);
  for (int64_t i = 0; i < out.numel(); ++i) {
    int64_t rest = i, stride_a = 1, stride_b = 1, in_a = 0, in_b = 0;
    for (size_t axis = rank; axis-- > 0;) {
      const int64_t k = rest % shape[axis];
      rest /= shape[axis];
      if (extent(a, axis) > 1) in_a += k * stride_a;
      if (extent(b, axis) > 1) in_b += k * stride_b;
      stride_a *= extent(a, axis);
      stride_b *= extent(b, axis);
    }
    out.values[static_cast<size_t>(i)] =
        f(a.values[static_cast<size_t>(in_a)], b.values[static_cast<size_t>(in_b)]);
  }
  return out;
}

OnnxArray conv(const OnnxArray& x, const OnnxArray& w, const OnnxArray* bias, const Ints& pads) {
  Ints shape{x.shape[0], w.shape[0]};
  for (size_t axis = 0; axis < 3; ++axis)
    shape.push_back(x.shape[axis + 2] + pads[axis] + pads[axis + 3] - w.shape[axis + 2] + 1);
  OnnxArray y = zeros(shape);
  for_each(shape, [&](int64_t n, int64_t o, int64_t px, int64_t py, int64_t pz) {
    double sum = bias ? bias->values[static_cast<size_t>(o)] : 0.0;
    for_each({1, w.shape[1], w.shape[2], w.shape[3], w.shape[4]},
             [&](int64_t, int64_t c, int64_t kx, int64_t ky, int64_t kz) {
               const int64_t a = px + kx - pads[0], b = py + ky - pads[1], d = pz + kz - pads[2];
               if (a >= 0 && a < x.shape[2] && b >= 0 && b < x.shape[3] && d >= 0 && d < x.shape[4])
                 sum += at(x, n, c, a, b, d) * at(w, o, c, kx, ky, kz);
             });
    at(y, n, o, px, py, pz) = sum;
  });
  return y;
}

OnnxArray conv_transpose(const OnnxArray& x, const OnnxArray& w, const OnnxArray& bias,
                         const Ints& stride) {
  Ints shape{x.shape[0], w.shape[1]};
  for (size_t axis = 0; axis < 3; ++axis)
    shape.push_back((x.shape[axis + 2] - 1) * stride[axis] + w.shape[axis + 2]);
  OnnxArray y = zeros(shape);
  for_each(shape, [&](int64_t n, int64_t o, int64_t px, int64_t py, int64_t pz) {
    at(y, n, o, px, py, pz) = bias.values[static_cast<size_t>(o)];
  });
  for_each(x.shape, [&](int64_t n, int64_t c, int64_t px, int64_t py, int64_t pz) {
    for_each({1, w.shape[1], w.shape[2], w.shape[3], w.shape[4]},
             [&](int64_t, int64_t o, int64_t kx, int64_t ky, int64_t kz) {
               at(y, n, o, px * stride[0] + kx, py * stride[1] + ky, pz * stride[2] + kz) +=
                   at(x, n, c, px, py, pz) * at(w, c, o, kx, ky, kz);
             });
  });
  return y;
}

OnnxArray max_pool(const OnnxArray& x, const Ints& k, const Ints& stride) {
  Ints shape{x.shape[0], x.shape[1]};
  for (size_t axis = 0; axis < 3; ++axis)
    shape.push_back((x.shape[axis + 2] - k[axis]) / stride[axis] + 1);
  OnnxArray y = zeros(shape);
  for_each(shape, [&](int64_t n, int64_t c, int64_t px, int64_t py, int64_t pz) {
    double best = -HUGE_VAL;
    for_each({1, 1, k[0], k[1], k[2]}, [&](int64_t, int64_t, int64_t kx, int64_t ky, int64_t kz) {
      best = std::max(best,
                      at(x, n, c, px * stride[0] + kx, py * stride[1] + ky, pz * stride[2] + kz));
    });
    at(y, n, c, px, py, pz) = best;
  });
  return y;
}

/// linear, half_pixel, over axes 2, 3, 4: one axis after the other.
OnnxArray resize(OnnxArray x, const Ints& sizes) {
  for (size_t axis = 0; axis < 3; ++axis) {
    Ints shape = x.shape;
    shape[axis + 2] = sizes[axis];
    OnnxArray y = zeros(shape);
    const int64_t in = x.shape[axis + 2];
    for_each(shape, [&](int64_t n, int64_t c, int64_t px, int64_t py, int64_t pz) {
      int64_t p[3] = {px, py, pz};
      const double scale = static_cast<double>(sizes[axis]) / static_cast<double>(in);
      const double place = (static_cast<double>(p[axis]) + 0.5) / scale - 0.5;
      const auto low = static_cast<int64_t>(std::floor(place));
      const double share = place - static_cast<double>(low);
      double sum = 0;
      for (int64_t k = 0; k < 2; ++k) {
        p[axis] = std::clamp(low + k, int64_t{0}, in - 1);
        sum += (k ? share : 1 - share) * at(x, n, c, p[0], p[1], p[2]);
      }
      at(y, n, c, px, py, pz) = sum;
    });
    x = std::move(y);
  }
  return x;
}

/// Sums of f(element) along one axis, kept as an extent of 1.
OnnxArray reduce(const OnnxArray& x, const Ints& axes, const std::function<double(double)>& f) {
  if (axes.size() != 1) throw std::runtime_error("onnx: a reduction over several axes");
  const auto axis = static_cast<size_t>(axes[0]);
  Ints shape = x.shape;
  shape[axis] = 1;
  OnnxArray y = zeros(shape);
  for_each(x.shape, [&](int64_t n, int64_t c, int64_t px, int64_t py, int64_t pz) {
    Ints p{n, c, px, py, pz};
    p[axis] = 0;
    at(y, p[0], p[1], p[2], p[3], p[4]) += f(at(x, n, c, px, py, pz));
  });
  return y;
}

OnnxArray slice(const OnnxArray& x, const Ints& starts, const Ints& ends, const Ints& axes) {
  Ints begin(5, 0), shape = x.shape;
  for (size_t i = 0; i < axes.size(); ++i) {
    const auto axis = static_cast<size_t>(axes[i]);
    begin[axis] = starts[i];
    shape[axis] = std::min(ends[i], x.shape[axis]) - starts[i];
  }
  OnnxArray y = zeros(shape);
  for_each(shape, [&](int64_t n, int64_t c, int64_t px, int64_t py, int64_t pz) {
    at(y, n, c, px, py, pz) =
        at(x, n + begin[0], c + begin[1], px + begin[2], py + begin[3], pz + begin[4]);
  });
  return y;
}

OnnxArray pad(const OnnxArray& x, const Ints& pads) {
  Ints shape = x.shape;
  for (size_t axis = 0; axis < 5; ++axis) shape[axis] += pads[axis] + pads[axis + 5];
  OnnxArray y = zeros(shape);
  for_each(x.shape, [&](int64_t n, int64_t c, int64_t px, int64_t py, int64_t pz) {
    at(y, n + pads[0], c + pads[1], px + pads[2], py + pads[3], pz + pads[4]) =
        at(x, n, c, px, py, pz);
  });
  return y;
}

OnnxArray concat_channels(const OnnxArray& a, const OnnxArray& b) {
  OnnxArray y = pad(a, {0, 0, 0, 0, 0, 0, b.shape[1], 0, 0, 0});
  for_each(b.shape, [&](int64_t n, int64_t c, int64_t px, int64_t py, int64_t pz) {
    at(y, n, a.shape[1] + c, px, py, pz) = at(b, n, c, px, py, pz);
  });
  return y;
}

OnnxArray reshaped(OnnxArray x, Ints shape) {
  int64_t known = 1;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] == 0) shape[i] = x.shape[i];
    if (shape[i] > 0) known *= shape[i];
  }
  for (int64_t& extent : shape)
    if (extent < 0) extent = x.numel() / known;
  x.shape = shape;
  return x;
}

OnnxArray of_integers(const Ints& values) {
  OnnxArray a;
  a.shape = {static_cast<int64_t>(values.size())};
  a.values.assign(values.begin(), values.end());
  return a;
}

}  // namespace

OnnxArray OnnxFile::run(const OnnxArray& input) const {
  std::map<std::string, OnnxArray> values = weights;
  values[inputs.at(0).name] = input;
  for (const OnnxNode& node : nodes) {
    const auto in = [&](size_t i) -> const OnnxArray& { return values.at(node.inputs.at(i)); };
    const auto ints = [&](size_t i) { return integers(in(i)); };
    const auto list = [&](const char* key) { return node.attributes.at(key).ints; };
    const double eps = node.attributes.contains("epsilon")
                           ? static_cast<double>(node.attributes.at("epsilon").f)
                           : 0.0;
    OnnxArray y;
    if (node.op == "Conv") {
      y = conv(in(0), in(1), node.inputs.size() > 2 ? &in(2) : nullptr, list("pads"));
    } else if (node.op == "ConvTranspose") {
      y = conv_transpose(in(0), in(1), in(2), list("strides"));
    } else if (node.op == "MaxPool") {
      y = max_pool(in(0), list("kernel_shape"), list("strides"));
    } else if (node.op == "Resize") {
      if (node.attributes.at("mode").s != "linear" || list("axes") != Ints{2, 3, 4} ||
          node.attributes.at("coordinate_transformation_mode").s != "half_pixel" ||
          !node.inputs.at(1).empty() || !node.inputs.at(2).empty())
        throw std::runtime_error("onnx: another Resize");
      y = resize(in(0), ints(3));
    } else if (node.op == "ReduceMean") {
      const auto n = static_cast<double>(in(0).shape.at(static_cast<size_t>(ints(1).at(0))));
      y = reduce(in(0), ints(1), [n](double v) { return v / n; });
    } else if (node.op == "ReduceSumSquare") {
      y = reduce(in(0), ints(1), [](double v) { return v * v; });
    } else if (node.op == "Cast" && node.attributes.at("to").i == 1) {
      y = in(0);
    } else if (node.op == "Expand") {
      y = in(1);
      y.shape = ints(1);
      y.values.assign(static_cast<size_t>(y.numel()), 1.0);
      y = broadcast(in(0), y, [](double a, double b) { return a * b; });
    } else if (node.op == "Sqrt") {
      y = in(0);
      for (double& v : y.values) v = std::sqrt(v);
    } else if (node.op == "Sub") {
      y = broadcast(in(0), in(1), [](double a, double b) { return a - b; });
    } else if (node.op == "Div") {
      y = broadcast(in(0), in(1), [](double a, double b) { return a / b; });
    } else if (node.op == "BatchNormalization") {
      y = in(0);
      for_each(y.shape, [&](int64_t n, int64_t c, int64_t px, int64_t py, int64_t pz) {
        const auto k = static_cast<size_t>(c);
        double& v = at(y, n, c, px, py, pz);
        v = (v - in(3).values[k]) / std::sqrt(in(4).values[k] + eps) * in(1).values[k] +
            in(2).values[k];
      });
    } else if (node.op == "Sigmoid") {
      y = in(0);
      for (double& v : y.values) v = 1 / (1 + std::exp(-v));
    } else if (node.op == "Mul") {
      y = broadcast(in(0), in(1), [](double a, double b) { return a * b; });
    } else if (node.op == "Add") {
      y = broadcast(in(0), in(1), [](double a, double b) { return a + b; });
    } else if (node.op == "Less") {
      y = broadcast(in(0), in(1), [](double a, double b) { return a < b ? 1.0 : 0.0; });
    } else if (node.op == "Where") {
      const OnnxArray kept =
          broadcast(in(0), in(2), [](double c, double b) { return c != 0 ? 0 : b; });
      y = broadcast(broadcast(in(0), in(1), [](double c, double a) { return c != 0 ? a : 0; }),
                    kept, [](double a, double b) { return a + b; });
    } else if (node.op == "Concat" && node.attributes.at("axis").i == 1) {
      y = concat_channels(in(0), in(1));
    } else if (node.op == "Shape") {
      Ints shape = in(0).shape;
      if (node.attributes.contains("start"))
        shape = {shape.begin() + node.attributes.at("start").i,
                 shape.begin() + node.attributes.at("end").i};
      y = of_integers(shape);
    } else if (node.op == "Slice") {
      y = slice(in(0), ints(1), ints(2), ints(3));
    } else if (node.op == "Pad") {
      y = pad(in(0), ints(1));
    } else if (node.op == "Reshape") {
      y = reshaped(in(0), ints(1));
    } else if (node.op == "Unsqueeze") {
      if (ints(1) != Ints{1, 2, 3}) throw std::runtime_error("onnx: another Unsqueeze");
      y = reshaped(in(0), {-1, 1, 1, 1});
    } else {
      throw std::runtime_error("onnx: operator " + node.op);
    }
    values[node.outputs.at(0)] = y;
  }
  return values.at(outputs.at(0).name);
}

}  // namespace bora::test
