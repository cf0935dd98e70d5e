// SPDX-License-Identifier: Apache-2.0
// Trivial predictors: what any network must beat.
#pragma once

#include <array>
#include <vector>

#include "core/collective.hpp"
#include "core/tensor.hpp"

namespace bora::unet3d {

/// Three predictors fitted on the training cases' open cells: the mean of the domain, the mean
/// vertical profile (one value a level), the mean field cell by cell.  A level or cell that is open
/// in no training case takes the next coarser value.
class TrivialPredictors {
 public:
  inline static constexpr std::array<const char*, 3> kNames{"domain_mean", "mean_profile",
                                                            "mean_field"};

  /// For cases of one shape.
  explicit TrivialPredictors(Dims3 shape);
  /// For cases of any shape with so many levels: without the mean field.
  static TrivialPredictors of_levels(int64_t levels);
  /// target (X, Y, Z[, 1]) f32 in physical units; region (X, Y, Z) u8.
  void add(const Tensor& target, const Tensor& region);
  /// Joins the ranks' sums; the same result on all, whatever the shares.
  void reduce(Collective& ranks);
  /// The fitted fields (X, Y, Z) f32, in the order of kNames.  Throws Error if no open cell was
  /// added.
  std::array<Tensor, 3> fields() const;
  /// The same for a case of shape (X, Y, Z): two fields where cases may have any shape.
  std::vector<Tensor> fields_of(const Dims3& shape) const;

 private:
  Dims3 shape_;  // (1, 1, levels) where cases may have any shape
  bool any_shape_ = false;
  // Sums are exact: values in units of 2^-24 m/s as 64-bit integers, so that the order of cases and
  // the number of ranks do not show in the last bit.
  std::vector<int64_t> sums_, counts_;
};

}  // namespace bora::unet3d
