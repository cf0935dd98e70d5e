// SPDX-License-Identifier: Apache-2.0
// Normalisation: statistics over open cells, and the way from m/s to units of sigma and back.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/collective.hpp"
#include "core/state.hpp"
#include "data/dataset.hpp"

namespace bora::data {

/// Count, mean and sum of squared deviations, in f64.
struct Moments {
  int64_t n = 0;
  double mean = 0;
  double m2 = 0;

  /// Two passes over the values with region != 0, in memory order.
  static Moments of(const float* values, const uint8_t* region, int64_t n_cells);
  /// Of both together (Chan, Golub, LeVeque 1979).
  Moments merged(const Moments& other) const;
  double variance() const { return n > 0 ? m2 / static_cast<double>(n) : 0; }
  /// mean and sigma; sigma = 1 where there is nothing to scale: no cells, or a field that is
  /// constant to 1e-6 of its mean (f32 rounding is 6e-8), so that nothing divides by zero or
  /// amplifies noise.
  Scaling scaling() const;
};

/// normalised = (x - mean) / sigma, each element in f64, rounded to f32.  In place.
void normalise(Tensor& values, const Scaling& scaling);
/// x = normalised * sigma + mean, each element by one fma in f64, rounded to f32: within half a
/// unit in the last place (and 2^-29 of one) of the exact value for the stored scaling, also where
/// the two terms cancel.  In place.  There and back: normalise() rounds (x - mean) / sigma to f32,
/// so x returns within 2^-24 (|x| + |x - mean|), and to the bit where |x - mean| < |x| / 2.
void denormalise(Tensor& values, const Scaling& scaling);

enum class NormMode {
  none,        ///< physical units
  global,      ///< one scaling for all cases, from the training split
  per_sample,  ///< each sample by its own open cells; buildings become 0
};
NormMode norm_mode_from(const std::string& text);  ///< throws UsageError with the list
std::string name_of(NormMode mode);

/// How targets are scaled; part of the checkpoint.
class Normaliser {
 public:
  Normaliser() = default;
  explicit Normaliser(NormMode mode) : mode_(mode) {}

  NormMode mode() const { return mode_; }
  /// True once samples can be scaled: always, but for global only after fit() or loading.
  bool is_ready() const { return mode_ != NormMode::global || moments_.n > 0; }
  /// The global scaling (1 and 0 in the other modes).
  Scaling scaling() const { return mode_ == NormMode::global ? moments_.scaling() : Scaling{}; }
  const Moments& moments() const { return moments_; }

  /// Global statistics over the cases `indices`; `moments_of(index)` reads one.  Rank r of W reads
  /// every W-th case; all are merged in the order of `indices`, so every rank, and every number of
  /// ranks, gets the same bits.  A failure on one rank throws on all (Collective::agree).  Does
  /// nothing in the other modes.  Throws Error if there is no open cell at all.
  void fit(const std::vector<int64_t>& indices, const std::function<Moments(int64_t)>& moments_of,
           Collective& ranks);

  /// Scales a sample whose target is in m/s (its region must be set) and notes the scaling in it.
  /// Padding becomes 0; buildings become 0 with per_sample, else they are scaled like the rest.
  void apply(Sample& sample) const;

  /// Mode and moments; a loader refuses another mode.
  void state(StateVisitor& visitor);

 private:
  NormMode mode_ = NormMode::none;
  Moments moments_;
};

}  // namespace bora::data
