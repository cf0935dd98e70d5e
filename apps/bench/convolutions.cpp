// SPDX-License-Identifier: Apache-2.0
#include "apps/bench/convolutions.hpp"

#include <algorithm>

#include "apps/bench/plain_unet.hpp"
#include "core/profile.hpp"
#include "kernels/conv3d.hpp"
#include "kernels/cpu/conv3d.hpp"

namespace bora::bench {
namespace {

class List {
 public:
  List(const StepConfig& config) : config_(config) {}

  void add(int level, int64_t in, int64_t out, int64_t kernel, bool bias, bool first = false) {
    // Pooling rounds down; the decoder returns to the extents of the skip.
    Dims3 e = config_.size;
    for (int i = 0; i < level; ++i) e = {e.d / 2, e.h / 2, e.w / 2};
    const Convolution c{.x = {config_.batch, e.d, e.h, e.w, in},
                        .out = out,
                        .kernel = kernel,
                        .bias = bias,
                        .data_gradient = !first};
    const auto same = std::find_if(list_.begin(), list_.end(), [&](const Convolution& o) {
      return o.x == c.x && o.out == out && o.kernel == kernel && o.bias == bias &&
             o.data_gradient == c.data_gradient;
    });
    if (same == list_.end())
      list_.push_back(c);
    else
      ++same->count;
  }
  std::vector<Convolution> take() { return std::move(list_); }

 private:
  const StepConfig& config_;
  std::vector<Convolution> list_;
};

std::vector<Convolution> of_plain(const StepConfig& config) {
  List list(config);
  const int64_t b = config.model.base;
  int64_t in = 1;
  for (int level = 0; level < PlainUnet::kLevels; ++level) {
    const int64_t width = b << level;
    list.add(level, in, width, 3, true, level == 0);
    list.add(level, width, width, 3, true);
    in = width;
  }
  for (int level = PlainUnet::kLevels - 2; level >= 0; --level) {
    const int64_t width = b << level;
    list.add(level, 2 * width, width, 3, true);  // behind the upsampling
    list.add(level, 2 * width, width, 3, true);  // behind the concat
    list.add(level, width, width, 3, true);
  }
  list.add(0, b, 1, 1, true);
  return list.take();
}

std::vector<Convolution> of_unet3d(const StepConfig& config) {
  if (config.model.up != "trilinear")
    throw UsageError("--convs wants model.up=trilinear, not " + config.model.up);
  List list(config);
  const int64_t b = config.model.base;
  const auto block = [&](int level, int64_t in, int64_t out, bool first) {
    list.add(level, in, out, 3, false, first);
    list.add(level, out, out, 3, false);
    if (in != out) list.add(level, in, out, 1, false, first);
  };
  const int levels = static_cast<int>(config.model.levels);
  int64_t in = 1;
  for (int level = 0; level <= levels; ++level) {
    block(level, in, b << level, level == 0);
    in = b << level;
  }
  for (int level = levels - 1; level >= 0; --level) {
    list.add(level + 1, b << (level + 1), b << level, 1, true);  // in front of the upsampling
    block(level, b << (level + 1), b << level, false);
  }
  list.add(0, b, 1, 1, true);
  return list.take();
}

/// All convolutions by oneDNN while it lives.
class OnednnOnly {
 public:
  OnednnOnly() { kernels::cpu::set_conv_engine(kernels::cpu::ConvEngine::onednn); }
  ~OnednnOnly() { kernels::cpu::set_conv_engine(std::nullopt); }
  OnednnOnly(const OnednnOnly&) = delete;
  OnednnOnly& operator=(const OnednnOnly&) = delete;
};

template <class Pass>
double least_s(int rounds, Pass&& pass) {
  pass();
  double best = 1e30;
  for (int i = 0; i < rounds; ++i) {
    const double begin = now_s();
    pass();
    best = std::min(best, now_s() - begin);
  }
  return best;
}

}  // namespace

std::string Convolution::text() const {
  return detail::join(x[0], "x", x[1], "x", x[2], "x", x[3], "x", x[4], " -> ", out, " k", kernel);
}

double Convolution::flops() const {
  return 2.0 * static_cast<double>(x.numel()) * static_cast<double>(out * kernel * kernel * kernel);
}

std::vector<Convolution> convolutions_of(const StepConfig& config) {
  return config.network == "plain" ? of_plain(config) : of_unet3d(config);
}

double total_flops(const std::vector<Convolution>& convolutions) {
  double sum = 0;
  for (const Convolution& c : convolutions)
    sum += c.flops() * c.n_passes() * static_cast<double>(c.count);
  return sum;
}

ConvolutionTime time_convolution(const Convolution& c, DType type, int rounds) {
  BORA_CHECK(rounds > 0, "time_convolution: ", rounds, " rounds, wanted at least 1");
  const OnednnOnly engine;
  const kernels::Conv3dAttributes a{.padding = Dims3::all(c.kernel / 2)};
  const Shape ys = c.x.with(4, c.out), ws{c.out, c.kernel, c.kernel, c.kernel, c.x[4]};
  const Tensor x = Tensor::full(c.x, 0.5, type), dy = Tensor::full(ys, 0.25, type),
               w = Tensor::full(ws, 0.125, type),
               bias = c.bias ? Tensor::zeros({c.out}, type) : Tensor();
  Tensor y = Tensor::empty(ys, type), dx = Tensor::empty(c.x, type),
         dw = Tensor::empty(ws, DType::f32);
  const Stream stream = x.stream();
  ConvolutionTime time;
  time.forward_s = least_s(rounds, [&] { kernels::conv3d_forward(stream, a, x, w, bias, y); });
  if (c.data_gradient)
    time.data_s =
        least_s(rounds, [&] { kernels::conv3d_backward_data(stream, a, dy, w, Tensor(), dx); });
  time.weights_s = least_s(rounds, [&] {
    kernels::conv3d_backward_weights(stream, a, x, dy, kernels::GradientMode::overwrite, dw);
  });
  return time;
}

}  // namespace bora::bench
