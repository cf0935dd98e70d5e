// SPDX-License-Identifier: Apache-2.0
#include "apps/gpucheck/layers.hpp"

#include "core/error.hpp"

namespace bora::gpucheck {
namespace {

class List {
 public:
  List(int64_t batch, int64_t extent) : batch_(batch), extent_(extent) {}

  /// At the given level (0 is the finest), whose extent is that of x.
  void add(int level, int64_t in, int64_t out, int64_t kernel, int64_t stride = 1,
           bool transposed = false) {
    const int64_t e = extent_ >> level;
    Layer l;
    l.attributes.stride = Dims3::all(stride);
    l.attributes.padding = Dims3::all(kernel == 3 ? 1 : 0);
    l.x = {batch_, e, e, e, in};
    l.w = {out, kernel, kernel, kernel, in};
    l.y = kernels::conv3d_output_shape("layers_of", l.attributes, l.x, l.w);
    l.transposed = transposed;
    l.data_gradient = !layers_.empty();
    l.text = detail::join(batch_, 'x', e, 'x', e, 'x', e, 'x', in, " -> ", out, " k", kernel, " s",
                          stride, transposed ? " (transposed)" : "");
    for (Layer& other : layers_)
      if (other.text == l.text && other.data_gradient == l.data_gradient) {
        ++other.count;
        return;
      }
    layers_.push_back(l);
  }
  std::vector<Layer> take() { return std::move(layers_); }

 private:
  int64_t batch_, extent_;
  std::vector<Layer> layers_;
};

std::vector<Layer> mlperf_layers(int64_t base, int64_t batch, int64_t extent) {
  const int64_t w[] = {base, 2 * base, 4 * base, 8 * base, 10 * base, 10 * base};
  List list(batch, extent);
  list.add(0, 1, w[0], 3);
  list.add(0, w[0], w[0], 3);
  for (int l = 1; l < 6; ++l) {
    list.add(l - 1, w[l - 1], w[l], 3, 2);
    list.add(l, w[l], w[l], 3);
  }
  for (int l = 4; l >= 0; --l) {
    list.add(l, w[l], w[l + 1], 2, 2, true);
    list.add(l, 2 * w[l], w[l], 3);
    list.add(l, w[l], w[l], 3);
  }
  list.add(0, w[0], 3, 1);
  return list.take();
}

std::vector<Layer> wind_layers(int64_t base, int64_t batch, int64_t extent) {
  constexpr int kLevels = 4;
  List list(batch, extent);
  const auto block = [&](int level, int64_t in, int64_t out) {
    list.add(level, in, out, 3);
    list.add(level, out, out, 3);
    if (in != out) list.add(level, in, out, 1);
  };
  for (int l = 0; l <= kLevels; ++l) block(l, l == 0 ? 1 : base << (l - 1), base << l);
  for (int l = kLevels - 1; l >= 0; --l) {
    list.add(l + 1, base << (l + 1), base << l, 1);  // before the interpolation
    block(l, base << (l + 1), base << l);
  }
  list.add(0, base, 1, 1);
  return list.take();
}

}  // namespace

std::vector<Layer> layers_of(const std::string& network, int64_t base, int64_t batch,
                             int64_t extent) {
  if (network == "mlperf") return mlperf_layers(base, batch, extent);
  if (network == "wind") return wind_layers(base, batch, extent);
  throw UsageError("layers of '" + network + "': wanted mlperf or wind");
}

}  // namespace bora::gpucheck
