// SPDX-License-Identifier: Apache-2.0
#include "apps/unet3d/trivial.hpp"

#include <cmath>

namespace bora::unet3d {
namespace {

// 2^24 units a m/s: resolution 6e-8 m/s, and 10^5 cases of up to 5000 m/s stay below 2^63.
constexpr double kUnit = 16777216.0;

}  // namespace

TrivialPredictors::TrivialPredictors(Dims3 shape)
    : shape_(shape),
      sums_(static_cast<size_t>(shape.count())),
      counts_(static_cast<size_t>(shape.count())) {}

TrivialPredictors TrivialPredictors::of_levels(int64_t levels) {
  TrivialPredictors fit(Dims3{1, 1, levels});
  fit.any_shape_ = true;
  return fit;
}

void TrivialPredictors::add(const Tensor& target, const Tensor& region) {
  const bool fits = any_shape_ ? region.rank() == 3 && region.size(2) == shape_.w
                               : region.numel() == shape_.count();
  BORA_CHECK(fits && target.numel() == region.numel(), "TrivialPredictors: target ", target.shape(),
             " and region ", region.shape(), " for cases of ", shape_);
  const float* t = target.data<float>();
  const uint8_t* r = region.data<uint8_t>();
  const auto n = static_cast<size_t>(region.numel());
  for (size_t i = 0; i < n; ++i) {
    if (!r[i]) continue;
    BORA_CHECK(std::fabs(static_cast<double>(t[i])) < 5000.0, "TrivialPredictors: a target of ",
               t[i], " in an open cell: the sum is made for wind speeds in m/s");
    const size_t at = any_shape_ ? i % sums_.size() : i;
    sums_[at] += std::llround(static_cast<double>(t[i]) * kUnit);
    ++counts_[at];
  }
}

void TrivialPredictors::reduce(Collective& ranks) {
  for (std::vector<int64_t>* v : {&sums_, &counts_}) {
    Tensor t = Tensor::wrap(v->data(), {static_cast<int64_t>(v->size())}, DType::i64);
    ranks.all_reduce(t, ReduceOp::sum, "trivial predictors");
  }
}

std::array<Tensor, 3> TrivialPredictors::fields() const {
  const size_t nz = static_cast<size_t>(shape_.w);
  std::vector<double> level_sum(nz), level_count(nz);
  double sum = 0, count = 0;
  for (size_t i = 0; i < sums_.size(); ++i) {
    level_sum[i % nz] += static_cast<double>(sums_[i]);
    level_count[i % nz] += static_cast<double>(counts_[i]);
  }
  for (size_t k = 0; k < nz; ++k) sum += level_sum[k], count += level_count[k];
  BORA_CHECK(count > 0, "TrivialPredictors: no open cell in the training cases");
  const double mean = sum / count;

  std::array<Tensor, 3> out;
  for (Tensor& t : out) t = Tensor::empty({shape_.d, shape_.h, shape_.w}, DType::f32);
  for (size_t i = 0; i < sums_.size(); ++i) {
    const size_t k = i % nz;
    const double profile = level_count[k] > 0 ? level_sum[k] / level_count[k] : mean;
    const double cell =
        counts_[i] > 0 ? static_cast<double>(sums_[i]) / static_cast<double>(counts_[i]) : profile;
    out[0].data<float>()[i] = static_cast<float>(mean / kUnit);
    out[1].data<float>()[i] = static_cast<float>(profile / kUnit);
    out[2].data<float>()[i] = static_cast<float>(cell / kUnit);
  }
  return out;
}

std::vector<Tensor> TrivialPredictors::fields_of(const Dims3& shape) const {
  const std::array<Tensor, 3> fitted = fields();
  if (!any_shape_) {
    BORA_CHECK(shape == shape_, "TrivialPredictors: a case of ", shape, ", fitted on ", shape_);
    return {fitted.begin(), fitted.end()};
  }
  BORA_CHECK(shape.w == shape_.w, "TrivialPredictors: a case of ", shape, ", fitted on ", shape_.w,
             " levels");
  std::vector<Tensor> out;
  for (size_t p = 0; p < 2; ++p) {
    out.push_back(Tensor::empty({shape.d, shape.h, shape.w}, DType::f32));
    for (int64_t i = 0; i < shape.count(); ++i)
      out[p].data<float>()[i] = fitted[p].data<float>()[i % shape.w];
  }
  return out;
}

}  // namespace bora::unet3d
