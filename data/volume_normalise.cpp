// SPDX-License-Identifier: Apache-2.0
#include "data/volume_normalise.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/error.hpp"

namespace bora::data {
namespace {

constexpr std::pair<const char*, VolumeNorm> kModes[] = {{"none", VolumeNorm::none},
                                                         {"global", VolumeNorm::global},
                                                         {"zscore", VolumeNorm::zscore},
                                                         {"percentile", VolumeNorm::percentile},
                                                         {"fixed", VolumeNorm::fixed}};

VolumeNorm mode_of(const std::string& text) {
  for (const auto& [name, mode] : kModes)
    if (text == name) return mode;
  throw UsageError("volumes.normalisation is '" + text +
                   "', wanted none, global, zscore, percentile or fixed");
}

}  // namespace

float ChannelScaling::apply(float x) const {
  return static_cast<float>((std::clamp(static_cast<double>(x), low, high) - shift) / scale);
}

VolumeNormaliser::VolumeNormaliser(const VolumesConfig& config)
    : name_(config.normalisation), mode_(mode_of(name_)), cells_(config.normalise_cells) {}

void VolumeNormaliser::fit(const std::vector<int64_t>& indices, int64_t channels,
                           const std::function<std::vector<Moments>(int64_t)>& moments_of,
                           Collective& ranks) {
  if (mode_ != VolumeNorm::global) return;
  BORA_CHECK(channels >= 1, "normalisation: ", channels, " channels, wanted at least one");
  const size_t n_cases = indices.size(), n_channels = static_cast<size_t>(channels);
  // One row (n, mean, m2) a case and channel; zero on the ranks that do not read it, so the sum is
  // a copy.
  std::vector<double> rows(3 * n_channels * n_cases, 0.0);
  ranks.agree("statistics of the training cases", [&] {
    for (size_t i = static_cast<size_t>(ranks.rank()); i < n_cases;
         i += static_cast<size_t>(ranks.size())) {
      const std::vector<Moments> found = moments_of(indices[i]);
      BORA_CHECK(found.size() == n_channels, "normalisation: ", found.size(),
                 " channels of a case, wanted ", n_channels);
      for (size_t c = 0; c < n_channels; ++c) {
        const size_t at = 3 * (i * n_channels + c);
        rows[at] = static_cast<double>(found[c].n);  // exact below 2^53 cells
        rows[at + 1] = found[c].mean;
        rows[at + 2] = found[c].m2;
      }
    }
  });
  rows = ranks.all_reduce(std::move(rows), ReduceOp::sum, "statistics of the training cases");
  std::vector<Moments> all(n_channels);
  for (size_t i = 0; i < n_cases; ++i)
    for (size_t c = 0; c < n_channels; ++c) {
      const size_t at = 3 * (i * n_channels + c);
      all[c] = all[c].merged({static_cast<int64_t>(rows[at]), rows[at + 1], rows[at + 2]});
    }
  for (size_t c = 0; c < n_channels; ++c) {
    BORA_CHECK(all[c].n > 0, "normalisation: channel ", c, " has no cell to count in ", n_cases,
               " training cases (volumes.normalise_cells = ", cells_, ")");
    BORA_CHECK(std::isfinite(all[c].mean) && std::isfinite(all[c].m2), "normalisation: channel ", c,
               " of the training cases has mean ", all[c].mean, " and variance ",
               all[c].variance());
  }
  moments_ = std::move(all);
}

void VolumeNormaliser::state(StateVisitor& visitor) {
  const StateVisitor::Group group(visitor, "normalisation");
  std::string mode = name_;
  visitor.value("mode", mode);
  BORA_CHECK(mode == name_, "normalisation: the checkpoint was made with '", mode,
             "', the configuration says '", name_, "'");
  std::vector<int64_t> n;
  std::vector<double> mean, m2;
  for (const Moments& m : moments_) {
    n.push_back(m.n);
    mean.push_back(m.mean);
    m2.push_back(m.m2);
  }
  visitor.value("n", n);
  visitor.value("mean", mean);
  visitor.value("m2", m2);
  if (!visitor.loading()) return;
  BORA_CHECK(n.size() == mean.size() && n.size() == m2.size(), "normalisation: the checkpoint has ",
             n.size(), " counts, ", mean.size(), " means and ", m2.size(), " spreads");
  moments_.clear();
  for (size_t c = 0; c < n.size(); ++c) moments_.push_back({n[c], mean[c], m2[c]});
}

}  // namespace bora::data
