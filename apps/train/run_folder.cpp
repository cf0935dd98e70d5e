// SPDX-License-Identifier: Apache-2.0
#include "apps/train/run_folder.hpp"

#include <filesystem>
#include <string>
#include <vector>

#include "apps/train/report.hpp"
#include "core/error.hpp"
#include "data/run_checkpoints.hpp"
#include "data/tensorboard.hpp"

namespace bora::train {
namespace {

/// What a run leaves in its folder.
std::vector<std::string> run_files(const std::string& dir) {
  std::vector<std::string> names = data::checkpoints_in(dir);
  for (const char* name : {"metrics.jsonl", "config.toml"})
    if (std::filesystem::exists(dir + "/" + name)) names.emplace_back(name);
  return names;
}

}  // namespace

std::shared_ptr<RunLock> claim_folder(const RunConfig& config) {
  namespace fs = std::filesystem;
  const std::string& dir = config.output.dir;
  std::error_code failure;
  fs::create_directories(dir, failure);
  BORA_CHECK(!failure, "cannot make the folder ", dir, ": ", failure.message());
  auto lock = std::make_shared<RunLock>(dir);
  if (config.resume) return lock;
  for (const std::string& name : run_files(dir)) {
    const std::string path = dir + "/" + name;
    if (!config.overwrite)
      throw UsageError("output.dir " + dir + " holds a run already (" + name +
                       "): --resume goes on with it, --overwrite removes it and begins anew");
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
