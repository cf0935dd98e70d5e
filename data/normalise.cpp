// SPDX-License-Identifier: Apache-2.0
#include "data/normalise.hpp"

#include <cmath>

#include "core/error.hpp"

namespace bora::data {

Moments Moments::of(const float* values, const uint8_t* region, int64_t n_cells) {
  Moments m;
  double sum = 0;
  for (int64_t i = 0; i < n_cells; ++i)
    if (region[i] != 0) {
      sum += static_cast<double>(values[i]);
      ++m.n;
    }
  if (m.n == 0) return m;
  m.mean = sum / static_cast<double>(m.n);
  for (int64_t i = 0; i < n_cells; ++i)
    if (region[i] != 0) {
      const double d = static_cast<double>(values[i]) - m.mean;
      m.m2 += d * d;
    }
  return m;
}

Moments Moments::merged(const Moments& other) const {
  if (n == 0) return other;
  if (other.n == 0) return *this;
  Moments out;
  out.n = n + other.n;
  const double share = static_cast<double>(other.n) / static_cast<double>(out.n);
  const double delta = other.mean - mean;
  out.mean = mean + delta * share;
  out.m2 = m2 + other.m2 + delta * delta * static_cast<double>(n) * share;
  return out;
}

Scaling Moments::scaling() const {
  const double sigma = std::sqrt(variance());
  const bool flat = n == 0 || !(sigma > 1e-6 * std::abs(mean));
  return {mean, flat ? 1.0 : sigma};
}

void normalise(Tensor& values, const Scaling& scaling) {
  BORA_CHECK(scaling.sigma > 0, "normalise: sigma ", scaling.sigma, ", wanted above 0");
  float* v = values.data<float>();
  for (int64_t i = 0; i < values.numel(); ++i)
    v[i] = static_cast<float>((static_cast<double>(v[i]) - scaling.mean) / scaling.sigma);
}

void denormalise(Tensor& values, const Scaling& scaling) {
  BORA_CHECK(scaling.sigma > 0, "denormalise: sigma ", scaling.sigma, ", wanted above 0");
  float* v = values.data<float>();
  for (int64_t i = 0; i < values.numel(); ++i)
    v[i] = static_cast<float>(std::fma(static_cast<double>(v[i]), scaling.sigma, scaling.mean));
}

NormMode norm_mode_from(const std::string& text) {
  for (NormMode mode : {NormMode::none, NormMode::global, NormMode::per_sample})
    if (name_of(mode) == text) return mode;
  throw UsageError("normalisation '" + text + "', wanted global, per_sample or none");
}

std::string name_of(NormMode mode) {
  switch (mode) {
    case NormMode::none:
      return "none";
    case NormMode::global:
      return "global";
    case NormMode::per_sample:
      return "per_sample";
  }
  return "?";
}

void Normaliser::fit(const std::vector<int64_t>& indices,
                     const std::function<Moments(int64_t)>& moments_of, Collective& ranks) {
  if (mode_ != NormMode::global) return;
  const int64_t n_cases = static_cast<int64_t>(indices.size());
  // One row (n, mean, m2) a case; zero on the ranks that do not read it, so the sum is a copy.
  std::vector<double> rows(static_cast<size_t>(3 * n_cases), 0.0);
  ranks.agree("statistics of the training cases", [&] {
    for (int64_t i = ranks.rank(); i < n_cases; i += ranks.size()) {
      const Moments m = moments_of(indices[static_cast<size_t>(i)]);
      const size_t at = static_cast<size_t>(3 * i);
      rows[at] = static_cast<double>(m.n);  // exact below 2^53 cells
      rows[at + 1] = m.mean;
      rows[at + 2] = m.m2;
    }
  });
  rows = ranks.all_reduce(std::move(rows), ReduceOp::sum, "statistics of the training cases");
  Moments all;
  for (size_t at = 0; at < rows.size(); at += 3)
    all = all.merged({static_cast<int64_t>(rows[at]), rows[at + 1], rows[at + 2]});
  BORA_CHECK(all.n > 0, "normalisation: no open cell in ", n_cases, " training cases");
  BORA_CHECK(std::isfinite(all.mean) && std::isfinite(all.m2),
             "normalisation: the training cases have mean ", all.mean, " and variance ",
             all.variance());
  moments_ = all;
}

void Normaliser::apply(Sample& sample) const {
  BORA_CHECK(is_ready(),
             "normalisation: global statistics are asked for before they were fitted or "
             "loaded (case '",
             sample.name, "')");
  const int64_t n = sample.target.numel();
  BORA_CHECK(sample.region.numel() == n && sample.valid.numel() == n, "normalisation: target ",
             sample.target.shape(), " and region ", sample.region.shape(), " of case '",
             sample.name, "' do not have the same cells");
  float* v = sample.target.data<float>();
  const uint8_t* region = sample.region.data<uint8_t>();
  const uint8_t* valid = sample.valid.data<uint8_t>();
  sample.scaling = mode_ == NormMode::per_sample ? Moments::of(v, region, n).scaling() : scaling();
  normalise(sample.target, sample.scaling);
  const uint8_t* kept = mode_ == NormMode::per_sample ? region : valid;
  for (int64_t i = 0; i < n; ++i)
    if (kept[i] == 0) v[i] = 0.0f;
}

void Normaliser::state(StateVisitor& visitor) {
  const StateVisitor::Group group(visitor, "normalisation");
  std::string mode = name_of(mode_);
  visitor.value("mode", mode);
  BORA_CHECK(mode == name_of(mode_), "normalisation: the checkpoint was made with '", mode,
             "', the configuration says '", name_of(mode_), "'");
  visitor.value("n", moments_.n);
  visitor.value("mean", moments_.mean);
  visitor.value("m2", moments_.m2);
}

}  // namespace bora::data
