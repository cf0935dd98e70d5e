// SPDX-License-Identifier: Apache-2.0
#include "comm/nccl_log.hpp"

#include "comm/transport_communicator.hpp"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <map>
#include <sstream>
#include <thread>

namespace bora {
namespace {

struct Log {
  bool answered = false;
  std::string head;
  std::map<uint64_t, std::string> issued;
  uint64_t last = 0;
};

Log parsed(const std::string& text) {
  Log log;
  std::istringstream lines(text);
  log.answered = static_cast<bool>(std::getline(lines, log.head));
  lines >> log.last;
  uint64_t number = 0;
  while (lines >> number) {
    lines.get();  // the space
    std::getline(lines, log.issued[number]);
  }
  return log;
}

std::string one_line(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

}  // namespace

uint64_t IssueLog::add(std::string text) {
  const std::lock_guard lock(mutex_);
  ++number_;
  hash_ = fnv1a(text, hash_);
  kept_[number_ % kKept] = one_line(std::move(text));
  return number_;
}

uint64_t IssueLog::number() const {
  const std::lock_guard lock(mutex_);
  return number_;
}

uint64_t IssueLog::hash() const {
  const std::lock_guard lock(mutex_);
  return hash_;
}

void IssueLog::forget() {
  const std::lock_guard lock(mutex_);
  hash_ = kFnvOffset;
  first_ = number_ + 1;
}

std::string IssueLog::text(const std::string& head) const {
  const std::lock_guard lock(mutex_);
  std::string text = detail::join(one_line(head), '\n', number_, '\n');
  const uint64_t kept = number_ > kKept ? number_ - kKept + 1 : 1;
  for (uint64_t n = std::max(first_, kept); n <= number_; ++n)
    text += detail::join(n, ' ', kept_[n % kKept], '\n');
  return text;
}

std::string compare_logs(const std::vector<std::string>& texts) {
  std::vector<Log> logs;
  for (const std::string& text : texts) logs.push_back(parsed(text));
  const auto first = static_cast<size_t>(
      std::find_if(logs.begin(), logs.end(), [](const Log& l) { return l.answered; }) -
      logs.begin());
  if (first == logs.size()) return "no rank answered";
  const auto who = [&](size_t r) { return detail::join("rank ", r, " (", logs[r].head, ")"); };
  // The earliest number under which two ranks have different texts.
  uint64_t number = UINT64_MAX;
  size_t other = 0;
  uint64_t most = 0;
  for (size_t r = first; r < logs.size(); ++r) {
    most = std::max(most, logs[r].last);
    for (const auto& [n, text] : logs[r].issued) {
      const auto same = logs[first].issued.find(n);
      if (same == logs[first].issued.end() || same->second == text || n >= number) continue;
      number = n;
      other = r;
    }
  }
  if (number != UINT64_MAX)
    return detail::join("the ranks have issued different operations: as number ", number, " ",
                        who(first), " issued ", logs[first].issued[number], ", ", who(other),
                        " issued ", logs[other].issued[number]);
  std::string behind, silent;
  size_t ahead = first;
  for (size_t r = 0; r < logs.size(); ++r) {
    if (logs[r].last > logs[ahead].last) ahead = r;
    if (!logs[r].answered) silent += detail::join(silent.empty() ? "" : ", ", "rank ", r);
    if (logs[r].answered && logs[r].last < most)
      behind += detail::join(behind.empty() ? "" : ", ", who(r), " has issued only ", logs[r].last);
  }
  if (!silent.empty()) return silent + " did not answer";
  if (!behind.empty())
    return detail::join(behind, " of ", most, " operations; next would be ",
                        logs[ahead].issued[std::min(most, logs[ahead].last)]);
  return detail::join("all ranks have issued the same ", most,
                      " operations, so a device, a link or a library hangs: ", who(first),
                      logs.size() > 1 ? "; the other ranks' states: " : "", [&] {
                        std::string rest;
                        for (size_t r = first + 1; r < logs.size(); ++r)
                          rest += (rest.empty() ? "" : "; ") + who(r);
                        return rest;
                      }());
}

// Shared with the thread, which may outlive the inquest.
struct NcclInquest::Answer {
  std::unique_ptr<Collective> group;
  std::mutex mutex;
  std::condition_variable changed;
  bool started = false, done = false;
  std::string text;
};

NcclInquest::NcclInquest(std::unique_ptr<Collective> group, double limit_s)
    : answer_(std::make_shared<Answer>()), limit_s_(limit_s) {
  BORA_CHECK(group != nullptr && limit_s > 0, "NcclInquest: wants a group and a limit, got ",
             limit_s, " s");
  // Its own error names the ranks that are missing.
  if (auto* mpi = dynamic_cast<TransportCommunicator*>(group.get())) mpi->set_timeout(limit_s);
  answer_->group = std::move(group);
}

std::string NcclInquest::hold(const std::string& mine) noexcept {
  try {
    {
      const std::lock_guard lock(answer_->mutex);
      BORA_CHECK(!answer_->started, "NcclInquest: held twice");
      answer_->started = true;
    }
    std::thread([answer = answer_, mine] {
      std::string text;
      try {
        text = compare_logs(answer->group->all_gather_text(mine, "what has been issued"));
      } catch (const std::exception& e) {
        text = detail::join("the ranks could not be compared: ", e.what());
      }
      const std::lock_guard lock(answer->mutex);
      answer->text = std::move(text);
      answer->done = true;
      answer->changed.notify_all();
    }).detach();
    constexpr double kMargin_s = 2.0;  // for the group's own error to arrive
    std::unique_lock lock(answer_->mutex);
    if (answer_->changed.wait_for(lock, std::chrono::duration<double>(limit_s_ + kMargin_s),
                                  [&] { return answer_->done; }))
      return answer_->text;
    return detail::join("not all ranks answered within ", limit_s_,
                        " s: one has ended, or is busy with something else and has not come to ",
                        "this operation");
  } catch (const std::exception& e) {
    return detail::join("the ranks could not be compared: ", e.what());
  }
}

}  // namespace bora
