// SPDX-License-Identifier: Apache-2.0
#include "data/volume_list.hpp"

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>

#include "core/error.hpp"
#include "core/log.hpp"
#include "data/byte_source.hpp"
#include "data/case_table.hpp"
#include "data/csv.hpp"
#include "data/folder_files.hpp"
#include "data/name_pattern.hpp"
#include "data/packed_text.hpp"
#include "data/volume_groups.hpp"

namespace bora::data {
namespace {

namespace fs = std::filesystem;

/// Files of one kind by case, sorted.
using FilesByCase = std::map<std::string, std::vector<std::string>>;
struct Folder {
  FilesByCase images, labels, weights;
};

/// The case of a file whose name ends in the suffix; nothing if it does not.  A file that is called
/// just like the suffix is the case of its folder.
std::optional<std::string> case_of(const fs::path& root, const fs::path& file,
                                   const std::string& suffix) {
  const std::string name = file.filename().string();
  if (suffix.empty() || !name.ends_with(suffix)) return std::nullopt;
  if (name.size() > suffix.size()) return name.substr(0, name.size() - suffix.size());
  const std::string folder = file.parent_path().lexically_relative(root).string();
  if (folder.empty() || folder == ".") return std::nullopt;
  return folder;
}

Folder search(const VolumesConfig& config) {
  const fs::path root = config.root;
  std::error_code code;
  BORA_CHECK(fs::is_directory(root, code), "data folder '", config.root,
             fs::exists(root, code) ? "' is a file, wanted a folder" : "' does not exist",
             code && code != std::errc::no_such_file_or_directory
                 ? bora::detail::join(" (", code.message(), ")")
                 : std::string());
  // A name that fits two suffixes belongs to the longer one: ".nii.gz" and "-mask.nii.gz".
  Folder found;
  std::vector<std::pair<std::string, FilesByCase*>> kinds{{config.image_suffix, &found.images}};
  if (config.label_suffix != config.image_suffix)
    kinds.emplace_back(config.label_suffix, &found.labels);
  if (config.weight_suffix != config.image_suffix && config.weight_suffix != config.label_suffix)
    kinds.emplace_back(config.weight_suffix, &found.weights);
  std::stable_sort(kinds.begin(), kinds.end(),
                   [](const auto& a, const auto& b) { return a.first.size() > b.first.size(); });
  int64_t n_others = 0;
  std::string other;
  // A link to nothing is looked into later, and named.
  for (const fs::path& file : files_below(config.root)) {
    const auto kind = std::find_if(kinds.begin(), kinds.end(), [&](const auto& k) {
      return case_of(root, file, k.first).has_value();
    });
    if (kind != kinds.end()) {
      (*kind->second)[*case_of(root, file, kind->first)].push_back(file.string());
    } else if (!config.list.empty() && file == root / config.list) {
      continue;
    } else if (n_others++ == 0 || file.string() < other) {
      other = file.string();
    }
  }
  if (n_others > 0)
    log_info("volumes: ", n_others, " other file(s) in '", config.root, "' are left alone, '",
             other, "' say");
  for (FilesByCase* files : {&found.images, &found.labels, &found.weights})
    for (auto& [name, paths] : *files) std::sort(paths.begin(), paths.end());
  if (config.label_suffix == config.image_suffix) found.labels = found.images;
  if (config.weight_suffix == config.image_suffix)
    found.weights = found.images;
  else if (!config.weight_suffix.empty() && config.weight_suffix == config.label_suffix)
    found.weights = found.labels;
  return found;
}

/// The one file of a case; tells a problem where there is none or several.
std::string the_file(const FilesByCase& files, const std::string& name, const std::string& what,
                     const std::string& suffix, const std::string& where,
                     std::vector<std::string>& problems) {
  const auto it = files.find(name);
  if (it == files.end()) {
    problems.push_back(where + " has no " + what + " '" + name + suffix + "'");
    return {};
  }
  if (it->second.size() == 1) return it->second[0];
  std::string text =
      "case '" + name + "' has " + std::to_string(it->second.size()) + " " + what + "s:";
  for (const std::string& path : it->second) text += " '" + path + "'";
  problems.push_back(text);
  return {};
}

/// Whether files below a folder may be called so.
bool is_case_name(const std::string& name) {
  if (std::any_of(name.begin(), name.end(), [](unsigned char c) { return c < 32 || c == 127; }))
    return false;
  const fs::path path = name;
  return path.is_relative() && std::none_of(path.begin(), path.end(), [](const fs::path& part) {
           return part == ".." || part == ".";
         });
}

class Lister {
 public:
  explicit Lister(const VolumesConfig& config) : config_(config) {
    if (!config.group_pattern.empty())
      group_.emplace("volumes.group_pattern", config.group_pattern);
  }

