// SPDX-License-Identifier: Apache-2.0
#include "apps/train/global_batch.hpp"

#include <string>

namespace bora::train {
namespace {

/// "1, 2, 4": numbers of ranks that share `micro_batches` evenly; the larger ones are cut.
std::string ranks_that_fit(int64_t micro_batches) {
  constexpr int kMost = 12;
  std::string text;
  int n = 0;
  for (int64_t r = 1; r <= micro_batches; ++r) {
    if (micro_batches % r != 0) continue;
    if (n++ == kMost) return text + ", ...";
    text += (text.empty() ? "" : ", ") + std::to_string(r);
  }
  return text;
}

std::string factors(const TrainConfig& config, int n_ranks) {
  return detail::join("train.batch ", config.batch, " x train.accumulate ",
                      accumulate_of(config, n_ranks), " x ", n_ranks,
                      n_ranks > 1 ? " ranks" : " rank");
}

}  // namespace

int64_t accumulate_of(const TrainConfig& config, int n_ranks) {
  if (config.global_batch == 0) return config.accumulate;
  const int64_t global = config.global_batch;
  if (config.accumulate != 1)
    throw UsageError(detail::join("train.global_batch=", global,
                                  " with train.accumulate=", config.accumulate,
                                  ": the one follows from the other; leave "
                                  "train.accumulate out"));
  if (global % config.batch != 0)
    throw UsageError(detail::join("train.global_batch=", global, " with train.batch=", config.batch,
                                  ": wanted a multiple of train.batch"));
  if (global % (config.batch * n_ranks) != 0)
    throw UsageError(detail::join("train.global_batch=", global, " with train.batch=", config.batch,
                                  " and ", n_ranks, " ranks: ", global, " is no multiple of ",
                                  config.batch, " x ", n_ranks, " = ", config.batch * n_ranks,
                                  "; with this batch it can be shared by ",
                                  ranks_that_fit(global / config.batch), " ranks"));
  return global / (config.batch * n_ranks);
}

int64_t samples_of_an_update(const TrainConfig& config, int n_ranks) {
  return config.batch * accumulate_of(config, n_ranks) * n_ranks;
}

void require_same_samples(const TrainConfig& before, int ranks_before, const TrainConfig& now,
                          int ranks_now) {
  const int64_t then = samples_of_an_update(before, ranks_before),
                here = samples_of_an_update(now, ranks_now);
  if (then == here) return;
  throw UsageError(detail::join(
      "the checkpoint's updates take ", then, " samples (", factors(before, ranks_before),
      "), those of this run ", here, " (", factors(now, ranks_now),
      "): the learning rate would jump. Keep the product",
      then % now.batch == 0
          ? detail::join("; --train.global_batch=", then, " instead of train.accumulate keeps it (",
                         ranks_that_fit(then / now.batch), " ranks can share it)")
          : detail::join("; train.batch=", now.batch, " does not divide it"),
      ". Or start a new run in another output.dir"));
}

}  // namespace bora::train
