// SPDX-License-Identifier: Apache-2.0
#include "apps/unet3d/predict_inputs.hpp"

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <utility>

#include "core/error.hpp"
#include "data/folder_files.hpp"

namespace bora::unet3d {
namespace {

namespace fs = std::filesystem;

/// All files of a folder whose names end in `suffix`, sorted.
std::vector<std::string> files_in(const std::string& folder, const PredictNames& names) {
  std::vector<std::string> files;
  const std::string& suffix = names.suffix;
  std::vector<fs::path> all;
  try {
    all = data::files_below(folder);
  } catch (const Error& e) {
    throw UsageError(std::string("predict: ") + e.what());
  }
  // A link to nothing is looked into later, and named.
  for (const fs::path& file : all) {
    // One that is called just like the suffix is the case of its folder, as in training.
    if (file.filename().string().ends_with(suffix)) files.push_back(file.string());
  }
  if (files.empty())
    throw UsageError("predict: no " + names.what + " in folder '" + folder +
                     "': wanted files called <case>" + suffix + " (" + names.suffix_key +
                     " of the run)");
  std::sort(files.begin(), files.end());
  return files;
}

/// A path that is the same for all spellings of it.
std::string canonical(const std::string& path) {
  std::error_code code;
  const fs::path found = fs::weakly_canonical(path, code);
  return code ? fs::absolute(path).lexically_normal().string() : found.string();
}

std::vector<PredictInput> find_here(const std::vector<std::string>& paths,
                                    const std::string& output, const PredictNames& names,
                                    const std::vector<std::string>& others) {
  std::vector<std::string> files;
  for (const std::string& path : paths) {
    std::error_code ignored;
    if (!fs::is_directory(path, ignored)) {
      files.push_back(path);
      continue;
    }
    const std::vector<std::string> found = files_in(path, names);
    files.insert(files.end(), found.begin(), found.end());
  }
  const bool is_file = names.is_file(output);
  if (is_file && files.size() > 1)
    throw UsageError("predict: --output=" + output + " is one file for " +
                     std::to_string(files.size()) + " " + names.what + "s; give a folder");
  std::set<std::string> read;
  for (const std::vector<std::string>* list : {&std::as_const(files), &others})
    for (const std::string& path : *list)
      if (!path.empty()) read.insert(canonical(path));
  std::vector<PredictInput> inputs;
  std::map<std::string, std::string> written;  // output -> input
  for (const std::string& file : files) {
    const std::string to = is_file ? output : (fs::path(output) / names.output(file)).string();
    const std::string canonical_to = canonical(to);
    if (read.contains(canonical_to))
      throw UsageError("predict: the prediction of '" + file + "' would replace the input '" + to +
                       "'");
    const auto [it, fresh] = written.emplace(canonical_to, file);
    if (!fresh)
      throw UsageError("predict: '" + it->second + "' and '" + file +
                       "' would write the same file '" + to + "'");
    inputs.push_back({file, to});
  }
  return inputs;
}

// Paths may hold any character but 0.
constexpr char kEnd = '\0';

std::string pack(const std::vector<PredictInput>& inputs) {
  std::string text;
  for (const PredictInput& i : inputs) text += i.file + kEnd + i.output + kEnd;
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
                                              const std::string& output, const PredictNames& names,
                                              const std::vector<std::string>& others,
                                              Collective& ranks) {
  // Looked at by one rank: others may see a file system that is not the same yet.
  return made_by_rank_0(ranks, "looking for the inputs",
                        [&] { return find_here(paths, output, names, others); });
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
