// SPDX-License-Identifier: Apache-2.0
#include "apps/train/run_watch.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <future>
#include <iterator>

#include "apps/common/progress.hpp"
#include "apps/common/text.hpp"
#include "apps/train/report.hpp"
#include "apps/train/run_folder.hpp"
#include "apps/train/run_log.hpp"
#include "core/build_info.hpp"
#include "core/log.hpp"
#include "core/log_warnings.hpp"
#include "core/profile.hpp"
#include "kernels/cuda/device.hpp"

namespace bora::train {
namespace {

constexpr size_t kMostCases = 500;
constexpr int kPatience_s = 60;

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  ::gmtime_r(&now, &parts);
  char text[64];
  return std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S UTC", &parts) > 0 ? text : "";
}

std::string gpu_of(Device device) {
  return device == cpu() ? std::string() : kernels::cuda::device_uuid(device.index);
}

/// "a, b and 30 more".
std::string names_text(const std::vector<std::string>& names) {
  constexpr size_t kMost = 8;
  std::string text;
  for (size_t i = 0; i < std::min(names.size(), kMost); ++i) text += (i ? ", " : "") + names[i];
  if (names.size() > kMost) text += detail::join(" and ", names.size() - kMost, " more");
  return text;
}

/// What `body` throws, as text; empty if nothing.
template <class Body>
std::string error_of(Body&& body) {
  try {
    body();
  } catch (const std::exception& e) {
    return e.what();
  }
  return {};
}

/// Where a number of a row stands in TensorBoard; empty: nowhere.
std::string tag_of(const std::string& kind, const std::string& key) {
  const auto is_one_of = [&](std::initializer_list<std::string_view> keys) {
    return std::find(keys.begin(), keys.end(), key) != keys.end();
  };
  if (is_one_of({"kind", "update", "epoch", "best", "seconds", "slowest_rank", "slowest_rank_s",
                 "median_rank_s", "skipped"}))
    return {};
  if (kind != "train") return kind + "/" + key;
  if (is_one_of({"lr", "gradient_norm", "clip_factor", "loss_scale"})) return "optim/" + key;
  if (is_one_of({"samples_per_s", "step_s", "data_wait_share", "comm_wait_share"}))
    return "speed/" + key;
  return "train/" + key;
}

std::string file_of(const Picture& picture) {
  return std::string(kPictureFolder) + "/" + picture.name + ".png";
}

}  // namespace

struct RunWatch::Job {
  std::atomic<bool> done{false};
  std::promise<void> end;
  std::string error, picture_error;
  double seconds = 0;
  // The first picture, for TensorBoard.
  std::string png, title;
  int64_t update = 0;
};

RunWatch::RunWatch(const RunConfig& config, Collective& ranks, Device device)
    : config_(config),
      ranks_(ranks),
      device_(device),
      usage_(ranks, device, gpu_of(device)),
      begin_s_(now_s()),
      last_report_s_(begin_s_),
      last_pictures_s_(begin_s_) {}

RunWatch::~RunWatch() { end_job(); }

// A file system that hangs must not keep a run from its end: the thread keeps what it works on.
bool RunWatch::end_job() {
  if (!job_.joinable()) return true;
  const bool ended = state_->end.get_future().wait_for(std::chrono::seconds(kPatience_s)) ==
                     std::future_status::ready;
  ended ? job_.join() : job_.detach();
  return ended;
}

/// Runs `body` as long as `works`; the first Error is warned of and ends that.
template <class Body>
void RunWatch::try_once(std::string_view what, bool& works, Body&& body) {
  if (!works) return;
  try {
    body();
  } catch (const std::exception& e) {
    works = false;
    log_warn(e.what(), ": the run goes on without ", what);
  }
}

