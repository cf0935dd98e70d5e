// SPDX-License-Identifier: Apache-2.0
#include "data/volume_statistics.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <map>
#include <optional>

#include "core/error.hpp"
#include "data/volume_read.hpp"

namespace bora::data {
namespace {

/// A number that orders as the float does.
uint32_t key_of(float x) {
  const uint32_t bits = std::bit_cast<uint32_t>(x);
  return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}
float value_of(uint32_t key) {
  return std::bit_cast<float>(key & 0x80000000u ? key & 0x7fffffffu : ~key);
}

using Histogram = std::vector<int64_t>;  // of 2^16 halves of keys
constexpr size_t kHalves = 1 << 16;

/// The bin in which the value of rank `rank` lies, and its rank within it.
std::pair<uint32_t, int64_t> bin_of_rank(const Histogram& histogram, int64_t rank,
                                         const std::string& name) {
  for (size_t bin = 0; bin < histogram.size(); ++bin) {
    if (rank < histogram[bin]) return {static_cast<uint32_t>(bin), rank};
    rank -= histogram[bin];
  }
  BORA_FAIL(name, " has changed while its percentiles were looked for; start again");
}

/// One channel of a slab: f(value) for the values that count.
template <class Use>
void each_value(const Tensor& slab, int64_t channel, bool nonzero, Use&& use) {
  const int64_t channels = slab.size(3);
  const float* v = slab.data<float>() + channel;
  for (int64_t i = 0; i < slab.numel() / channels; ++i) {
    const float x = v[i * channels];
    if (!std::isnan(x) && !(nonzero && x == 0)) use(x);
  }
}

/// Count, mean and spread of f(value) in one slab, by two passes.
template <class Map>
Moments moments_of(const Tensor& slab, int64_t channel, bool nonzero, Map&& map) {
  Moments m;
  double sum = 0;
  each_value(slab, channel, nonzero, [&](float x) {
    sum += map(x);
    ++m.n;
  });
  if (m.n == 0) return m;
  m.mean = sum / static_cast<double>(m.n);
  each_value(slab, channel, nonzero, [&](float x) {
    const double d = map(x) - m.mean;
    m.m2 += d * d;
  });
  return m;
}

/// Exact order statistics of a channel in two passes: the high halves of all keys, then the low
/// halves of those that share the wanted high ones.
class Selector {
 public:
  void count_high(float x) { ++high_[key_of(x) >> 16]; }
  void choose(const StatisticsOptions& options, int64_t n) {
    for (size_t p = 0; p < 2; ++p) {
      const double place = options.percentiles[p] / 100 * static_cast<double>(n - 1);
      const auto rank = std::min(static_cast<int64_t>(place), n - 1);
      fraction_[p] = place - static_cast<double>(rank);
      for (size_t k = 0; k < 2; ++k) {
        auto& wanted = wanted_[2 * p + k];
        wanted = bin_of_rank(high_, std::min(rank + static_cast<int64_t>(k), n - 1), options.name);
        low_.try_emplace(wanted.first, kHalves, 0);
      }
    }
  }
  void count_low(float x) {
    const auto it = low_.find(key_of(x) >> 16);
    if (it != low_.end()) ++it->second[key_of(x) & 0xffff];
  }
  double percentile(size_t p, const std::string& name) const {
    double v[2];
    for (size_t k = 0; k < 2; ++k) {
      const auto& [high, rank] = wanted_[2 * p + k];
      const uint32_t low = bin_of_rank(low_.at(high), rank, name).first;
      v[k] = static_cast<double>(value_of(high << 16 | low));
    }
    return v[0] + fraction_[p] * (v[1] - v[0]);
  }

 private:
  Histogram high_ = Histogram(kHalves, 0);
  std::map<uint32_t, Histogram> low_;
  std::array<std::pair<uint32_t, int64_t>, 4> wanted_{};
  std::array<double, 2> fraction_{};
};

}  // namespace

std::vector<ChannelStatistics> volume_statistics(const Box& box, int64_t channels,
                                                 const std::function<Tensor(const Box&)>& read,
                                                 const StatisticsOptions& options,
                                                 int64_t slab_values) {
  BORA_CHECK(channels >= 1 && box.count.count() > 0, "volume statistics: ", channels,
             " channels of ", box.count, " cells, wanted at least one");
  BORA_CHECK(options.percentiles.empty() || options.percentiles.size() == 2,
             "volume statistics: wants two percentiles or none");
  std::optional<Tensor> whole;  // where one slab is all
  const auto each = [&](const auto& use) {
    each_slab(
        box, channels,
        [&](const Box& slab) {
          if (whole) return use(*whole);
          const Tensor values = read(slab);
          if (slab == box) whole = values;
          use(values);
        },
        slab_values);
  };
  const size_t n = static_cast<size_t>(channels);
  const bool selects = !options.percentiles.empty();
  std::vector<ChannelStatistics> out(n);
  std::vector<Selector> selectors(selects ? n : 0);
  std::vector<float> minimum(n, std::numeric_limits<float>::infinity());
  each([&](const Tensor& slab) {
    for (size_t c = 0; c < n; ++c) {
      const auto channel = static_cast<int64_t>(c);
      const auto as_is = [](float x) { return static_cast<double>(x); };
      out[c].moments = out[c].moments.merged(moments_of(slab, channel, options.nonzero, as_is));
      each_value(slab, channel, false, [&](float x) { minimum[c] = std::min(minimum[c], x); });
      if (selects)
        each_value(slab, channel, options.nonzero, [&](float x) { selectors[c].count_high(x); });
    }
  });
  for (size_t c = 0; c < n; ++c)
    if (std::isfinite(minimum[c])) out[c].minimum = static_cast<double>(minimum[c]);
  if (!selects) return out;
  for (size_t c = 0; c < n; ++c)
    if (out[c].moments.n > 0) selectors[c].choose(options, out[c].moments.n);
  each([&](const Tensor& slab) {
    for (size_t c = 0; c < n; ++c)
      each_value(slab, static_cast<int64_t>(c), options.nonzero,
                 [&](float x) { selectors[c].count_low(x); });
  });
  for (size_t c = 0; c < n; ++c)
    if (out[c].moments.n > 0) {
      out[c].low = selectors[c].percentile(0, options.name);
      out[c].high = selectors[c].percentile(1, options.name);
    }
  each([&](const Tensor& slab) {
    for (size_t c = 0; c < n; ++c) {
      const auto clip = [&](float x) {
        return std::clamp(static_cast<double>(x), out[c].low, out[c].high);
      };
      out[c].clipped =
          out[c].clipped.merged(moments_of(slab, static_cast<int64_t>(c), options.nonzero, clip));
    }
  });
  return out;
}

}  // namespace bora::data
