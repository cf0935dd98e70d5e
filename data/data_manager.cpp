// SPDX-License-Identifier: Apache-2.0
#include "data/data_manager.hpp"

#include "core/log.hpp"

namespace bora::data {

DataManager::DataManager(const Dataset& dataset, const DataManagerOptions& options)
    : sampler_({.n_samples = dataset.size(),
                .n_ranks = options.n_ranks,
                .rank = options.rank,
                .seed = options.seed,
                .shuffle = options.shuffle,
                .tail = options.tail,
                .batch = options.batch}),
      loader_(options.loader, sample_reader(dataset, options.reading, options.seed),
              sample_namer(dataset), sample_locator(dataset)) {
  sampler_.require_samples();
}

void DataManager::begin(EpochPosition from) {
  if (from.position == 0) {
    if (from.epoch == last_whole_ && !told_ && sampler_.options().shuffle) {
      told_ = true;
      log_warn("epoch ", from.epoch,
               " is begun again: it has the same order of samples and the same augmentation as "
               "before. Was begin() meant to get the next epoch?");
    }
    last_whole_ = from.epoch;
  }
  loader_.start(sampler_.slots(from));
  from_ = from;
  running_ = true;
}

std::optional<Batch> DataManager::next() {
  if (!running_) begin(position());
  std::optional<Batch> batch = next_batch(loader_, sampler_.options().batch);
  if (!batch) {
    from_ = {from_.epoch + 1, 0};
    running_ = false;
  }
  return batch;
}

EpochPosition DataManager::position() const {
  return running_ ? sampler_.advance(from_, loader_.n_delivered()) : from_;
}

}  // namespace bora::data
