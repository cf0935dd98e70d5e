// SPDX-License-Identifier: Apache-2.0
#include "apps/train/run_folder.hpp"

#include <filesystem>
#include <string>
#include <vector>

#include "apps/train/report.hpp"
#include "core/error.hpp"
#include "data/output_place.hpp"
#include "data/run_checkpoints.hpp"
#include "data/tensorboard.hpp"

namespace bora::train {
namespace {

/// What a run leaves in its folder, and what another one would take for its own.
std::vector<std::string> run_files(const std::string& dir) {
  std::vector<std::string> names = data::checkpoints_in(dir);
  for (const char* name : {"metrics.jsonl", "config.toml"})
    if (std::error_code ignored; std::filesystem::exists(dir + "/" + name, ignored))
      names.emplace_back(name);
  return names;
}

}  // namespace

std::string other_run(const RunConfig& config) {
  const std::vector<std::string> names = run_files(config.output.dir);
  if (names.empty()) return {};
  if (!config.resume && !config.overwrite)
    throw UsageError("output.dir " + config.output.dir + " holds a run already (" + names[0] +
                     "): --resume goes on with it, --overwrite removes it and begins anew");
  return names[0];
}

std::shared_ptr<RunLock> claim_folder(const RunConfig& config) {
  namespace fs = std::filesystem;
  const std::string& dir = config.output.dir;
  data::make_folder(dir, "output.dir " + dir);
  auto lock = std::make_shared<RunLock>(dir);
  other_run(config);
  if (config.resume) return lock;
  std::error_code failure;
  for (const std::string& name : run_files(dir)) {
    const std::string path = dir + "/" + name;
    fs::remove(path, failure);
    BORA_CHECK(!failure, "cannot remove ", path, ": ", failure.message());
  }
  // Records of an earlier run that hung would be taken for this one's.
  for (const fs::directory_entry& entry : fs::directory_iterator(dir, failure)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("flight-") && name.ends_with(".txt")) fs::remove(entry.path(), failure);
    if (config.overwrite && (data::is_event_file(name) || name == kReportFile))
      fs::remove(entry.path(), failure);
  }
  for (const fs::directory_entry& entry :
       fs::directory_iterator(dir + "/" + kPictureFolder, failure))
    if (config.overwrite && entry.path().extension() == ".png") fs::remove(entry.path(), failure);
  return lock;
}

}  // namespace bora::train
