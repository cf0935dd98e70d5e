// SPDX-License-Identifier: Apache-2.0
#include "nn/layers/norm.hpp"

#include <algorithm>

namespace bora::nn {

int64_t group_count(int64_t channels, int64_t groups) {
  BORA_CHECK(channels > 0 && groups > 0, "group_count: ", channels, " channels, ", groups,
             " groups; wanted at least 1 of each");
  int64_t count = std::min(groups, channels);
  while (channels % count != 0) --count;
  return count;
}

NormKind norm_kind(const std::string& name) {
  if (name == "group") return NormKind::group;
  if (name == "instance") return NormKind::instance;
  if (name == "batch") return NormKind::batch;
  if (name == "sync_batch") return NormKind::sync_batch;
  throw UsageError("norm '" + name + "': wanted group, instance, batch or sync_batch");
}

Norm::Norm(NormKind kind, int64_t channels, int64_t groups, double eps)
    : kind_(kind),
      groups_(kind == NormKind::instance ? channels : group_count(channels, groups)),
      eps_(eps) {
  gamma_ = {{channels}, Init::constant(1), "C", false, {}};
  beta_ = {{channels}, Init::constant(0), "C", false, {}};
  if (kind == NormKind::batch || kind == NormKind::sync_batch) {
    running_.running_mean = Tensor::zeros({channels}, DType::f32);
    running_.running_var = Tensor::full({channels}, 1.0, DType::f32);
  }
}

void Norm::synchronise(Collective* ranks) {
  BORA_CHECK(kind_ == NormKind::batch || kind_ == NormKind::sync_batch,
             "Norm::synchronise: ", describe(),
             " has no statistics over the batch; wanted a batch norm");
  kind_ = NormKind::sync_batch;
  ranks_ = ranks;
}

Tensor Norm::forward(const Tensor& x, const NormFusion& fusion) {
  if (kind_ == NormKind::group || kind_ == NormKind::instance)
    return group_norm(x, gamma_.value, beta_.value, groups_, eps_, fusion);
  for (Tensor* t : {&running_.running_mean, &running_.running_var}) {
    // A network in f64 (gradient checks) keeps its statistics in f64 too.
    if (x.dtype() == DType::f64 && t->dtype() != DType::f64) *t = t->to(DType::f64);
    // An arena has put them beside the parameters; a norm without one follows its first input.
    if (t->device() != x.device()) *t = t->to(x.device());
  }
  return batch_norm(x, gamma_.value, beta_.value, running_, training(), eps_, fusion,
                    kind_ == NormKind::sync_batch ? ranks_ : nullptr);
}

void Norm::visit(Visitor& v) {
  v.parameter("gamma", gamma_);
  v.parameter("beta", beta_);
  if (running_.running_mean.defined()) {
    v.buffer("running_mean", running_.running_mean);
    v.buffer("running_var", running_.running_var);
  }
}

std::string Norm::describe() const {
  switch (kind_) {
    case NormKind::group:
      return detail::join("GroupNorm ", gamma_.shape[0], " in ", groups_);
    case NormKind::instance:
      return detail::join("InstanceNorm ", gamma_.shape[0]);
    case NormKind::batch:
      return detail::join("BatchNorm ", gamma_.shape[0]);
    case NormKind::sync_batch:
      return detail::join("SyncBatchNorm ", gamma_.shape[0]);
  }
  return "";
}

namespace {

class SyncConverter final : public Visitor {
 public:
  explicit SyncConverter(Collective* ranks) : ranks_(ranks) {}
  void parameter(std::string_view, Parameter&) override {}
  void see(Module& module) {
    auto* norm = dynamic_cast<Norm*>(&module);
    if (norm == nullptr) return;
    if (norm->kind() != NormKind::batch && norm->kind() != NormKind::sync_batch) return;
    norm->synchronise(ranks_);
    ++n_;
  }
  int64_t n() const { return n_; }

 protected:
  void enter(Module& module) override { see(module); }

 private:
  Collective* ranks_;
  int64_t n_ = 0;
};

}  // namespace

int64_t convert_to_sync_batch_norm(Module& module, Collective* ranks) {
  SyncConverter converter(ranks);
  converter.see(module);
  module.visit(converter);
  return converter.n();
}

}  // namespace bora::nn
