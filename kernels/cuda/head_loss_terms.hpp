// SPDX-License-Identifier: Apache-2.0
// The losses of head_loss.cu: what a thread of a cell's group does with the cell's outputs.  The
// formulas are those of kernels/loss_terms.hpp.
//
// A loss has Sums and add, store (forward), Slopes and prepare, gradient (backward); all are called
// by whole warps.
#pragma once

#include "kernels/cuda/head_lanes.hpp"
#include "kernels/loss_terms.hpp"

namespace bora::kernels::cuda {

#if defined(BORA_DEVICE_CODE)

/// A thread's outputs: of every G in a row the one of its number, so that the threads of a group
/// share the work on a cell's outputs; in the sums only the first G count.  G is K, or 1 where a
/// group is smaller than K.
template <int K, int G>
struct OwnOutputs {
  static constexpr int kOwn = K / G;
  int lane, n_out;

  __device__ bool counts() const { return lane < G; }
  __device__ int output(int own) const { return own * G + (lane & (G - 1)); }
  __device__ bool there(int own) const { return output(own) < n_out; }
  template <class A>
  __device__ A value(const A (&all)[K], int own) const {
    if constexpr (G == 1) return all[own];
    A v = all[0];
    BORA_UNROLL
    for (int k = 1; k < K; ++k) v = output(own) == k ? all[k] : v;
    return v;
  }
  /// The sum over the G threads that share the outputs, for all of them.
  template <class A>
  __device__ A sum(A v) const {
    return sum_group(v, G);
  }
  /// Everybody's own as all[K].
  template <class A>
  __device__ void spread(const A (&own)[kOwn], A (&all)[K]) const {
    BORA_UNROLL
    for (int k = 0; k < K; ++k) {
      if constexpr (G == 1) {
        all[k] = own[k];
      } else {
        all[k] = __shfl_sync(0xffffffffu, own[0], k, G);
      }
    }
  }
};

/// data_loss.
template <class A>
struct DataTerms {
  LossOfError loss;
  const A* target;
  const uint8_t* region;
  const double* sums;
  const A* dloss;
  int64_t samples;

  static constexpr int kNumbers = 2;  // of a slab, shared by all outputs
  static int numbers(int) { return kNumbers; }

  __device__ bool counts(int64_t cell, bool there) const {
    return there && (!region || region[cell] != 0);
  }

  template <class Own>
  struct Sums {
    double sum = 0.0, count = 0.0;
  };
  template <class Own, int K>
  __device__ void add(const Own& own, Sums<Own>& s, const A (&outputs)[K], int64_t cell,
                      bool there) const {
    if (!counts(cell, there) || !own.counts()) return;
    BORA_UNROLL
    for (int i = 0; i < Own::kOwn; ++i)
      if (own.there(i))
        s.sum += static_cast<double>(
            loss.value(own.value(outputs, i) - target[cell * own.n_out + own.output(i)]));
    if (own.lane == 0) s.count += own.n_out;
  }
  template <class Own>
  __device__ void store(const Own&, const Sums<Own>& s, int group, double* shared,
                        double* out) const {
    double v[kNumbers] = {sum_group(s.sum, group), s.count};
    sum_rows(v, shared);
    if (threadIdx.x != 0 || threadIdx.y != 0) return;
    out[0] = v[0];
    out[1] = v[1];
  }

  template <class Own>
  struct Slopes {
    A factor;
  };
  template <class Own>
  __device__ Slopes<Own> prepare(const Own&, int sample) const {
    return {data_loss_factor(sums + 2 * sample, samples, *dloss)};
  }
  template <class Own, int K>
  __device__ void gradient(const Own& own, const Slopes<Own>& s, const A (&outputs)[K],
                           int64_t cell, bool there, A (&g)[Own::kOwn]) const {
    const bool in = counts(cell, there);
    BORA_UNROLL
    for (int i = 0; i < Own::kOwn; ++i)
      g[i] = in && own.there(i) ? s.factor * loss.slope(own.value(outputs, i) -
                                                        target[cell * own.n_out + own.output(i)])
                                : A(0);
  }
};

/// class_loss.
template <class A>
struct ClassTerms {
  ClassWeights weights;
  const uint8_t* labels;
  const uint8_t* region;
  const double* sums;
  const A* dloss;
  int64_t samples;

  static int numbers(int n_out) { return n_out * kClassSums; }

