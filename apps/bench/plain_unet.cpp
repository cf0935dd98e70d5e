// SPDX-License-Identifier: Apache-2.0
#include "apps/bench/plain_unet.hpp"

#include <string>

#include "core/error.hpp"
#include "nn/ops.hpp"

namespace bora::bench {
namespace {

nn::Conv3d conv3(int64_t in, int64_t out) {
  return {in, out, Dims3::all(3), nn::Bias::yes, nn::Conv3dOptions{.padding = Dims3::all(1)}};
}

}  // namespace

PlainBlock::PlainBlock(int64_t in, int64_t out)
    : conv1_(conv3(in, out)),
      conv2_(conv3(out, out)),
      norm1_(nn::NormKind::group, out),
      norm2_(nn::NormKind::group, out) {}

Tensor PlainBlock::forward(const Tensor& x) {
  const nn::NormFusion relu{.activation = nn::Activation::relu};
  return norm2_.forward(conv2_.forward(norm1_.forward(conv1_.forward(x), relu)), relu);
}

void PlainBlock::visit(nn::Visitor& v) {
  v.child("conv1", conv1_);
  v.child("norm1", norm1_);
  v.child("conv2", conv2_);
  v.child("norm2", norm2_);
}

PlainUnet::PlainUnet(int64_t in_channels, int64_t out_channels, int64_t base)
    : in_channels_(in_channels),
      head_(nn::Conv3d::linear_gain(base, out_channels, Dims3::all(1), nn::Bias::yes)) {
  int64_t channels = in_channels;
  for (int level = 0; level < kLevels; ++level) {
    const int64_t width = base << level;
    encoder_.push_back(std::make_unique<PlainBlock>(channels, width));
    channels = width;
    if (level + 1 == kLevels) break;
    up_.push_back(conv3(2 * width, width));
    decoder_.push_back(std::make_unique<PlainBlock>(2 * width, width));
  }
}

Tensor PlainUnet::forward(const Tensor& x) {
  BORA_CHECK(x.rank() == 5 && x.size(4) == in_channels_, "PlainUnet: wants (N, D, H, W, ",
             in_channels_, "), got ", x.shape());
  const int64_t least = int64_t{1} << (kLevels - 1);
  for (int axis = 1; axis <= 3; ++axis)
    BORA_CHECK(x.size(axis) >= least, "PlainUnet: input ", x.shape(),
               ": each extent must be at least ", least);
  std::vector<Tensor> skips;
  Tensor h = encoder_.front()->forward(x);
  for (size_t level = 1; level < encoder_.size(); ++level) {
    skips.push_back(h);
    h = encoder_[level]->forward(nn::max_pool3d(h));
  }
  for (size_t level = skips.size(); level-- > 0;) {
    Tensor& skip = skips[level];
    h = up_[level].forward(nn::upsample_trilinear(h, {skip.size(1), skip.size(2), skip.size(3)}));
    h = nn::concat({skip, h});
    skip = Tensor();
    h = decoder_[level]->forward(h);
  }
  return head_.forward(h);
}

void PlainUnet::visit(nn::Visitor& v) {
  for (size_t l = 0; l < encoder_.size(); ++l) v.child("encoder" + std::to_string(l), *encoder_[l]);
  for (size_t l = decoder_.size(); l-- > 0;) {
    v.child("up" + std::to_string(l), up_[l]);
    v.child("decoder" + std::to_string(l), *decoder_[l]);
  }
  v.child("head", head_);
}

}  // namespace bora::bench
