// SPDX-License-Identifier: Apache-2.0
#include "apps/common/monitor.hpp"

#include <algorithm>

#include "core/error.hpp"
#include "core/profile.hpp"

namespace bora::apps {

double StepWindow::own_s_a_step() const {
  return steps > 0 ? std::max(0.0, seconds - comm_wait_s) / static_cast<double>(steps) : 0;
}

Monitor::Monitor(int window, Clock clock) : clock_(clock ? std::move(clock) : Clock(&now_s)) {
  BORA_CHECK(window > 0, "Monitor: a window of ", window, " steps, wanted at least 1");
  ring_.resize(static_cast<size_t>(window));
}

void Monitor::begin_step() {
  BORA_CHECK(!in_step_, "Monitor: begin_step() inside a step");
  in_step_ = true;
  current_ = {};
  begin_s_ = clock_();
}

void Monitor::add_data_wait(double seconds) {
  BORA_CHECK(in_step_ && seconds >= 0, "Monitor: a data wait of ", seconds,
             " s, wanted 0 or more inside a step");
  current_.data_wait_s += seconds;
}

void Monitor::add_comm_wait(double seconds) {
  BORA_CHECK(in_step_ && seconds >= 0, "Monitor: a wait for reductions of ", seconds,
             " s, wanted 0 or more inside a step");
  current_.comm_wait_s += seconds;
}

void Monitor::end_step(double samples) {
  BORA_CHECK(in_step_, "Monitor: end_step() without begin_step()");
  in_step_ = false;
  current_.seconds = clock_() - begin_s_;
  BORA_CHECK(current_.seconds >= 0, "Monitor: the clock went back by ", -current_.seconds, " s");
  current_.samples = samples;
  ring_[next_] = current_;
  next_ = (next_ + 1) % ring_.size();
  held_ = std::min(held_ + 1, ring_.size());
}

StepWindow Monitor::window() const {
  StepWindow w;
  for (size_t i = 0; i < held_; ++i) {
    const Step& s = ring_[i];
    ++w.steps;
    w.samples += s.samples;
    w.seconds += s.seconds;
    w.data_wait_s += s.data_wait_s;
    w.comm_wait_s += s.comm_wait_s;
    w.longest_s = std::max(w.longest_s, s.seconds);
  }
  return w;
}

void Monitor::clear() { next_ = held_ = 0; }

std::optional<int> StragglerWatch::begins(const JobWindow& job) {
  const bool lasts = named_ == job.slowest && job.slowest_own_s > 1.05 * job.median_own_s;
  if (lasts) return {};
  named_ = job.straggler() ? job.slowest : -1;
  return named_ >= 0 ? std::optional(named_) : std::nullopt;
}

JobWindow join_windows(const std::vector<StepWindow>& ranks) {
  JobWindow job;
  std::vector<double> own;
  bool any = false;
  for (size_t r = 0; r < ranks.size(); ++r) {
    const StepWindow& w = ranks[r];
    if (w.steps == 0 || w.seconds <= 0) continue;
    job.samples_per_s += w.samples / w.seconds;
    job.step_s = std::max(job.step_s, w.seconds / static_cast<double>(w.steps));
    job.data_wait_share = std::max(job.data_wait_share, w.data_wait_s / w.seconds);
    const double comm = w.comm_wait_s / w.seconds;
    job.comm_wait_share = any ? std::min(job.comm_wait_share, comm) : comm;
    own.push_back(w.own_s_a_step());
    if (!any || own.back() > job.slowest_own_s) {
      job.slowest = static_cast<int>(r);
      job.slowest_own_s = own.back();
    }
    any = true;
  }
  if (!any) return job;
  // The lower middle: of two ranks the faster one is what the slower is held against.
  const auto middle = own.begin() + static_cast<std::ptrdiff_t>((own.size() - 1) / 2);
  std::nth_element(own.begin(), middle, own.end());
  job.median_own_s = *middle;
  return job;
}

JobWindow job_window(const StepWindow& mine, Collective& ranks) {
  const double fields[] = {static_cast<double>(mine.steps),
                           mine.samples,
                           mine.seconds,
                           mine.data_wait_s,
                           mine.comm_wait_s,
                           mine.longest_s};
  constexpr int64_t kFields = std::size(fields);
  Tensor x = Tensor::empty({kFields}, DType::f64);
  std::copy(std::begin(fields), std::end(fields), x.data<double>());
  Tensor all = Tensor::empty({ranks.size(), kFields}, DType::f64);
  ranks.all_gather(x, all, "steps of the ranks");
  std::vector<StepWindow> windows;
  for (int r = 0; r < ranks.size(); ++r) {
    const double* f = all.data<double>() + r * kFields;
    windows.push_back({static_cast<int64_t>(f[0]), f[1], f[2], f[3], f[4], f[5]});
  }
  return join_windows(windows);
}

}  // namespace bora::apps