void RunWatch::begin(data::JsonlWriter& log, const RunFacts& facts, const Task& task) {
  log_ = &log;
  update_ = facts.update;
  epoch_ = facts.epoch;
  std::string description;
  for (const std::string& line : task.describe()) description += line + "\n";
  const data::Dataset* validation = task.validation();
  log.write(
      {{"kind", "start"},
       {"update", facts.update},
       {"epoch", facts.epoch},
       {"time", utc_now()},
       {"build", build_info_text()},
       {"ranks", ranks_.size()},
       {"hosts", static_cast<int64_t>(usage_.hosts().size())},
       {"host_names", names_text(usage_.hosts())},
       {"threads", facts.threads},
       {"device", device_ == cpu() ? "cpu" : kernels::cuda::device_description(device_.index)},
       {"precision", config_.precision},
       {"parameters", facts.parameters},
       {"training_samples", task.training().size()},
       {"validation_samples", validation == nullptr ? 0 : validation->size()},
       {"epochs", config_.train.epochs},
       {"updates", facts.updates},
       {"updates_an_epoch", facts.updates_an_epoch},
       {"effective_batch", facts.effective_batch},
       {"description", description},
       {"seconds", now_s() - begin_s_}});
  events_work_ = config_.output.tensorboard;
  report_works_ = config_.output.report;
  try_once("TensorBoard's events", events_work_, [&] {
    events_.emplace(folder(), facts.update + 1);
    events_->text(facts.update + 1, "settings", "```toml\n" + task.settings_text() + "\n```");
  });
  take_warnings();
}

void RunWatch::take_warnings() {
  for (const std::string& text : log_take_warnings())
    log_->write({{"kind", "warning"},
                 {"update", update_},
                 {"epoch", epoch_},
                 {"text", text},
                 {"seconds", now_s() - begin_s_}});
}

void RunWatch::row(const data::JsonRecord& row) {
  log_->write(row);
  const std::string kind = text_of(row, "kind");
  update_ = static_cast<int64_t>(number_of(row, "update").value_or(0));
  epoch_ = static_cast<int64_t>(number_of(row, "epoch").value_or(0));
  take_warnings();
  try_once("TensorBoard's events", events_work_, [&] {
    data::EventWriter::Scalars scalars;
    for (const auto& [key, unused] : row)
      if (const std::optional<double> number = number_of(row, key))
        if (std::string tag = tag_of(kind, key); !tag.empty())
          scalars.emplace_back(std::move(tag), *number);
    events_->scalars(update_, scalars);
  });
}

void RunWatch::cases(const std::vector<ScoredCase>& cases, int64_t update, int64_t epoch) {
  if (log_ == nullptr || cases.empty()) return;
  for (const NamedScore& score : cases.front().scores) {
    if (scores_told_) break;
    log_->write({{"kind", "score"},
                 {"update", update},
                 {"key", score.key},
                 {"label", score.label},
                 {"unit", score.unit}});
  }
  scores_told_ = true;
  for (size_t i = 0; i < std::min(cases.size(), kMostCases); ++i) {
    const ScoredCase& c = cases[i];
    data::JsonRecord row{
        {"kind", "case"}, {"update", update}, {"epoch", epoch}, {"case", c.name}, {"loss", c.loss}};
    for (const NamedScore& score : c.scores) row.emplace_back(score.key, score.value);
    log_->write(row);
  }
}

// Rarely: a tenth of the run's time apart, and no more than half a percent of it.
bool RunWatch::due_since(double last_s, double cost_s) const {
  if (log_ == nullptr || !report_works_ || (state_ && !state_->done)) return false;
  const double now = now_s();
  return now - last_s >= std::max(std::clamp((now - begin_s_) / 10, 60.0, 600.0),
                                  200 * std::max(report_cost_s_, cost_s));
}