  ListedVolumes from_folder() {
    const Folder& files = folder();
    for (const auto& [name, paths] : files.images) {
      VolumeCase c;
      c.name = name;
      add(c, {}, "'" + paths[0] + "'");
    }
    for (const auto& [what, other] :
         {std::pair{"label", &files.labels}, std::pair{"weight file", &files.weights}})
      for (const auto& [name, paths] : *other)
        if (!files.images.contains(name))
          out_.problems.push_back("'" + paths[0] + "', a " + what + ", has no image '" + name +
                                  config_.image_suffix + "'");
    return finish();
  }

  ListedVolumes from_table(const CaseTable& table) {
    if (table.is_manifest) {
      table.allow_columns({"case", "image", "label", "weight", "group", "part", "sample_weight",
                           "box", "begin_x", "begin_y", "begin_z", "end_x", "end_y", "end_z"});
      if (!table.has("case") && !table.has("image"))
        throw UsageError("'" + table.path + "' has neither a column 'case' nor a column 'image'");
    }
    for (const CaseRow& row : table.rows) add_row(table, row);
    return finish();
  }

 private:
  const Folder& folder() {
    if (!folder_) folder_ = search(config_);
    return *folder_;
  }

  void add_row(const CaseTable& table, const CaseRow& row) {
    const auto refuse = [&](const auto&... parts) {
      throw UsageError(bora::detail::join(table.place(row), ": ", parts...));
    };
    VolumeCase c;
    c.place = table.place(row);
    c.image.path = table.file(row, "image");
    c.name = table.cell(row, "case");
    if (!table.is_manifest) {  // a path, or the name of a case
      const std::string path = table.file(row, "case");
      std::error_code ignored;
      if (path.ends_with(config_.image_suffix) || fs::is_regular_file(path, ignored)) {
        c.image.path = path;
        c.name.clear();
      }
    }
    if (c.name.empty() && c.image.path.empty()) refuse("neither a case nor an image");
    if (c.name.empty()) c.name = volume_case_name(config_, c.image.path);
    if (!is_case_name(c.name))
      refuse("'", c.name,
             "' cannot be the name of a case: files are called so (no '..', no '/' in front, no "
             "control character)");
    c.label.path = table.file(row, "label");
    c.weight.path = table.file(row, "weight");
    c.group = table.cell(row, "group");
    c.part = table.cell(row, "part");
    if (!is_part(c.part))
      refuse("part is '", c.part, "', wanted training, validation, test or nothing");
    c.sample_weight = table.number(row, "sample_weight", 1);
    if (c.sample_weight < 0) refuse("sample_weight is ", c.sample_weight, ", wanted 0 or more");
    add(c, box_text(table, row), c.place);
  }

