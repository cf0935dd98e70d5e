// SPDX-License-Identifier: Apache-2.0
#include "apps/unet3d/predict_inputs.hpp"

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <utility>

#include "core/error.hpp"
#include "data/wind_files.hpp"

namespace bora::unet3d {
namespace {

namespace fs = std::filesystem;

/// All files of a folder whose names end in `suffix`, sorted.
std::vector<std::string> masks_in(const std::string& folder, const std::string& suffix) {
  std::vector<std::string> masks;
  std::error_code code;
  const auto options = fs::directory_options::follow_directory_symlink;
  for (fs::recursive_directory_iterator it(folder, options, code), end; it != end && !code;
       it.increment(code)) {
    std::error_code ignored;  // a link to nothing is looked into later, and named
    const std::string name = it->path().filename().string();
    if (!it->is_directory(ignored) && name.size() > suffix.size() && name.ends_with(suffix))
      masks.push_back(it->path().string());
  }
  if (code) throw UsageError("predict: cannot list '" + folder + "': " + code.message());
  if (masks.empty())
    throw UsageError("predict: no mask in folder '" + folder + "': wanted files called <case>" +
                     suffix + " (data.files.mask_suffix of the run)");
  std::sort(masks.begin(), masks.end());
  return masks;
}

/// A path that is the same for all spellings of it.
std::string canonical(const std::string& path) {
  std::error_code code;
  const fs::path found = fs::weakly_canonical(path, code);
  return code ? fs::absolute(path).lexically_normal().string() : found.string();
}

std::vector<PredictInput> find_here(const std::vector<std::string>& paths,
                                    const std::string& output, const data::WindConfig& config,
                                    const std::vector<std::string>& others) {
  std::vector<std::string> masks;
  for (const std::string& path : paths) {
    std::error_code ignored;
    if (!fs::is_directory(path, ignored)) {
      masks.push_back(path);
      continue;
    }
    const std::vector<std::string> found = masks_in(path, config.files.mask_suffix);
    masks.insert(masks.end(), found.begin(), found.end());
  }
  const bool is_file = output.ends_with(".nc");
  if (is_file && masks.size() > 1)
    throw UsageError("predict: --output=" + output + " is one file for " +
                     std::to_string(masks.size()) + " masks; give a folder");
  std::set<std::string> read;
  for (const std::vector<std::string>* list : {&std::as_const(masks), &others})
    for (const std::string& path : *list)
      if (!path.empty()) read.insert(canonical(path));
  std::vector<PredictInput> inputs;
  std::map<std::string, std::string> written;  // output -> mask
  for (const std::string& mask : masks) {
    const std::string to =
        is_file
            ? output
            : (fs::path(output) / (data::wind_case_name(config, mask) + "_prediction.nc")).string();
    const std::string file = canonical(to);
    if (read.contains(file))
      throw UsageError("predict: the field of '" + mask + "' would replace the input '" + to + "'");
    const auto [it, fresh] = written.emplace(file, mask);
    if (!fresh)
      throw UsageError("predict: '" + it->second + "' and '" + mask +
                       "' would write the same file '" + to + "'");
    inputs.push_back({mask, to});
  }
  return inputs;
}

// Paths may hold any character but 0.
constexpr char kEnd = '\0';

std::string pack(const std::vector<PredictInput>& inputs) {
  std::string text;
  for (const PredictInput& i : inputs) text += i.mask + kEnd + i.output + kEnd;
  return text;
}

std::vector<PredictInput> unpack(const std::string& text) {
  std::vector<PredictInput> inputs;
  for (size_t at = 0; at < text.size();) {
    const size_t middle = text.find(kEnd, at), end = text.find(kEnd, middle + 1);
    inputs.push_back({text.substr(at, middle - at), text.substr(middle + 1, end - middle - 1)});
    at = end + 1;
  }
  return inputs;
}

/// `make` on rank 0, for all.
template <class Make>
std::vector<PredictInput> made_by_rank_0(Collective& ranks, const char* what, Make make) {
  std::vector<PredictInput> inputs;
  ranks.agree(what, [&] {
    if (ranks.rank() == 0) inputs = make();
  });
  return unpack(ranks.broadcast_text(pack(inputs), 0, what));
}

}  // namespace

std::vector<PredictInput> find_predict_inputs(const std::vector<std::string>& paths,
                                              const std::string& output,
                                              const data::WindConfig& config,
                                              const std::vector<std::string>& others,
                                              Collective& ranks) {
  // Looked at by one rank: others may see a file system that is not the same yet.
  return made_by_rank_0(ranks, "looking for masks",
                        [&] { return find_here(paths, output, config, others); });
}

Existing existing_from(const std::string& text) {
  if (text == "replace") return Existing::replace;
  if (text == "skip") return Existing::skip;
  if (text == "refuse") return Existing::refuse;
  throw UsageError("existing '" + text + "': wanted replace, skip or refuse");
}

std::vector<PredictInput> without_existing(std::vector<PredictInput> inputs, Existing existing,
                                           Collective& ranks) {
  if (existing == Existing::replace) return inputs;
  return made_by_rank_0(ranks, "looking for earlier predictions", [&] {
    std::vector<PredictInput> left;
    for (const PredictInput& i : inputs) {
      if (!fs::exists(i.output)) {
        left.push_back(i);
      } else if (existing == Existing::refuse) {
        throw UsageError("predict: '" + i.output +
                         "' exists; --existing=replace replaces, --existing=skip leaves such out");
      }
    }
    return left;
  });
}

}  // namespace bora::unet3d
