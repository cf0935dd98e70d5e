// SPDX-License-Identifier: Apache-2.0
// The flight recorder's contents as a table for people, and as a file.
#include "comm/flight_recorder.hpp"

#include "core/log.hpp"

#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>

namespace bora {
namespace {

template <class... Arguments>
std::string format(const char* how, Arguments... arguments) {
  std::array<char, 512> text;
  const int n = std::snprintf(text.data(), text.size(), how, arguments...);
  return {text.data(), std::min(static_cast<size_t>(n < 0 ? 0 : n), text.size() - 1)};
}

std::string wall_time(int64_t ns, const char* how) {
  const time_t seconds = ns / 1'000'000'000;
  tm parts{};
  ::gmtime_r(&seconds, &parts);
  std::array<char, 64> text;
  const size_t n = std::strftime(text.data(), text.size(), how, &parts);
  return std::string(text.data(), n) + format(".%03d", static_cast<int>(ns / 1'000'000 % 1000));
}

// A phase from `begin` to `end`, or to now ("+") where it still goes on.
std::string phase(int64_t begin, int64_t end, int64_t now) {
  if (begin == 0) return "-";
  const auto seconds = [&](int64_t until) { return static_cast<double>(until - begin) * 1e-9; };
  return end != 0 ? format("%.6f", seconds(end)) : format("%.3f+", seconds(now));
}

std::string line_of(const FlightEntry& e, int64_t now, int64_t steady_to_wall) {
  // A phase ends where the next one that there was begins.
  const int64_t data_end = e.ended_ns;
  const int64_t wait_end = e.moving_ns != 0 ? e.moving_ns : data_end;
  const int64_t queue_end = e.arrived_ns != 0 ? e.arrived_ns : wait_end;
  const bool has_data = e.count >= 0;
  std::string line = format(
      "%7llu  %s  %-7s  %-14s %6s  %-4s %12s  %11s %11s %11s  %s%s",
      static_cast<unsigned long long>(e.id),
      wall_time(e.queued_ns + steady_to_wall, "%H:%M:%S").c_str(),
      std::string(name_of(e.state)).c_str(), e.operation,
      e.sequence != 0 ? format("#%llu", static_cast<unsigned long long>(e.sequence)).c_str() : "-",
      has_data ? std::string(name_of(e.type)).c_str() : "-",
      has_data ? format("%lld", static_cast<long long>(e.count)).c_str() : "-",
      phase(e.queued_ns, queue_end, now).c_str(), phase(e.arrived_ns, wait_end, now).c_str(),
      phase(e.moving_ns, data_end, now).c_str(), e.group[0] != 0 ? e.group : "-",
      e.label[0] != 0 ? format("  '%s'", e.label).c_str() : "");
  if (e.peer >= 0) line += format("  with rank %d", e.peer);
  if (e.fault[0] != 0) line += format("\n           ^ %s", e.fault);
  return line + "\n";
}

}  // namespace

std::string FlightEntry::describe() const {
  std::string text = operation;
  if (label[0] != 0) text += detail::join(" '", label, "'");
  if (sequence != 0) text += detail::join(" #", sequence);
  if (group[0] != 0) text += detail::join(" of ", group);
  return text;
}

void FlightRecorder::set_identity(int rank, int size, std::string host) {
  const std::lock_guard lock(mutex_);
  rank_ = rank;
  size_ = size;
  host_ = std::move(host);
}
int FlightRecorder::rank() const {
  const std::lock_guard lock(mutex_);
  return rank_;
}
std::string FlightRecorder::host() const {
  const std::lock_guard lock(mutex_);
  return host_;
}
void FlightRecorder::set_folder(std::string folder) {
  const std::lock_guard lock(mutex_);
  if (folder != folder_) written_ = false;
  folder_ = std::move(folder);
}
std::string FlightRecorder::folder() const {
  const std::lock_guard lock(mutex_);
  return folder_;
}

std::string FlightRecorder::text(std::string_view reason, std::string_view more) const {
  const std::vector<FlightEntry> all = entries();
  const int64_t now = steady_now_ns(), steady_to_wall = anchor_wall_ns_ - anchor_steady_ns_;
  std::string text;
  {
    const std::lock_guard lock(mutex_);
    text = detail::join("flight record of rank ", rank_, " of ", size_, ", host ",
                        host_.empty() ? "?" : host_, ", process ", ::getpid(), ", written ",
                        wall_time(now + steady_to_wall, "%Y-%m-%d %H:%M:%S"), " UTC\n");
  }
  text += detail::join("why: ", reason, "\n", more);
  text += detail::join("the last ", all.size(), " of ", n_recorded(),
                       " operations, oldest first; seconds in the queue, waiting for other ranks, "
                       "moving data; + goes on\n");
  if (n_dropped() > 0)
    text += detail::join(n_dropped(), " operations were not recorded: too many were under way\n");
  text += format("%7s  %-12s  %-7s  %-14s %6s  %-4s %12s  %11s %11s %11s  %s\n", "id", "begun",
                 "state", "operation", "number", "type", "elements", "queued_s", "waited_s",
                 "moved_s", "group, label");
  for (const FlightEntry& e : all) text += line_of(e, now, steady_to_wall);
  return text;
}

std::string FlightRecorder::write(std::string_view reason, std::string_view more) {
  try {
    const std::string record = text(reason, more);
    const std::lock_guard lock(mutex_);
    if (folder_.empty()) return {};
    std::error_code ignored;  // opening the file says it better
    std::filesystem::create_directories(folder_, ignored);
    const std::string path = folder_ + "/flight-" + std::to_string(rank_) + ".txt";
    std::FILE* file = std::fopen(path.c_str(), written_ ? "a" : "w");
    bool ok = file != nullptr;
    if (ok) {
      if (written_) ok = std::fputc('\n', file) != EOF;
      ok = std::fwrite(record.data(), 1, record.size(), file) == record.size() && ok;
      ok = std::fclose(file) == 0 && ok;
    }
    if (!ok) {
      log_warn("cannot write the flight record ", path, ": ", std::strerror(errno));
      return {};
    }
    written_ = true;
    return path;
  } catch (const std::exception& e) {
    log_warn("cannot write a flight record: ", e.what());
    return {};
  }
}

void set_flight_record_folder(const std::string& folder) {
  const char* named = std::getenv("BORA_FLIGHT_RECORD_DIR");
  if (named == nullptr || *named == 0) FlightRecorder::instance().set_folder(folder);
}

}  // namespace bora
