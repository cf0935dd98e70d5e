// SPDX-License-Identifier: Apache-2.0
#include "kernels/metrics.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/loss_checks.hpp"
#include "kernels/reduce.hpp"

namespace bora::kernels {
namespace {

/// Places in a row, the order of ErrorSums.
enum Number {
  kCount,
  kAbs,
  kSquare,
  kRelative,
  kHits,
  kTarget,
  kTargetSquare,
  kTargetMin,
  kTargetMax,
  kMaxAbs,
  kEnd
};
static_assert(kEnd == ErrorSums::kNumbers);

/// NaN wins, so that a bad value does not hide.
BORA_HD inline double smaller(double a, double b) { return b < a || b != b ? b : a; }
BORA_HD inline double larger(double a, double b) { return b > a || b != b ? b : a; }

template <class T>
struct SumErrors {
  using Element = double;
  static constexpr int kWidth = kEnd;
  static constexpr bool kHostOnly = std::is_same_v<T, double>;
  using State = Lanes<Element, kWidth>;
  const T* prediction;
  const T* target;
  const uint8_t* region;
  double* rows;
  int64_t channels;
  double threshold, floor;

  BORA_HD State identity() const { return {{0, 0, 0, 0, 0, 0, 0, HUGE_VAL, -HUGE_VAL, 0}}; }
  BORA_HD void add(State& s, int64_t, int64_t cell, int64_t) const {
    if (region && region[cell] == 0) return;
    for (int64_t i = cell * channels; i < (cell + 1) * channels; ++i) {
      const auto t = static_cast<double>(load(target[i]));
      const double e = ::fabs(static_cast<double>(load(prediction[i])) - t);
      const double size = ::fabs(t);
      s.v[kCount] += 1.0;
      s.v[kAbs] += e;
      s.v[kSquare] += e * e;
      s.v[kRelative] += e / (size < floor ? floor : size);
      s.v[kHits] += e <= threshold ? 1.0 : 0.0;
      s.v[kTarget] += t;
      s.v[kTargetSquare] += t * t;
      s.v[kTargetMin] = smaller(s.v[kTargetMin], t);
      s.v[kTargetMax] = larger(s.v[kTargetMax], t);
      s.v[kMaxAbs] = larger(s.v[kMaxAbs], e);
    }
  }
  BORA_HD void merge(State& a, const State& b) const {
    for (int k = 0; k < kTargetMin; ++k) a.v[k] += b.v[k];
    a.v[kTargetMin] = smaller(a.v[kTargetMin], b.v[kTargetMin]);
    a.v[kTargetMax] = larger(a.v[kTargetMax], b.v[kTargetMax]);
    a.v[kMaxAbs] = larger(a.v[kMaxAbs], b.v[kMaxAbs]);
  }
  BORA_HD void store(int64_t sample, int64_t, const State& s) const {
    for (int k = 0; k < kEnd; ++k) rows[sample * kEnd + k] = s.v[k];
  }
};

/// 0 / 0 is NaN on purpose: nothing was counted.
double ratio(double a, double b) { return b > 0.0 ? a / b : std::isnan(b) ? b : NAN; }

}  // namespace

ErrorSums ErrorSums::from_row(const double* r) {
  return {r[kCount],  r[kAbs],          r[kSquare],    r[kRelative],  r[kHits],
          r[kTarget], r[kTargetSquare], r[kTargetMin], r[kTargetMax], r[kMaxAbs]};
}

void ErrorSums::add(const ErrorSums& o) {
  count += o.count;
  abs += o.abs;
  square += o.square;
  relative += o.relative;
  hits += o.hits;
  target += o.target;
  target_square += o.target_square;
  target_min = smaller(target_min, o.target_min);
  target_max = larger(target_max, o.target_max);
  max_abs = larger(max_abs, o.max_abs);
}

void ErrorSums::all_reduce(Collective& collective, std::string_view label) {
  // Every rank's row to every rank, joined in rank order on each.
  const Tensor mine = Tensor::from<double>(
      {kNumbers}, std::vector<double>{count, abs, square, relative, hits, target, target_square,
                                      target_min, target_max, max_abs});
  Tensor all = Tensor::empty({collective.size(), kNumbers}, DType::f64);
  collective.all_gather(mine, all, label);
  *this = ErrorSums{};
  for (int r = 0; r < collective.size(); ++r) add(from_row(all.data<double>() + r * kNumbers));
}

double ErrorSums::mae() const { return ratio(abs, count); }
double ErrorSums::rmse() const { return std::sqrt(ratio(square, count)); }
double ErrorSums::mre() const { return ratio(relative, count); }
double ErrorSums::nrmse() const { return ratio(rmse(), target_max - target_min); }
double ErrorSums::hit_rate() const { return ratio(hits, count); }
double ErrorSums::r2() const {
  // Rounding may leave a constant target a tiny variance; its range tells.
  if (!(target_max > target_min)) return NAN;
  return 1.0 - ratio(square, target_square - target * ratio(target, count));
}
double ErrorSums::relative_l2() const { return std::sqrt(ratio(square, target_square)); }

void error_sums(Stream stream, const ErrorSumsAttributes& attributes, const Tensor& prediction,
                const Tensor& target, const Tensor& region, Tensor& rows) {
  constexpr const char* kOp = "error_sums";
  check_loss_pair(kOp, prediction, target, region);
  BORA_CHECK(attributes.relative_floor > 0.0 && attributes.threshold >= 0.0, kOp, ": floor ",
             attributes.relative_floor, ", threshold ", attributes.threshold,
             "; wanted > 0 and >= 0");
  const LossShape s(prediction.shape());
  check_loss_tensor(kOp, rows, {s.samples, ErrorSums::kNumbers}, DType::f64, "rows");
  dispatch_float(prediction.dtype(), kOp, [&]<class T>() {
    reduce_rows(stream, s.samples, s.cells(),
                SumErrors<T>{prediction.data<T>(), target.data<T>(),
                             pointer_or_null<uint8_t>(region), rows.data<double>(), s.channels,
                             attributes.threshold, attributes.relative_floor});
  });
}

}  // namespace bora::kernels