  std::string box_text(const CaseTable& table, const CaseRow& row) {
    std::string text = table.cell(row, "box"), ends;
    bool any = false;
    for (const char* axis : {"x", "y", "z"}) {
      const std::string begin = table.cell(row, std::string("begin_") + axis);
      const std::string end = table.cell(row, std::string("end_") + axis);
      any = any || !begin.empty() || !end.empty();
      ends += (ends.empty() ? "" : ",") + begin + ":" + end;
    }
    if (any && !text.empty())
      throw UsageError(table.place(row) + ": both a box and begin_ or end_ columns");
    if (any) text = ends;
    if (!text.empty())
      with_context(table.place(row), [&] { Box::parse(text, Dims3::all(int64_t{1} << 40)); });
    return text;
  }

  /// Fills in files, group and variables, and keeps the case if nothing is missing.
  void add(VolumeCase c, const std::string& box, const std::string& where) {
    const size_t n_problems = out_.problems.size();
    std::error_code ignored;
    if (!c.image.path.empty() && !fs::exists(c.image.path, ignored)) {
      out_.problems.push_back(where + ": there is no image '" + c.image.path + "'");
      return;
    }
    if (c.image.path.empty())
      c.image.path =
          the_file(folder().images, c.name, "image", config_.image_suffix, where, out_.problems);
    if (!c.image.path.empty()) {
      const std::string base = volume_case_name(config_, c.image.path);
      if (c.label.path.empty())
        c.label.path = partner(c, base, config_.label_suffix, "label", where);
      if (c.weight.path.empty() && !config_.weight_suffix.empty())
        c.weight.path = partner(c, base, config_.weight_suffix, "weight file", where);
      if (c.group.empty()) {
        c.group = group_of(c.name, base);
        if (!group_) images_of_[base].insert(c.image.path);
      }
    }
    if (out_.problems.size() > n_problems) return;
    c.image_id = file_identity(c.image.path);
    c.image = volume_source(config_, c.image.path, config_.image_variable);
    c.label = volume_source(config_, c.label.path, config_.label_variable);
    if (!c.weight.path.empty())
      c.weight = volume_source(config_, c.weight.path, config_.weight_variable);
    out_.cases.push_back({std::move(c), box});
  }

  /// What group_pattern picks of a case's name; without a pattern the image's own name, so that
  /// several boxes of one volume are a group.
  std::string group_of(const std::string& name, const std::string& base) {
    if (!group_) return base;
    const std::optional<std::string> found = group_->find(name);
    if (!found)
      out_.problems.push_back("'" + name + "': no group in the name; volumes.group_pattern is " +
                              group_->text());
    return found.value_or("");
  }

  /// The label or weight of an image: the same file, the one beside it, or the one of the folder.
  std::string partner(const VolumeCase& c, const std::string& base, const std::string& suffix,
                      const std::string& what, const std::string& where) {
    if (suffix == config_.image_suffix) return c.image.path;
    const fs::path image = c.image.path;
    const bool in_own_folder = image.filename().string() == config_.image_suffix;
    const fs::path beside = image.parent_path() / ((in_own_folder ? "" : base) + suffix);
    std::error_code ignored;
    if (fs::exists(beside, ignored)) return beside.string();
    return the_file(kind(what), c.place.empty() ? c.name : base, what, suffix, where,
                    out_.problems);
  }
  const FilesByCase& kind(const std::string& what) {
    return what == "label" ? folder().labels : folder().weights;
  }

  ListedVolumes finish() {
    part_namesakes(config_, images_of_, out_.cases);
    const std::string patients = folders_like_patients(config_, images_of_);
    if (!patients.empty()) log_info(patients);
    std::stable_sort(out_.cases.begin(), out_.cases.end(),
                     [](const auto& a, const auto& b) { return a.of.name < b.of.name; });
    // A name twice leaves both out: which one is meant, nobody knows.
    std::vector<ListedVolume> once;
    for (size_t i = 0, n = 0; i < out_.cases.size(); i += n) {
      const std::string& name = out_.cases[i].of.name;
      n = 1;
      while (i + n < out_.cases.size() && out_.cases[i + n].of.name == name) ++n;
      if (n == 1) {
        once.push_back(out_.cases[i]);
        continue;
      }
      std::string text = "case '" + name + "' occurs " + std::to_string(n) + " times:";
      for (size_t k = i; k < i + n; ++k)
        text += " " + (out_.cases[k].of.place.empty() ? "'" + out_.cases[k].of.image.path + "'"
                                                      : out_.cases[k].of.place);
      out_.problems.push_back(text + "; give each a name of its own in the column 'case'");
    }
    out_.cases = std::move(once);
    return std::move(out_);
  }

