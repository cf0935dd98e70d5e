// SPDX-License-Identifier: Apache-2.0
// DistributedSampler: which samples a rank reads in an epoch, as a pure function.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/state.hpp"

namespace bora::data {

/// What happens where the samples do not divide evenly among the ranks.
enum class Tail {
  /// Samples from the epoch's beginning are repeated, marked as padding, until every rank has
  /// equally many: for training in which no sample may be left out.
  pad,
  /// The last incomplete global batch is left out: for training with batches of one size.
  drop,
  /// Nothing is repeated or left out; ranks differ by at most one sample and may have none: for
  /// evaluation.
  uneven
};

/// One sample in an epoch's order.
struct Slot {
  int64_t slot = 0;   ///< place in the epoch's global order; counts on beyond n_samples in padding
  int64_t index = 0;  ///< which sample, in [0, n_samples)
  int64_t epoch = 0;  ///< for random numbers keyed by (seed, epoch, index)
  bool padding = false;  ///< a repeat: give it the weight 0
  int64_t repeat = 0;    ///< how often the index came before in this epoch (drawn by weights):
                         ///< random numbers are keyed by it, too
  friend bool operator==(const Slot&, const Slot&) = default;
};

/// How far an epoch has come: `position` slots of the global order are used, on all ranks together.
struct EpochPosition {
  int64_t epoch = 0;
  int64_t position = 0;
  friend bool operator==(const EpochPosition&, const EpochPosition&) = default;
};

struct SamplerOptions {
  int64_t n_samples = 0;
  int n_ranks = 1;
  int rank = 0;
  uint64_t seed = 0;  ///< any value; 0 is a seed like the others
  bool shuffle = true;
  Tail tail = Tail::pad;
  int64_t batch = 1;  ///< samples a rank takes at once; with Tail::drop its count is a multiple
  /// Empty: each sample once an epoch.  Else one a sample: an epoch is n_samples draws with these
  /// chances, the same sample any number of times.
  std::vector<double> weights{};
};

/// The order of one epoch: a permutation of [0, n) by Fisher-Yates with Philox numbers, a pure
/// function of (n, seed, epoch); 0, 1, ... without shuffling.  The same on every rank and machine.
std::vector<int64_t> epoch_order(int64_t n, uint64_t seed, int64_t epoch, bool shuffle);

/// The order of an epoch of n draws from n samples with replacement, sample i with the chance
/// weights[i] / sum, by one Philox number each: a pure function of (weights, seed, epoch).  The
/// same on every rank and machine.  Throws UsageError for a weight that is negative or not finite,
/// and where all are 0.
std::vector<int64_t> weighted_order(const std::vector<double>& weights, uint64_t seed,
                                    int64_t epoch);

/// Weights with which each group has the same chance, whatever number of samples it has; within a
/// group samples have chances as their `weights` (empty: alike).  A group whose weights are all 0
/// is never drawn.
std::vector<double> geometry_weights(const std::vector<std::string>& groups,
                                     const std::vector<double>& weights = {});

/// A value without state of its own: the epoch is an argument of every question, so it cannot be
/// forgotten.  The order does not know the number of ranks; from position p on, rank r of W takes
/// the slots p + t W + r, t = 0, 1, ...  So W ranks with batch b use in step t the same samples as
/// one rank with batch W b, and work that was stopped at position p goes on with any number of
/// ranks, each remaining sample used once.
class DistributedSampler {
 public:
  /// Throws UsageError if an option is out of range, or not one weight a sample.
  explicit DistributedSampler(SamplerOptions options);

  const SamplerOptions& options() const { return options_; }

  /// How many slots this rank gets from `position` on.  With Tail::pad and Tail::drop the same on
  /// every rank.
  int64_t count(int64_t position = 0) const;
  /// This rank's slots from `from` on.  Throws Error if from.epoch < 0 or from.position is outside
  /// [0, n_samples].
  std::vector<Slot> slots(EpochPosition from) const;
  /// Where all ranks together are after each has used `n` more slots; at the end of an epoch (not
  /// even one more slot for this tail rule) the beginning of the next.
  EpochPosition advance(EpochPosition from, int64_t n) const;
  /// Throws UsageError if an epoch gives this rank nothing to train on: no samples at all, or fewer
  /// than one global batch with Tail::drop.  Every rank comes to the same answer.  Not for
  /// Tail::uneven, where a rank may well have none.
  void require_samples() const;

  /// Saves what the order depends on, and `position`.  A loader checks that the samples' number,
  /// the seed, the shuffling and the weights (a checksum of them) are the saved ones, and throws
  /// Error otherwise: the position would mean something else.  The number of ranks may differ.
  void state(StateVisitor& visitor, EpochPosition& position) const;

 private:
  std::vector<int64_t> order(int64_t epoch) const;

  SamplerOptions options_;
};

}  // namespace bora::data
