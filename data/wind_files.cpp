// SPDX-License-Identifier: Apache-2.0
#include "data/wind_files.hpp"

#include <algorithm>
#include <filesystem>
#include <map>

#include "core/counted.hpp"
#include "core/error.hpp"
#include "core/log.hpp"
#include "data/folder_files.hpp"
#include "data/packed_text.hpp"
#include "data/text_rows.hpp"
#include "data/wind_check.hpp"
#include "data/wind_list.hpp"

namespace bora::data {

namespace {

namespace fs = std::filesystem;

bool ends_with(const std::string& text, const std::string& end) {
  return text.size() > end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}

/// Case -> files, sorted; appends to `problems`.
std::map<std::string, std::vector<std::string>> list_folder(const std::string& root,
                                                            const std::string& folder,
                                                            const std::string& suffix,
                                                            std::vector<std::string>& problems) {
  const fs::path path = fs::path(root) / folder;
  std::error_code code;
  BORA_CHECK(fs::is_directory(path, code), "data folder '", path.string(), "' does not exist",
             code && code != std::errc::no_such_file_or_directory
                 ? bora::detail::join(" (", code.message(), ")")
                 : std::string());
  const std::string extension = fs::path(suffix).extension().string();
  std::map<std::string, std::vector<std::string>> files;
  // A link to nothing is looked into later, and named.
  for (const fs::path& file : files_below(path.string())) {
    const std::string name = file.filename().string();
    if (ends_with(name, suffix))
      files[name.substr(0, name.size() - suffix.size())].push_back(file.string());
    else if (file.extension() == extension)
      problems.push_back(bora::detail::join("'", file.string(), "' is not called <case>", suffix));
  }
  for (auto& [name, paths] : files) std::sort(paths.begin(), paths.end());
  return files;
}

WindCase pair_of(const std::string& name, const std::string& wind, const std::string& mask) {
  WindCase c;
  c.name = name;
  c.wind_path = wind;
  c.mask_path = mask;
  return c;
}

void pair_files(const WindConfig& config, WindFiles& out) {
  const WindFilesConfig& f = config.files;
  const auto wind = list_folder(config.root, f.wind_folder, f.wind_suffix, out.problems);
  const auto mask = list_folder(config.root, f.mask_folder, f.mask_suffix, out.problems);
  for (const auto* files : {&wind, &mask})
    for (const auto& [name, paths] : *files)
      if (paths.size() > 1) {
        std::string text = "case '" + name + "' occurs " + std::to_string(paths.size()) + " times:";
        for (const std::string& path : paths) text += " '" + path + "'";
        out.problems.push_back(text);
      }
  for (const auto& [name, paths] : wind) {
    const auto partner = mask.find(name);
    if (partner == mask.end())
      out.problems.push_back("'" + paths[0] + "' has no mask '" + name + f.mask_suffix + "' in " +
                             f.mask_folder);
    else if (paths.size() == 1 && partner->second.size() == 1)
      out.cases.push_back(pair_of(name, paths[0], partner->second[0]));
  }
  for (const auto& [name, paths] : mask)
    if (!wind.contains(name))
      out.problems.push_back("'" + paths[0] + "' has no wind file '" + name + f.wind_suffix +
                             "' in " + f.wind_folder);
}

/// No wind field may be both trained on and checked with: one that two cases name, of groups or
/// parts of their own, leaves both out.
void refuse_shared_files(WindFiles& files) {
  std::map<std::string, std::vector<size_t>> by_file;
  for (size_t i = 0; i < files.cases.size(); ++i) by_file[files.cases[i].wind_id].push_back(i);
  std::vector<bool> bad(files.cases.size(), false);
  for (const auto& [file, indices] : by_file)
    for (size_t k = 1; k < indices.size(); ++k) {
      const WindCase &a = files.cases[indices[0]], &b = files.cases[indices[k]];
      if (a.group == b.group && a.part == b.part) continue;
      bad[indices[0]] = bad[indices[k]] = true;
      files.problems.push_back("cases '" + a.name + "' and '" + b.name + "' are both of '" +
                               a.wind_path + "', but may come to different sides of the split");
    }
  size_t kept = 0;
  for (size_t i = 0; i < files.cases.size(); ++i)
    if (!bad[i] && kept++ != i) files.cases[kept - 1] = std::move(files.cases[i]);
  files.cases.resize(kept);
}

/// The list of pairs that rank 0 made, as text for the others.
std::string pack_pairs(const WindFiles& files) {
  TextPacker out;
  out.add(files.cases.size());
  for (const WindCase& c : files.cases) {
    for (const std::string* text : {&c.name, &c.wind_path, &c.mask_path, &c.part, &c.wind_id})
      out.add(*text);
    out.add(c.listed_angle_deg.has_value());
    if (c.listed_angle_deg) out.add(*c.listed_angle_deg);
    out.add(c.listed_group.has_value());
    if (c.listed_group) out.add(*c.listed_group);
  }
  for (const std::string& problem : files.problems) out.add(one_line(problem));
  return out.text();
}

WindFiles unpack_pairs(const std::string& text) {
  WindFiles files;
  TextUnpacker in(text, "list of the wind files");
  files.cases.resize(in.next_number());
  for (WindCase& c : files.cases) {
    for (std::string* field : {&c.name, &c.wind_path, &c.mask_path, &c.part, &c.wind_id})
      *field = in.next();
    if (in.next_number() != 0) c.listed_angle_deg = in.next_double();
    if (in.next_number() != 0) c.listed_group = in.next();
  }
  while (!in.done()) files.problems.push_back(in.next());
  return files;
}

}  // namespace

WindFiles find_wind_files(const WindConfig& config, Collective* ranks,
                          const PreflightHooks& hooks) {
  check_wind_config(config);
  WindFiles files;
  const bool first = !ranks || ranks->rank() == 0;
  const auto pair = [&] {
    if (!first) return;
    if (config.files.list.empty())
      pair_files(config, files);
    else
      read_wind_list(config, files);
    for (WindCase& c : files.cases) c.wind_id = file_identity(c.wind_path);
  };
  if (ranks) {
    ranks->agree("looking for the wind files", pair);
    files = unpack_pairs(ranks->broadcast_text(first ? pack_pairs(files) : "", 0, "wind files"));
  } else {
    pair();
  }
  const auto n_found = std::ssize(files.cases);
  look_into_all(config, files, ranks, hooks);
  refuse_shared_files(files);
  std::sort(files.problems.begin(), files.problems.end());
  settle_problems(files.problems, "the files in '" + config.root + "'",
                  config.files.on_bad_files == "refuse", "data.files.on_bad_files", ranks, hooks);
  BORA_CHECK(!files.cases.empty() || n_found == 0, "no case is left of ", counted(n_found, "case"),
             " in '", config.root, "': each has a problem (see above)");
  BORA_CHECK(!files.cases.empty(), "no case in '", config.root, "': wanted pairs of ",
             config.files.wind_folder, "/<case>", config.files.wind_suffix, " and ",
             config.files.mask_folder, "/<case>", config.files.mask_suffix,
             config.files.list.empty() ? "" : ", as listed in ", config.files.list);
  std::vector<NamedMissing> missing;
  for (const WindCase& c : files.cases) missing.push_back({c.name, c.missing});
  if (first) tell_missing(missing, "data.files.missing");
  return files;
}

Split split_wind(const std::vector<WindCase>& cases, const SplitConfig& config) {
  std::vector<std::string> names, groups, parts;
  for (const WindCase& c : cases) {
    names.push_back(c.name);
    groups.push_back(c.group);
    parts.push_back(c.part);
  }
  return make_split(names, groups, parts, config);
}

std::vector<std::string> unnamed_wind_axes(const WindFilesConfig& files) {
  std::vector<std::string> names;
  for (const char letter : files.order)
    names.push_back(letter == 'c' ? "c" : files.axes.at(static_cast<size_t>(letter - 'x')));
  return names;
}

NetcdfFile open_wind_file(const WindFilesConfig& files, const std::string& path) {
  return NetcdfFile::open(path, unnamed_wind_axes(files));
}

std::string wind_case_name(const WindConfig& config, const std::string& mask_path) {
  const std::string file = fs::path(mask_path).filename().string();
  const std::string& suffix = config.files.mask_suffix;
  return ends_with(file, suffix) ? file.substr(0, file.size() - suffix.size())
                                 : fs::path(file).stem().string();
}

WindCase open_wind_case(const WindConfig& config, const std::string& mask_path,
                        const std::string& wind_path) {
  WindCase c;
  c.mask_path = mask_path;
  c.wind_path = wind_path;
  c.name = wind_case_name(config, mask_path);
  // The layout only matters for splits; the angle only where the network is told it.
  WindFilesConfig names = config.files;
  names.layout_pattern.clear();
  if (!config.angle_channels) names.angle_patterns.clear();
  WindNames(names).apply(c);
  std::vector<std::string> problems;
  look_into(config, c, PreflightDepth::headers, problems);
  if (!problems.empty()) throw Error(problems[0]);
  return c;
}

}  // namespace bora::data