void RunWatch::pictures(const std::function<std::vector<Picture>()>& make) {
  if (log_ == nullptr || !report_works_) return;
  join_job();
  const double begin_s = now_s();
  std::vector<Picture> pictures;
  try_once("pictures", pictures_work_, [&] { pictures = make(); });
  const double cost_s = now_s() - begin_s;
  for (const Picture& picture : pictures)
    log_->write({{"kind", "figure"},
                 {"update", update_},
                 {"epoch", epoch_},
                 {"file", file_of(picture)},
                 {"title", detail::join(picture.title, ", after epoch ", epoch_)},
                 {"seconds", now_s() - begin_s_}});
  report_cost_s_ = cost_s;
  pictures_s_ += cost_s;
  last_pictures_s_ = now_s();
  start_job(std::move(pictures));
}

void RunWatch::report() {
  if (!due_since(last_report_s_, 0)) return;
  join_job();
  report_cost_s_ = 0;
  start_job({});
}

// The thread reads and writes files only, and what the pictures hold: nothing that training uses.
void RunWatch::start_job(std::vector<Picture> pictures) {
  last_report_s_ = now_s();
  state_ = std::make_shared<Job>();
  state_->update = update_;
  job_ = std::thread([job = state_, dir = folder(), pictures = std::move(pictures)] {
    const double begin = now_s();
    job->picture_error = error_of([&] {
      if (pictures.empty()) return;
      std::filesystem::create_directories(dir + "/" + kPictureFolder);
      for (const Picture& picture : pictures) picture.draw(dir + "/" + file_of(picture));
      std::ifstream in(dir + "/" + file_of(pictures[0]), std::ios::binary);
      job->png.assign(std::istreambuf_iterator<char>(in), {});
      job->title = pictures[0].name;
    });
    job->error = error_of([&] { write_report(dir); });
    job->seconds = now_s() - begin;
    job->done = true;
    job->end.set_value();
  });
}

void RunWatch::join_job() {
  if (!job_.joinable()) return;
  if (!end_job()) {
    state_.reset();
    try_once("report.html", report_works_,
             [&] { BORA_FAIL("writing in ", folder(), " does not end for ", kPatience_s, " s"); });
    return;
  }
  const std::shared_ptr<Job> job = std::move(state_);
  report_cost_s_ += job->seconds;
  if (!job->png.empty())
    try_once("TensorBoard's events", events_work_,
             [&] { events_->image(job->update, "pictures/" + job->title, job->png); });
  try_once("pictures", pictures_work_, [&] {
    if (!job->picture_error.empty()) throw Error(job->picture_error);
  });
  try_once("report.html", report_works_, [&] {
    if (!job->error.empty()) throw Error(job->error);
  });
}

void RunWatch::finish(const std::string& reason, double samples, int64_t update, int64_t epoch) {
  const apps::JobUsage usage = usage_.gather(samples);
  if (log_ == nullptr) return;
  join_job();
  update_ = update;
  epoch_ = epoch;
  take_warnings();
  data::JsonRecord row{{"kind", "end"}, {"update", update}, {"epoch", epoch}, {"reason", reason}};
  for (const auto& entry : apps::usage_record(usage)) row.push_back(entry);
  row.emplace_back("watch_s", watch_s_);
  row.emplace_back("pictures_s", pictures_s_);
  row.emplace_back("seconds", now_s() - begin_s_);
  log_->write(row);
  for (const std::string& line : apps::usage_lines(usage)) log_info(line);
  last_report();
}

void RunWatch::failed(const std::string& message, int64_t update, int64_t epoch) {
  if (log_ == nullptr) return;
  join_job();
  update_ = update;
  epoch_ = epoch;
  take_warnings();
  log_->write({{"kind", "end"},
               {"update", update},
               {"epoch", epoch},
               {"reason", "failed: " + message},
               {"seconds", now_s() - begin_s_}});
  last_report();
}

void RunWatch::last_report() {
  try_once("report.html", report_works_, [&] {
    write_report(folder());
    log_info("report: ", folder(), "/", kReportFile);
  });
}

}  // namespace bora::train
