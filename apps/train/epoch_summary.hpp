// SPDX-License-Identifier: Apache-2.0
// EpochSummary: what an epoch's time went into; and how far a training is, for its progress line.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "core/collective.hpp"
#include "core/device.hpp"
#include "data/jsonl.hpp"

namespace bora::train {

/// Of one rank: since the epoch began, or since this start if the run was resumed inside it.
struct EpochTimes {
  double begin_s = 0;            ///< by now_s()
  double steps_s = 0;            ///< in training steps, waits included
  double data_wait_s = 0;        ///< training and validation blocked, waiting for samples
  double train_data_wait_s = 0;  ///< of these: in training steps
  double comm_wait_s = 0;        ///< of the steps: for reductions that backward did not hide
  double validation_s = 0, save_s = 0;
  int64_t samples = 0;  ///< trained with here
};

/// Of all ranks together.
struct EpochSummary {
  double seconds = 0;    ///< from the epoch's first step to its last save; the longest of all ranks
  double compute_s = 0;  ///< in training steps without their waits: mean over ranks
  double data_wait_s = 0;     ///< longest of all ranks: the others wait for that one
  double comm_wait_s = 0;     ///< mean over ranks
  double validation_s = 0;    ///< longest
  double save_s = 0;          ///< that training stood still for saves: longest
  int64_t samples = 0;        ///< trained with, all ranks
  double samples_per_s = 0;   ///< over the longest of all ranks' time in training steps
  double peak_memory_mb = 0;  ///< MiB: on a device its allocator's peak, else the process's largest
                              ///< resident memory so far; largest of all ranks
};

/// Collective: one gather of a few numbers.
EpochSummary join_epoch(const EpochTimes& mine, Device device, Collective& ranks);

/// One line for people.
std::string epoch_text(const EpochSummary& summary);
/// The figures of its row in metrics.jsonl.
std::vector<std::pair<std::string, data::JsonValue>> epoch_figures(const EpochSummary& summary);

/// What the last row of the log said of training.
struct LastRow {
  int64_t update = 0;
  double loss = 0, samples_per_s = 0, lr = 0;
};
/// Parts of the progress line (apps::Progress) after `update`, at `epoch` (1.8 of 12).  The loss is
/// told with its update where that is an earlier one.
std::vector<std::string> progress_parts(double epoch, int64_t epochs, int64_t update,
                                        int64_t updates, const LastRow& row);

}  // namespace bora::train