  __device__ bool counts(int64_t cell, bool there) const {
    return there && (!region || region[cell] != 0);
  }
  /// log p of the thread's own outputs.  The whole warp calls it.
  template <class Own, int K>
  __device__ void log_probabilities(const Own& own, const A (&outputs)[K],
                                    A (&out)[Own::kOwn]) const {
    A largest = outputs[0];
    BORA_UNROLL
    for (int k = 1; k < K; ++k)
      if (k < own.n_out) largest = outputs[k] > largest ? outputs[k] : largest;
    A total(0);
    BORA_UNROLL
    for (int i = 0; i < Own::kOwn; ++i)
      if (own.there(i)) total += ::exp(own.value(outputs, i) - largest);
    const A log_total = ::log(own.sum(total));
    BORA_UNROLL
    for (int i = 0; i < Own::kOwn; ++i)
      out[i] = class_log_probability(own.value(outputs, i), largest, log_total);
  }

  template <class Own>
  struct Sums {
    double both[Own::kOwn] = {}, p[Own::kOwn] = {}, surprise[Own::kOwn] = {};
    int32_t labelled[Own::kOwn] = {}, cells = 0;  // a thread's share of a slab is far below 2^31
  };
  template <class Own, int K>
  __device__ void add(const Own& own, Sums<Own>& s, const A (&outputs)[K], int64_t cell,
                      bool there) const {
    A log_p[Own::kOwn];
    log_probabilities(own, outputs, log_p);
    if (!counts(cell, there) || !own.counts()) return;
    const int label = labels[cell];
    s.cells += 1;
    BORA_UNROLL
    for (int i = 0; i < Own::kOwn; ++i) {
      if (!own.there(i)) continue;
      const auto p = static_cast<double>(::exp(log_p[i]));
      s.p[i] += p;
      if (own.output(i) != label) continue;
      s.both[i] += p;
      s.labelled[i] += 1;
      s.surprise[i] -= static_cast<double>(log_p[i]);
    }
  }
  template <class Own>
  __device__ void store(const Own& own, const Sums<Own>& s, int, double* shared,
                        double* out) const {
    BORA_UNROLL
    for (int i = 0; i < Own::kOwn; ++i) {
      double v[kClassSums];
      v[kIntersection] = s.both[i];
      v[kProbability] = s.p[i];
      v[kLabels] = s.labelled[i];
      v[kSurprise] = s.surprise[i];
      v[kCells] = s.cells;
      sum_rows(v, shared);
      if (threadIdx.y != 0 || !own.counts() || !own.there(i)) continue;
      BORA_UNROLL
      for (int j = 0; j < kClassSums; ++j) out[own.output(i) * kClassSums + j] = v[j];
    }
  }

  template <class Own>
  struct Slopes {
    A scale, ce, plain[Own::kOwn], labelled[Own::kOwn];
  };
  template <class Own>
  __device__ Slopes<Own> prepare(const Own& own, int sample) const {
    const double* const of_sample = sums + static_cast<int64_t>(sample) * own.n_out * kClassSums;
    Slopes<Own> s;
    s.scale = static_cast<A>(static_cast<double>(*dloss) / static_cast<double>(samples));
    s.ce = static_cast<A>(weights.ce / of_sample[kCells]);
    BORA_UNROLL
    for (int i = 0; i < Own::kOwn; ++i) {
      s.plain[i] = s.labelled[i] = A(0);
      if (!own.there(i)) continue;
      const int k = own.output(i);
      const double* const of_class = of_sample + k * kClassSums;
      s.plain[i] = static_cast<A>(weights.dice_slope(of_class, k, false));
      s.labelled[i] = static_cast<A>(weights.dice_slope(of_class, k, true));
    }
    return s;
  }
  template <class Own, int K>
  __device__ void gradient(const Own& own, const Slopes<Own>& s, const A (&outputs)[K],
                           int64_t cell, bool there, A (&g)[Own::kOwn]) const {
    A p[Own::kOwn], mean(0);
    log_probabilities(own, outputs, p);
    const bool in = counts(cell, there);
    const int label = in ? labels[cell] : -1;
    BORA_UNROLL
    for (int i = 0; i < Own::kOwn; ++i) {
      p[i] = own.there(i) ? ::exp(p[i]) : A(0);
      mean += (own.output(i) == label ? s.labelled[i] : s.plain[i]) * p[i];
    }
    mean = own.sum(mean);
    BORA_UNROLL
    for (int i = 0; i < Own::kOwn; ++i) {
      const bool labelled = own.output(i) == label;
      const A slope = labelled ? s.labelled[i] : s.plain[i];
      g[i] = in && own.there(i) ? s.scale * class_logit_gradient(p[i], slope, mean, s.ce, labelled)
                                : A(0);
    }
  }
};

#endif

}  // namespace bora::kernels::cuda
