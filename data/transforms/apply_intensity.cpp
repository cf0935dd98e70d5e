// SPDX-License-Identifier: Apache-2.0
// apply_intensity: which changes of intensity a sample gets, and in which order.
#include <algorithm>
#include <cmath>
#include <optional>
#include <string_view>

#include "core/error.hpp"
#include "data/transforms/axis_filter.hpp"
#include "data/transforms/intensity.hpp"
#include "data/transforms/purpose_key.hpp"
#include "data/transforms/transforms.hpp"

namespace bora::data {
namespace {

/// Whether a sample gets one of the changes, and how strong it is in a channel.
class Draw {
 public:
  Draw(const RngKey& key, std::string_view purpose, const std::vector<double>& range, double share)
      : key_(purpose_key(key, purpose)),
        range_(range),
        is_drawn_(!range.empty() && happens(key_, 0, share)) {}

  bool is_drawn() const { return is_drawn_; }
  /// Numbers 0 to 3 are the sample's, four more each channel's.
  double strength(int64_t channel) const {
    return uniform(key_, number(channel, 0), range_[0], range_[1]);
  }
  /// nnU-Net's: an exponent below 1 as often as one above, where the range has both.
  double exponent(int64_t channel) const {
    const double low = range_[0], high = range_[1];
    if (low >= 1 || high <= 1) return strength(channel);
    const bool below = happens(key_, number(channel, 1), 0.5);
    return below ? uniform(key_, number(channel, 0), low, 1)
                 : uniform(key_, number(channel, 0), 1, high);
  }
  uint64_t axis() const { return key_.below(3, 1); }
  RngKey of_channel(int64_t channel) const {
    return {key_.seed,
            rng_stream("transform.channel", key_.stream, static_cast<uint64_t>(channel))};
  }

 private:
  static uint64_t number(int64_t channel, uint64_t i) {
    return 4 * (static_cast<uint64_t>(channel) + 1) + i;
  }

  RngKey key_;
  const std::vector<double>& range_;
  bool is_drawn_;
};

/// Channel c of input (X, Y, Z, C).
Tensor channel_of(const Tensor& input, int64_t c) {
  Tensor out = Tensor::empty({input.size(0), input.size(1), input.size(2)}, DType::f32);
  const int64_t channels = input.size(3);
  const float* from = input.data<float>() + c;
  float* to = out.data<float>();
  for (int64_t i = 0; i < out.numel(); ++i) to[i] = from[i * channels];
  return out;
}

/// Writes counted cells; padding keeps its value.
void put_channel(const Plane& plane, int64_t c, Tensor& input) {
  const int64_t channels = input.size(3);
  const float* from = plane.values.data<float>();
  const uint8_t* counted = plane.counted.defined() ? plane.counted.data<uint8_t>() : nullptr;
  float* to = input.data<float>() + c;
  for (int64_t i = 0; i < plane.values.numel(); ++i)
    if (counted == nullptr || counted[i] != 0) to[i * channels] = from[i];
}

}  // namespace

void apply_intensity(Sample& sample, const TransformConfig& config, const RngKey& key) {
  BORA_CHECK(
      sample.input.defined() && sample.input.rank() == 4 && sample.input.dtype() == DType::f32,
      "apply_intensity: input ", sample.input.shape(), " ", sample.input.dtype(),
      ", wanted (X, Y, Z, C) f32");
  const Draw noise(key, "noise", config.noise, config.noise_probability);
  const Draw blur(key, "blur", config.blur, config.blur_probability);
  const Draw brightness(key, "brightness", config.brightness, config.brightness_probability);
  const Draw contrast(key, "contrast", config.contrast, config.contrast_probability);
  const Draw low(key, "low_resolution", config.low_resolution, config.low_resolution_probability);
  const Draw inverted(key, "gamma_inverted", config.gamma, config.gamma_inverted_probability);
  const Draw gamma(key, "gamma", config.gamma, config.gamma_probability);
  const Draw* all[] = {&noise, &blur, &brightness, &contrast, &low, &inverted, &gamma};
  if (sample.input.numel() == 0 ||
      std::none_of(std::begin(all), std::end(all), [](const Draw* d) { return d->is_drawn(); }))
    return;

  const GammaMoments moments =
      config.gamma_keeps_moments ? GammaMoments::kept : GammaMoments::as_they_come;
  std::array<bool, 3> along{true, true, true};
  if (config.low_resolution_axes == "one") {
    along = {};
    along[low.axis()] = true;
  }
  if (!sample.input.exclusive()) sample.input = sample.input.clone();
  for (int64_t c = 0; c < sample.input.size(3); ++c) {
    Plane plane{channel_of(sample.input, c), sample.valid};
    if (noise.is_drawn()) add_noise(plane, noise.strength(c), noise.of_channel(c));
    if (blur.is_drawn() && blur.strength(c) > 0)
      plane.values = gaussian_blur(plane.values, blur.strength(c));
    if (brightness.is_drawn()) add_brightness(plane, brightness.strength(c));
    if (contrast.is_drawn()) change_contrast(plane, contrast.strength(c));
    if (low.is_drawn()) plane.values = low_resolution(plane.values, low.strength(c), along);
    if (inverted.is_drawn())
      change_gamma(plane, inverted.exponent(c), GammaOf::inverted_image, moments);
    if (gamma.is_drawn()) change_gamma(plane, gamma.exponent(c), GammaOf::image, moments);
    put_channel(plane, c, sample.input);
  }
}

}  // namespace bora::data
