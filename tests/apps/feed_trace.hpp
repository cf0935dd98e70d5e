// SPDX-License-Identifier: Apache-2.0
// What a trace of the emulated device says of the way of batches to it.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "kernels/simt/trace.hpp"

namespace bora::testing {

/// A batch: its copy to the device, the copy to where it is computed with, and the work on that
/// stream until the next batch is taken.
struct FedBatch {
  simt::TracedWork sent, taken;
  std::vector<simt::TracedWork> kernels;
};

/// The batches of an Uploader in a trace: copies to the device that are copied on there, all of
/// them by the place of the last one (what else takes two copies, weights say, comes before).
inline std::vector<FedBatch> fed_batches(const std::vector<simt::TracedWork>& trace) {
  std::vector<FedBatch> batches;
  std::map<const void*, simt::TracedWork> last_sent;
  for (const simt::TracedWork& work : trace) {
    if (work.name == "copy h2d") last_sent[work.to] = work;
    const auto sent = last_sent.find(work.from);
    if (work.name == "copy d2d" && sent != last_sent.end() && sent->second.bytes == work.bytes)
      batches.push_back({sent->second, work, {}});
    else if (!batches.empty() && work.stream == batches.back().taken.stream &&
             !work.name.starts_with("copy"))
      batches.back().kernels.push_back(work);
  }
  if (!batches.empty())
    std::erase_if(batches, [last = batches.back().taken](const FedBatch& b) {
      return b.taken.from != last.from || b.taken.to != last.to;
    });
  return batches;
}

/// What is wrong with the order of the work, one line each.  Nothing is: every batch comes from
/// pinned memory over a stream of its own, while the batch before may be computed with, and no
/// sooner than what it overwrites has been read.
inline std::vector<std::string> faults_of_feed(const std::vector<FedBatch>& batches) {
  std::vector<std::string> faults;
  for (size_t n = 0; n < batches.size(); ++n) {
    const FedBatch& batch = batches[n];
    const auto check = [&](bool fine, const char* fault) {
      if (!fine) faults.push_back(bora::detail::join("batch ", n, ": ", fault));
    };
    check(!batch.sent.pageable, "comes from pageable memory");
    check(batch.sent.stream != batch.taken.stream, "comes over the stream that computes");
    check(comes_before(batch.sent, batch.taken), "is taken before it has arrived");
    check(!batch.kernels.empty(), "is not computed with");
    for (const simt::TracedWork& kernel : batch.kernels)
      check(comes_before(batch.sent, kernel) && comes_before(batch.taken, kernel),
            "is computed with before it has arrived");
    if (n == 0) continue;
    const FedBatch& before = batches[n - 1];
    check(comes_before(before.taken, batch.sent), "is sent over one that is not taken yet");
    for (const simt::TracedWork& kernel : before.kernels) {
      check(may_overlap(kernel, batch.sent), "is sent after the computation before it");
      check(comes_before(kernel, batch.taken), "is taken over one that is computed with");
    }
  }
  return faults;
}

}  // namespace bora::testing
