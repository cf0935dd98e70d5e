// SPDX-License-Identifier: Apache-2.0
#include "apps/gpucheck/networks.hpp"

#include "apps/bench/plain_unet.hpp"
#include "apps/unet3d/model.hpp"
#include "core/error.hpp"
#include "core/precision.hpp"
#include "core/rng.hpp"
#include "nn/ops.hpp"

namespace bora::gpucheck {
namespace {

constexpr int64_t kClasses = 3;

int64_t width(int level, int64_t base) { return level >= 4 ? 10 * base : base << level; }

nn::Conv3d conv3(int64_t in, int64_t out, int64_t stride) {
  return {in, out, Dims3::all(3), nn::Bias::no,
          nn::Conv3dOptions{.stride = Dims3::all(stride), .padding = Dims3::all(1)}};
}

Tensor noise(const Shape& shape, const char* purpose) {
  Tensor t = Tensor::empty(shape, DType::f32);
  fill_uniform(RngKey{2026, rng_stream(purpose)}, 0, -1, 1,
               {t.data<float>(), static_cast<size_t>(t.numel())});
  return t;
}

/// A label for each cell: by the sign of smooth waves, so that there is something to learn.
Tensor labels(const Shape& cells) {
  std::vector<uint8_t> v(static_cast<size_t>(cells.numel()));
  const RngKey key{2026, rng_stream("gpucheck.labels")};
  for (size_t i = 0; i < v.size(); ++i) v[i] = static_cast<uint8_t>(key.below(kClasses, i));
  return Tensor::from<uint8_t>(cells, v);
}

/// What a small network can learn of x: half of each cell and half of the product of two
/// neighbours. (Noise would be learnt by heart in the end, and how fast that goes depends on the
/// last bits: after 200 updates f16 was 9 % from f32 on a CPU, with this 0.3 %.)
Tensor learnable_target(const Tensor& x) {
  const std::vector<float> in = x.to_vector<float>();
  const auto h = static_cast<size_t>(x.size(2)), w = static_cast<size_t>(x.size(3));
  std::vector<float> out(in.size());
  for (size_t i = 0; i < in.size(); ++i) {
    const float right = i % w + 1 < w ? in[i + 1] : 0.0f, before = i / w % h > 0 ? in[i - w] : 0.0f;
    out[i] = 0.5f * in[i] + 0.5f * right * before;
  }
  return Tensor::from<float>(x.shape(), out);
}

}  // namespace

/// (conv 3x3x3 -> instance norm -> ReLU) twice.
struct MlperfUnet::Block final : nn::Module {
  nn::Conv3d conv1, conv2;
  nn::Norm norm1, norm2;
  Block(int64_t in, int64_t out, int64_t stride)
      : conv1(conv3(in, out, stride)),
        conv2(conv3(out, out, 1)),
        norm1(nn::NormKind::instance, out),
        norm2(nn::NormKind::instance, out) {}
  Tensor forward(const Tensor& x) {
    const nn::NormFusion relu{.activation = nn::Activation::relu};
    return norm2.forward(conv2.forward(norm1.forward(conv1.forward(x), relu)), relu);
  }
  void visit(nn::Visitor& v) override {
    v.child("conv1", conv1);
    v.child("norm1", norm1);
    v.child("conv2", conv2);
    v.child("norm2", norm2);
  }
};

MlperfUnet::MlperfUnet(int64_t in_channels, int64_t out_channels, int64_t base)
    : in_channels_(in_channels),
      head_(nn::Conv3d::linear_gain(base, out_channels, Dims3::all(1), nn::Bias::yes)) {
  int64_t channels = in_channels;
  for (int level = 0; level < kLevels; ++level) {
    const int64_t w = width(level, base);
    encoder_.push_back(std::make_unique<Block>(channels, w, level == 0 ? 1 : 2));
    channels = w;
    if (level + 1 == kLevels) break;
    up_.emplace_back(width(level + 1, base), w, Dims3::all(2), nn::Bias::yes,
                     nn::Conv3dOptions{.stride = Dims3::all(2)});
    decoder_.push_back(std::make_unique<Block>(2 * w, w, 1));
  }
}

Tensor MlperfUnet::features(const Tensor& x) {
  BORA_CHECK(x.rank() == 5 && x.size(4) == in_channels_, "MlperfUnet: wants (N, D, H, W, ",
             in_channels_, "), got ", x.shape());
  for (int axis = 1; axis <= 3; ++axis)
    BORA_CHECK(x.size(axis) > 0 && x.size(axis) % (int64_t{1} << (kLevels - 1)) == 0,
               "MlperfUnet: input ", x.shape(), ": each extent must be a multiple of ",
               int64_t{1} << (kLevels - 1));
  const auto run = [](const std::unique_ptr<nn::Module>& block, const Tensor& h) {
    return static_cast<Block&>(*block).forward(h);
  };
  std::vector<Tensor> skips;
  Tensor h = x;
  for (const auto& block : encoder_) {
    h = run(block, h);
    skips.push_back(h);
  }
  skips.pop_back();
  for (size_t level = skips.size(); level-- > 0;) {
    h = nn::concat({skips[level], up_[level].forward(h)});
    skips[level] = Tensor();
    h = run(decoder_[level], h);
  }
  return h;
}

void MlperfUnet::visit(nn::Visitor& v) {
  for (size_t l = 0; l < encoder_.size(); ++l) v.child("encoder" + std::to_string(l), *encoder_[l]);
  for (size_t l = decoder_.size(); l-- > 0;) {
    v.child("up" + std::to_string(l), up_[l]);
    v.child("decoder" + std::to_string(l), *decoder_[l]);
  }
  v.child("head", head_);
}

Problem make_problem(const std::string& name, int64_t base, int64_t batch, int64_t extent) {
  BORA_CHECK(base > 0 && batch > 0 && extent > 0, "make_problem: base ", base, ", batch ", batch,
             ", extent ", extent, ", wanted positive numbers");
  Problem p;
  p.text = detail::join(name, ' ', batch, 'x', extent, 'x', extent, 'x', extent);
  const Shape shape{batch, extent, extent, extent, 1};
  p.input = noise(shape, "gpucheck.input");
  if (name == "mlperf") {
    auto net = std::make_unique<MlperfUnet>(1, kClasses, base);
    p.forward = [n = net.get()](const Tensor& x) { return n->forward(x); };
    p.loss = [n = net.get()](const Tensor& x, const Tensor& t) {
      return nn::head_dice_cross_entropy(n->features(x), n->head().weight(), n->head().bias(), t,
                                         Tensor());
    };
    p.network = std::move(net);
    p.target = labels({batch, extent, extent, extent});
    return p;
  }
  p.target = noise(shape, "gpucheck.target");
  if (name == "wind") {
    unet3d::ModelConfig config;
    config.base = base;
    auto net = std::make_unique<unet3d::UNet3d>(1, 1, config);
    p.forward = [n = net.get()](const Tensor& x) { return n->forward(x); };
    p.loss = [n = net.get()](const Tensor& x, const Tensor& t) {
      // The trainer's default loss; its own function would also read the parts back: a wait.
      const Tensor y = autocast(Precision::full, n->forward(x));
      return nn::add(nn::data_loss(y, t, Tensor(), nn::DataLoss::charbonnier),
                     nn::scale(nn::gradient_loss(y, t, Tensor(), nn::GradientLoss::plain), 0.1));
    };
    p.network = std::move(net);
  } else if (name == "plain") {
    auto net = std::make_unique<bench::PlainUnet>(1, 1, base);
    p.forward = [n = net.get()](const Tensor& x) { return n->forward(x); };
    p.target = learnable_target(p.input);
    p.loss = [n = net.get()](const Tensor& x, const Tensor& t) {
      return nn::data_loss(n->forward(x), t, Tensor(), nn::DataLoss::mse);
    };
    p.network = std::move(net);
  } else {
    throw UsageError("network '" + name + "': wanted mlperf, wind or plain");
  }
  return p;
}

}  // namespace bora::gpucheck
