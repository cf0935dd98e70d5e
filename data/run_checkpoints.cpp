// SPDX-License-Identifier: Apache-2.0
#include "data/run_checkpoints.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <charconv>
#include <cinttypes>
#include <cstdio>
#include <filesystem>

#include "core/log.hpp"
#include "data/atomic_file.hpp"

namespace bora::data {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kUpdatePrefix = "update-", kSuffix = ".h5";

bool is_checkpoint_name(std::string_view name) {
  return name == kLastCheckpoint || name == kPreviousCheckpoint || name == kBestCheckpoint ||
         update_of(name);
}

std::string in_folder(const std::string& folder, std::string_view name) {
  return folder.empty() ? std::string(name) : folder + "/" + std::string(name);
}

/// Numbers of the files update-<n>.h5, the largest first.
std::vector<int64_t> updates_in(const std::string& folder) {
  std::vector<int64_t> updates;
  std::error_code ignored;
  for (fs::directory_iterator it(folder.empty() ? "." : folder, ignored), end;
       !ignored && it != end; it.increment(ignored))
    if (const auto update = update_of(it->path().filename().string())) updates.push_back(*update);
  std::sort(updates.rbegin(), updates.rend());
  return updates;
}

}  // namespace

std::string update_checkpoint(int64_t update) {
  BORA_CHECK(update >= 0, "update_checkpoint: wants a number of updates, got ", update);
  char name[64];
  std::snprintf(name, sizeof name, "update-%08" PRId64 ".h5", update);
  return name;
}

std::optional<int64_t> update_of(std::string_view name) {
  if (!name.starts_with(kUpdatePrefix) || !name.ends_with(kSuffix)) return std::nullopt;
  const std::string_view digits =
      name.substr(kUpdatePrefix.size(), name.size() - kUpdatePrefix.size() - kSuffix.size());
  int64_t update = -1;
  const char* last = digits.data() + digits.size();
  const auto [end, error] = std::from_chars(digits.data(), last, update);
  // Only names as we spell them: others are somebody else's files.
  if (error != std::errc{} || end != last || update < 0 || update_checkpoint(update) != name)
    return std::nullopt;
  return update;
}

std::vector<std::string> checkpoints_in(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code ignored;
  for (const std::string_view name : {kLastCheckpoint, kPreviousCheckpoint, kBestCheckpoint})
    if (fs::exists(in_folder(folder, name), ignored)) names.emplace_back(name);
  for (const int64_t update : updates_in(folder)) names.push_back(update_checkpoint(update));
  return names;
}

void save_last_checkpoint(const std::string& folder, const StateFunction& state) {
  BORA_CHECK(state, "save_last_checkpoint: wants a function that visits the state");
  CheckpointWriter writer;
  state(writer);
  RunCheckpoints(folder, 0).write(writer, std::string(kLastCheckpoint));
}

std::optional<std::string> latest_valid(const std::string& folder) {
  std::vector<std::string> names = checkpoints_in(folder);
  // The best one comes last: a run would lose all that it did since.
  std::stable_partition(names.begin(), names.end(),
                        [](const std::string& name) { return name != kBestCheckpoint; });
  std::string reasons;
  for (const std::string& name : names) {
    const std::string path = in_folder(folder, name);
    try {
      verify_checkpoint(path);
    } catch (const Error& e) {
      reasons.append(reasons.empty() ? "" : "; ").append(e.what());
      continue;
    }
    if (name != kLastCheckpoint)
      log_warn("using '", path, "', ",
               name == kPreviousCheckpoint ? "the save before the last"
               : name == kBestCheckpoint   ? "the best state so far, for want of a later one"
                                           : "a periodic save",
               ": ",
               reasons.empty() ? bora::detail::join("there is no ", kLastCheckpoint) : reasons);
    return path;
  }
  BORA_CHECK(reasons.empty(), "no usable checkpoint in '", folder, "': ", reasons);
  return std::nullopt;
}

RunCheckpoints::RunCheckpoints(std::string folder, int64_t keep)
    : folder_(std::move(folder)), keep_(keep) {}

std::string RunCheckpoints::path(std::string_view name) const { return in_folder(folder_, name); }

void RunCheckpoints::check_name(const std::string& name) const {
  BORA_CHECK(name == kLastCheckpoint || name == kBestCheckpoint || update_of(name),
             "a run's checkpoint cannot be called '", name, "': wanted ", kLastCheckpoint, ", ",
             kBestCheckpoint, " or update-<number>.h5");
  BORA_CHECK(keep_ > 0 || !update_of(name), "checkpoint '", name,
             "': none of its kind is to be kept");
}

RunCheckpoints::Identity RunCheckpoints::identity(const std::string& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) return {};
  return {static_cast<uint64_t>(info.st_dev), static_cast<uint64_t>(info.st_ino),
          static_cast<int64_t>(info.st_size), static_cast<int64_t>(info.st_mtim.tv_sec),
          static_cast<int64_t>(info.st_mtim.tv_nsec)};
}

// A damaged last.h5 must not push out a previous one that is whole.
bool RunCheckpoints::last_is_whole() const {
  const std::string last = path(kLastCheckpoint);
  const Identity found = identity(last);
  if (found.bytes < 0) return true;  // there is none, and nothing to keep
  if (found == own_last_) return true;
  try {
    verify_checkpoint(last);
    return true;
  } catch (const Error& e) {
    log_warn(e.what(), "; it is replaced and not kept as ", kPreviousCheckpoint);
    return false;
  }
}

void RunCheckpoints::write(CheckpointWriter& writer, const std::string& name) {
  check_name(name);
  const bool last = name == kLastCheckpoint;
  writer.commit(path(name), last && last_is_whole() ? path(kPreviousCheckpoint) : std::string());
  if (last) own_last_ = identity(path(name));
  if (const auto update = update_of(name)) retire(*update);
}

void RunCheckpoints::retire(int64_t newest) const {
  int64_t n = 0;
  for (const int64_t update : updates_in(folder_)) {
    if (update <= newest && ++n <= keep_) continue;
    const std::string old = path(update_checkpoint(update));
    std::error_code failure;
    fs::remove(old, failure);
    if (failure)
      log_warn("cannot remove ", old, ": ", failure.message());
    else if (update > newest)
      log_info("removed ", old, ": the run has gone back to update ", newest);
  }
}

void RunCheckpoints::remove_rubbish() const {
  remove_dead_temporaries(folder_,
                          [](const std::string& name) { return is_checkpoint_name(name); });
}

}  // namespace bora::data
