// SPDX-License-Identifier: Apache-2.0
#include "comm/shard_sum.hpp"

#include "comm/local_reduce.hpp"

#include <bit>

namespace bora {

ShardSum::ShardSum(Collective& collective, int64_t n_shards, int64_t count, DType type)
    : collective_(collective),
      n_shards_(n_shards),
      count_(count),
      type_(type),
      sum_type_(type == DType::f64 ? DType::f64 : DType::f32) {
  const int n = collective.size();
  BORA_CHECK(is_float(type) && count >= 0,
             "ShardSum: wants a floating type and no negative count, ", "got ", type, " and ",
             count);
  if (n_shards <= 0 || n_shards % n != 0 ||
      !std::has_single_bit(static_cast<uint64_t>(n_shards / n)))
    throw UsageError(detail::join("reproducible sums: ", n_shards, " shards on ", n,
                                  " ranks; the shards of a rank must be a power of two (1, 2, 4, ",
                                  "...), as for ", n, ", ", 2 * n, " or ", 4 * n, " shards"));
  if (!collective.sums_in_tree_order())
    throw UsageError(
        "reproducible sums want a communicator with the all-reduce algorithm 'reproducible'");
  shards_here_ = n_shards / n;
}

void ShardSum::add(const Tensor& x) {
  BORA_CHECK(x.defined() && x.dtype() == type_ && x.numel() == count_, "ShardSum::add: wants ",
             count_, ' ', type_, ", got ", x.defined() ? x.numel() : 0, ' ',
             x.defined() ? x.dtype() : type_);
  BORA_CHECK(n_added_ < shards_here_, "ShardSum::add: all ", shards_here_,
             " shards of this rank were added; call finish()");
  if (levels_.size() == depth_) levels_.push_back(Tensor::empty({count_}, sum_type_));
  const Tensor flat = x.detach().reshape({count_});
  levels_[depth_++].copy_from(flat.dtype() == sum_type_ ? flat : flat.to(sum_type_));
  for (int64_t carry = n_added_++; (carry & 1) != 0; carry >>= 1, --depth_)
    reduce_rows(sum_type_, ReduceOp::sum, {levels_[depth_ - 2].raw(), levels_[depth_ - 1].raw()},
                levels_[depth_ - 2].raw(), count_);
}

void ShardSum::finish(Tensor& out, ReduceOp op, std::string_view label) {
  BORA_CHECK(op == ReduceOp::sum || op == ReduceOp::mean,
             "ShardSum::finish: wants sum or mean, got ", name_of(op));
  BORA_CHECK(out.defined() && is_float(out.dtype()) && out.numel() == count_,
             "ShardSum::finish: wants a floating tensor of ", count_, " elements");
  BORA_CHECK(n_added_ == shards_here_, "ShardSum::finish: ", n_added_, " of the ", shards_here_,
             " shards of this rank were added");
  Tensor& total = levels_[0];
  collective_.all_reduce(total, ReduceOp::sum, label);
  if (op == ReduceOp::mean) divide(sum_type_, total.raw(), n_shards_, count_);
  out.copy_from((out.dtype() == sum_type_ ? total : total.to(out.dtype())).reshape(out.shape()));
  abandon();
}

void ShardSum::abandon() {
  n_added_ = 0;
  depth_ = 0;
}

}  // namespace bora