  const VolumesConfig& config_;
  std::optional<NamePattern> group_;
  std::optional<Folder> folder_;
  ImagesOfGroups images_of_;
  ListedVolumes out_;
};

/// Of a file whose name says nothing (.mat, .he5).  One that cannot be read is told when its case
/// is opened.
bool is_hdf5_by_content(const std::string& path) {
  try {
    return has_hdf5_mark(*open_bytes(path));
  } catch (const Error&) {
    return false;
  }
}

}  // namespace

VolumeSource volume_source(const VolumesConfig& config, const std::string& path,
                           const std::string& variable) {
  VolumeSource source{.path = path, .variable = {}, .order = {}};
  std::string name = fs::path(path).filename().string();
  for (char& c : name)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  const auto is_one_of = [&](std::initializer_list<const char*> ends) {
    return std::any_of(ends.begin(), ends.end(), [&](const char* e) { return name.ends_with(e); });
  };
  const bool netcdf = is_one_of({".nc", ".nc4", ".cdf"});
  const bool other = is_one_of({".npy", ".nii", ".gz", ".hdr", ".img"});
  const bool hdf5 =
      is_one_of({".h5", ".hdf5", ".hdf"}) || (!netcdf && !other && is_hdf5_by_content(path));
  if (hdf5 || netcdf) source.variable = variable;
  if (hdf5 || is_one_of({".npy"})) source.order = config.order;
  return source;
}

std::string volume_case_name(const VolumesConfig& config, const std::string& image_path) {
  const fs::path path = image_path;
  const std::string file = path.filename().string();
  const std::string& suffix = config.image_suffix;
  if (!suffix.empty() && file == suffix) return path.parent_path().filename().string();
  if (!suffix.empty() && file.ends_with(suffix)) return file.substr(0, file.size() - suffix.size());
  return file.substr(0, file.find('.', 1));
}

namespace {

/// Every text of a listed case, in one order for both ways.
template <class Each>
void each_text(ListedVolume& v, Each&& each) {
  VolumeCase& c = v.of;
  for (std::string* text : {&c.name, &c.group, &c.part, &c.place, &c.image_id, &v.box}) each(*text);
  for (VolumeSource* source : {&c.image, &c.label, &c.weight})
    for (std::string* text : {&source->path, &source->variable, &source->order}) each(*text);
}

}  // namespace

std::string pack_volumes(const ListedVolumes& volumes) {
  TextPacker out;
  out.add(volumes.cases.size());
  for (ListedVolume v : volumes.cases) {
    each_text(v, [&](std::string& text) { out.add(text); });
    out.add(v.of.sample_weight);
  }
  for (const std::string& problem : volumes.problems) out.add(problem);
  return out.text();
}

ListedVolumes unpack_volumes(const std::string& text) {
  TextUnpacker in(text, "list of the volumes");
  ListedVolumes volumes;
  volumes.cases.resize(in.next_number());
  for (ListedVolume& v : volumes.cases) {
    each_text(v, [&](std::string& field) { field = in.next(); });
    v.of.sample_weight = in.next_double();
  }
  while (!in.done()) volumes.problems.push_back(in.next());
  return volumes;
}

ListedVolumes list_volumes(const VolumesConfig& config) {
  Lister lister(config);
  if (config.list.empty()) return lister.from_folder();
  return lister.from_table(read_case_table((fs::path(config.root) / config.list).string()));
}

}  // namespace bora::data
