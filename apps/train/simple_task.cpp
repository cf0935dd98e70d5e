// SPDX-License-Identifier: Apache-2.0
#include "apps/train/simple_task.hpp"

#include "core/precision.hpp"
#include "nn/ops.hpp"

namespace bora::train::impl {

Loss simple_loss(const TaskParts& parts, const Tensor& prediction, const data::Batch& batch) {
  const Tensor result = autocast(Precision::full, prediction);
  Loss loss;
  // Of no samples: 0, which has gradients of 0 for all that took part.
  loss.total = batch.size() == 0 ? nn::sum(result) : parts.loss(result, batch);
  BORA_CHECK(loss.total.defined() && loss.total.rank() == 0, "the task's loss has ",
             loss.total.defined() ? detail::join("the shape ", loss.total.shape())
                                  : std::string("no value"),
             ", wanted () (nn::mean or nn::sum make it)");
  loss.parts.emplace_back("loss", loss.total.detach().to(DType::f32));
  return loss;
}

Validated simple_validate(const TaskParts& parts, const data::Batch& batch, Device device) {
  data::Batch here = batch;
  for (Tensor* t : {&here.input, &here.target, &here.region}) *t = t->to(device);
  const Tensor prediction = parts.forward(here.input);
  Validated result{simple_loss(parts, prediction, here), {}, {}};
  const Tensor host = prediction.to(cpu()).to(DType::f32);
  for (const Score& score : parts.scores) {
    const Ratio ratio = score.measure(host, batch);
    BORA_CHECK(ratio.count >= 0, "score '", score.name, "' of ", batch.names.at(0), ": a count of ",
               ratio.count, ", wanted 0 or more");
    result.sums.push_back(ratio.sum);
    result.counts.push_back(ratio.count);
  }
  return result;
}

}  // namespace bora::train::impl
