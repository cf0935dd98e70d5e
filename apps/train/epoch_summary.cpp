// SPDX-License-Identifier: Apache-2.0
#include "apps/train/epoch_summary.hpp"

#include <algorithm>

#include "apps/common/text.hpp"
#include "apps/common/usage.hpp"
#include "core/memory_report.hpp"
#include "core/profile.hpp"

namespace bora::train {
namespace {

constexpr double kMiB = 1024.0 * 1024.0;

double peak_memory_mb(Device device) {
  if (device != cpu()) return static_cast<double>(memory_of(device).peak) / kMiB;
  return static_cast<double>(apps::peak_resident_bytes()) / kMiB;
}

}  // namespace

EpochSummary join_epoch(const EpochTimes& mine, Device device, Collective& ranks) {
  const std::vector<double> own{
      now_s() - mine.begin_s,
      std::max(0.0, mine.steps_s - mine.train_data_wait_s - mine.comm_wait_s),
      mine.data_wait_s,
      mine.comm_wait_s,
      mine.validation_s,
      mine.save_s,
      static_cast<double>(mine.samples),
      mine.steps_s,
      peak_memory_mb(device)};
  const auto n = static_cast<int64_t>(own.size());
  Tensor all = Tensor::empty({ranks.size(), n}, DType::f64);
  ranks.all_gather(Tensor::from<double>({n}, own), all, "epoch summary");
  const auto sum = [&](int64_t field) {
    double total = 0;
    for (int r = 0; r < ranks.size(); ++r) total += all.data<double>()[r * n + field];
    return total;
  };
  const auto most = [&](int64_t field) {
    double largest = 0;
    for (int r = 0; r < ranks.size(); ++r)
      largest = std::max(largest, all.data<double>()[r * n + field]);
    return largest;
  };
  EpochSummary s;
  s.seconds = most(0);
  s.compute_s = sum(1) / ranks.size();
  s.data_wait_s = most(2);
  s.comm_wait_s = sum(3) / ranks.size();
  s.validation_s = most(4);
  s.save_s = most(5);
  s.samples = static_cast<int64_t>(sum(6));
  const double steps_s = most(7);
  s.samples_per_s = steps_s > 0 ? static_cast<double>(s.samples) / steps_s : 0;
  s.peak_memory_mb = most(8);
  return s;
}

std::string epoch_text(const EpochSummary& s) {
  return detail::join(apps::brief(s.seconds), " s: compute ", apps::brief(s.compute_s),
                      ", data wait ", apps::brief(s.data_wait_s), ", reductions ",
                      apps::brief(s.comm_wait_s), ", validation ", apps::brief(s.validation_s),
                      ", saves ", apps::brief(s.save_s), "; ", s.samples, " samples, ",
                      apps::brief(s.samples_per_s), " a second; peak memory ",
                      apps::brief(s.peak_memory_mb), " MiB");
}

std::vector<std::pair<std::string, data::JsonValue>> epoch_figures(const EpochSummary& s) {
  return {{"seconds", s.seconds},
          {"compute_s", s.compute_s},
          {"data_wait_s", s.data_wait_s},
          {"comm_wait_s", s.comm_wait_s},
          {"validation_s", s.validation_s},
          {"save_s", s.save_s},
          {"samples", s.samples},
          {"samples_per_s", s.samples_per_s},
          {"peak_memory_mb", s.peak_memory_mb}};
}

std::vector<std::string> progress_parts(double epoch, int64_t epochs, int64_t update,
                                        int64_t updates, const LastRow& row) {
  const std::string when = row.update == update ? "" : " at " + std::to_string(row.update);
  return {"epoch " + apps::fixed(epoch, 1) + "/" + std::to_string(epochs),
          "loss " + apps::fixed(row.loss, 4) + when,
          apps::fixed(row.samples_per_s, 1) + " samples/s",
          "update " + std::to_string(update) + "/" + std::to_string(updates),
          "lr " + apps::brief(row.lr)};
}

}  // namespace bora::train
