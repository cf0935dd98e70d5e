// SPDX-License-Identifier: Apache-2.0
#include "data/volume_cases.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <memory>
#include <set>

#include "core/counted.hpp"
#include "core/error.hpp"
#include "core/log.hpp"
#include "data/netcdf_volume.hpp"
#include "data/orientation.hpp"
#include "data/packed_text.hpp"
#include "data/volume_axes.hpp"
#include "data/volume_list.hpp"
#include "data/volume_read.hpp"

namespace bora::data {
namespace {

/// What a file says of itself; `coordinates` of NetCDF alone.
struct OpenedVolume {
  VolumeInfo info;
  std::array<Axis, 3> coordinates;
};

/// Throws Error where both files have coordinates of an axis and these differ by more than a
/// thousandth of a cell (they are often f32): the values then lie elsewhere, or mirrored.
void check_coordinates(const OpenedVolume& image, const OpenedVolume& other,
                       const std::string& what) {
  for (size_t k = 0; k < 3; ++k) {
    const std::vector<double>&a = image.coordinates[k].centres, &b = other.coordinates[k].centres;
    if (a.size() != b.size() || a.empty()) continue;
    const double cell = a.size() < 2 ? 1 : std::abs(a.back() - a.front()) / double(a.size() - 1);
    for (size_t i = 0; i < a.size(); ++i)
      BORA_CHECK(std::abs(a[i] - b[i]) <= 1e-3 * cell, "the ", what, " '", other.info.source.path,
                 "' lies elsewhere than its image '", image.info.source.path, "': coordinate '",
                 other.coordinates[k].name, "' is ", b[i], " at cell ", i, " of axis ", "xyz"[k],
                 ", the image's '", image.coordinates[k].name, "' ", a[i], "; wanted the same");
  }
}

/// Throws Error unless a label or weight fits its image.
void check_partner(const VolumesConfig& config, const OpenedVolume& opened_image,
                   const OpenedVolume& opened_other, const std::string& what) {
  const VolumeInfo &image = opened_image.info, &other = opened_other.info;
  BORA_CHECK(other.grid == image.grid, "the ", what, " '", other.source.path, "' has a grid of ",
             other.grid, " cells, its image '", image.source.path, "' one of ", image.grid);
  BORA_CHECK(other.channels == 1, "the ", what, " '", other.source.path, "' has ", other.channels,
             " channels, wanted one");
  check_coordinates(opened_image, opened_other, what);
  if (!image.affine || !other.affine) return;
  const double far = corner_distance(*image.affine, *other.affine, image.grid);
  if (far <= config.affine_tolerance_mm) return;
  std::string turned;  // the usual reason: one of the two was written by another program
  const std::string image_axes = orientation_of(*image.affine);
  const std::string other_axes = orientation_of(*other.affine);
  if (image_axes != other_axes)
    turned = "; the axes of the image run " + image_axes + ", those of the " + what + " " +
             other_axes + ": resample one onto the grid of the other";
  BORA_FAIL("the ", what, " '", other.source.path, "' lies elsewhere than its image '",
            image.source.path, "': corners of the grid are ", far,
            " mm apart by the affines (volumes.affine_tolerance_mm = ", config.affine_tolerance_mm,
            ")", turned);
}

/// By the affine, "RAS"; by coordinates of all axes "x+ y- z+" for rising and falling ones.  Empty
/// without either, and for an affine that says nothing (singular): such a volume can be trained on.
std::string orientation_or_none(const OpenedVolume& opened) {
  if (!opened.info.affine) {
    std::string out;
    for (size_t k = 0; k < 3; ++k) {
      const std::vector<double>& a = opened.coordinates[k].centres;
      if (a.size() < 2) return {};
      out += std::string(out.empty() ? "" : " ") + "xyz"[k] + (a.back() < a.front() ? '-' : '+');
    }
    return out;
  }
  try {
    return orientation_of(*opened.info.affine);
  } catch (const Error&) {
    return {};
  }
}

OpenedVolume open_info(const VolumeSource& source, FileStamp& stamp) {
  check_readable_file(source.path);
  stamp = FileStamp::of(source.path);
  const std::unique_ptr<VolumeFile> file = open_volume(source);
  OpenedVolume opened{file->info(), {}};
  // A box without cells: whether the library has the filters of the chunks.
  if (!opened.info.chunk.empty()) file->read({0, 0, 0}, {0, 0, 0}, opened.info.type);
  if (const auto* coordinates = coordinates_of(*file)) opened.coordinates = *coordinates;
  return opened;
}

/// Opens the case's files and fills in what they say; throws Error saying what is wrong.
void open_headers(const VolumesConfig& config, const std::string& box, VolumeCase& c) {
  const OpenedVolume opened = open_info(c.image, c.image_stamp);
  const VolumeInfo& image = opened.info;
  c.grid = image.grid;
  c.channels = image.channels;
  c.spacing = image.spacing;
  c.orientation = orientation_or_none(opened);
  c.image_type = image.type == DType::u8 ? DType::u8 : DType::f32;
  if (!c.label.path.empty()) {
    const OpenedVolume label = open_info(c.label, c.label_stamp);
    check_partner(config, opened, label, "label");
    c.label_type = label.info.type == DType::u8 ? DType::u8 : DType::i32;
  }
  if (!c.weight.path.empty())
    check_partner(config, opened, open_info(c.weight, c.weight_stamp), "weight file");
  c.box = box.empty() ? Box{{}, c.grid} : Box::parse(box, c.grid);
  BORA_CHECK(c.box.is_inside(c.grid), "box ", c.box.text(), " is not inside the grid of ", c.grid,
             " cells of '", c.image.path, "'");
}

/// Cells of an image (X, Y, Z, C) f32 that have NaN in a channel.
int64_t count_missing(const Tensor& image) {
  const float* v = image.data<float>();
  const int64_t channels = image.size(3);
  int64_t n = 0;
  for (int64_t i = 0; i < image.numel(); i += channels)
    n += std::any_of(v + i, v + i + channels, [](float x) { return std::isnan(x); });
  return n;
}

/// Reads all values of the case once, and counts those that are missing.
void check_values(const VolumesConfig& config, const LabelMap& labels, VolumeCase& c,
                  std::vector<std::string>& problems) {
  finds_none(problems, [&] {
    each_slab(c.box, c.channels, [&](const Box& box) {
      const Tensor image = checked_image(read_field(c.image, c.image_stamp, box, c.image_type),
                                         c.image, box, config.missing);
      c.missing.cells += box.count.count();
      if (config.missing == "mask") c.missing.missing += count_missing(image);
    });
    BORA_CHECK(c.missing.missing == 0 || c.missing.missing < c.missing.cells, label_of(c.image),
               ": none of its ", c.missing.cells,
               " cells has a value; nothing of the case would count");
  });
  if (!c.label.path.empty())
    finds_none(problems, [&] {
      each_slab(c.box, 1, [&](const Box& box) {
        checked_classes(read_field(c.label, c.label_stamp, box, c.label_type), c.label, box,
                        labels);
      });
    });
  if (!c.weight.path.empty())
    finds_none(problems, [&] {
      bool counts = false;
      each_slab(c.box, 1, [&](const Box& box) {
        const Tensor weights =
            checked_weights(read_field(c.weight, c.weight_stamp, box, DType::f32), c.weight, box);
        const float* w = weights.data<float>();
        counts = counts || std::any_of(w, w + weights.numel(), [](float x) { return x > 0; });
      });
      BORA_CHECK(counts, label_of(c.weight),
                 ": all weights are 0; nothing of the case would count");
    });
}

// What looking into a case finds, as numbers for the other ranks.
std::string record_of(const VolumeCase& c) {
  TextPacker out;
  for (const Dims3& v : {c.grid, c.box.begin, c.box.count})
    for (const int64_t n : {v.d, v.h, v.w}) out.add(n);
  out.add(c.channels);
  for (const DType type : {c.image_type, c.label_type}) out.add(static_cast<int>(type));
  for (const double s : c.spacing) out.add(s);
  out.add(std::string_view(c.orientation));
  for (const FileStamp& s : {c.image_stamp, c.label_stamp, c.weight_stamp}) {
    out.add(s.bytes);
    out.add(s.mtime_ns);
  }
  out.add(c.missing.missing);
  out.add(c.missing.cells);
  return out.text();
}

void apply_record(const std::string& record, VolumeCase& c) {
  TextUnpacker in(record, "pre-flight of the volumes");
  for (Dims3* v : {&c.grid, &c.box.begin, &c.box.count})
    for (int64_t* n : {&v->d, &v->h, &v->w}) *n = in.next_number<int64_t>();
  c.channels = in.next_number<int64_t>();
  for (DType* type : {&c.image_type, &c.label_type})
    *type = static_cast<DType>(in.next_number<int>());
  for (double& s : c.spacing) s = in.next_double();
  c.orientation = in.next();
  for (FileStamp* s : {&c.image_stamp, &c.label_stamp, &c.weight_stamp}) {
    s->bytes = in.next_number<int64_t>();
    s->mtime_ns = in.next_number<int64_t>();
  }
  c.missing.missing = in.next_number<int64_t>();
  c.missing.cells = in.next_number<int64_t>();
}

ListedVolumes list_on_all(const VolumesConfig& config, Collective* ranks) {
  if (!ranks) return list_volumes(config);
  ListedVolumes listed;
  ranks->agree("looking for the volumes", [&] {
    if (ranks->rank() == 0) listed = list_volumes(config);
  });
  return unpack_volumes(ranks->broadcast_text(ranks->rank() == 0 ? pack_volumes(listed) : "", 0,
                                              "list of the volumes"));
}

/// Cases of one data set have as many channels as its first one, and no cell may be both trained on
/// and checked with.
void check_together(const std::vector<VolumeCase>& cases, std::vector<bool>& bad,
                    std::vector<std::string>& problems) {
  const VolumeCase* first = nullptr;
  std::map<std::string, std::vector<size_t>> by_image;
  for (size_t i = 0; i < cases.size(); ++i) {
    if (bad[i]) continue;
    const VolumeCase& c = cases[i];
    if (!first) first = &c;
    if (c.channels != first->channels) {
      bad[i] = true;
      problems.push_back(bora::detail::join("'", c.image.path, "' has ", c.channels,
                                            " channel(s), '", first->image.path, "' has ",
                                            first->channels, ", wanted as many"));
      continue;
    }
    by_image[c.image_id + '\n' + c.image.variable].push_back(i);
  }
  const auto shares = [](const Box& a, const Box& b) {
    for (int k = 0; k < 3; ++k)
      if (a.begin[k] >= b.begin[k] + b.count[k] || b.begin[k] >= a.begin[k] + a.count[k])
        return false;
    return true;
  };
  for (const auto& [image, indices] : by_image)
    for (size_t a = 0; a < indices.size(); ++a)
      for (size_t b = a + 1; b < indices.size(); ++b) {
        const VolumeCase &p = cases[indices[a]], &q = cases[indices[b]];
        // One group and one part stay on one side of a split.
        if ((p.group == q.group && p.part == q.part) || !shares(p.box, q.box)) continue;
        bad[indices[a]] = bad[indices[b]] = true;
        const auto side = [](const VolumeCase& c) {
          return "'" + c.name + "' (" + (c.part.empty() ? "group " + c.group : c.part) + ")";
        };
        problems.push_back("cases " + side(p) + " and " + side(q) + " have cells of '" +
                           p.image.path +
                           "' in common, but may come to different sides of the "
                           "split");
      }
}

/// A line for a data set whose volumes are turned or mirrored against each other; empty if not.
/// Those with an affine are compared with each other, and those with coordinates.
std::string turned_volumes(const std::vector<VolumeCase>& cases, bool by_affine) {
  std::map<std::string, std::vector<const VolumeCase*>> by_axes;
  for (const VolumeCase& c : cases)
    if (!c.orientation.empty() && (c.orientation.find(' ') == std::string::npos) == by_affine)
      by_axes[c.orientation].push_back(&c);
  if (by_axes.size() < 2) return {};
  std::string text;
  for (const auto& [axes, those] : by_axes) {
    text += bora::detail::join(text.empty() ? "" : ", ", axes, " in ", those.size(), " (");
    for (size_t i = 0; i < std::min<size_t>(those.size(), 3); ++i)
      text += (i == 0 ? "'" : ", '") + those[i]->name + "'";
    text += those.size() > 3 ? ", ...)" : ")";
  }
  return text;
}

}  // namespace

VolumeCases find_volume_cases(const VolumesConfig& config, Collective* ranks,
                              const PreflightHooks& hooks) {
  check_volumes_config(config);
  const ListedVolumes listed = list_on_all(config, ranks);
  VolumeCases out;
  out.problems = listed.problems;
  std::vector<PreflightItem> items;
  for (const ListedVolume& v : listed.cases) {
    std::set<std::string> files;
    for (const VolumeSource* s : {&v.of.image, &v.of.label, &v.of.weight})
      if (!s->path.empty()) files.insert(s->path);
    items.push_back({v.of.name, {files.begin(), files.end()}});
    out.cases.push_back(v.of);
  }
  // A look may outlive this call where a file does not answer: it shares what it uses.
  const auto shared = std::make_shared<const std::vector<ListedVolume>>(listed.cases);
  const auto own = std::make_shared<const VolumesConfig>(config);
  const auto labels = std::make_shared<const LabelMap>(config);
  const PreflightCheck check = [shared, own, labels](size_t index, PreflightDepth depth,
                                                     std::vector<std::string>& problems) {
    VolumeCase c = shared->at(index).of;
    const std::string place = c.place.empty() ? "" : c.place + ": ";
    try {
      open_headers(*own, shared->at(index).box, c);
      if (depth == PreflightDepth::values) check_values(*own, *labels, c, problems);
    } catch (const Error& e) {  // a box that cannot be, too: a problem of this case alone
      problems.push_back(place + e.what());
    }
    return record_of(c);
  };
  PreflightOptions options{.level = preflight_level(config.preflight), .what = "volumes"};
  options.hooks = hooks;
  const PreflightReport report = preflight(items, check, options, ranks);
  std::vector<bool> bad(out.cases.size(), false);
  for (size_t i = 0; i < out.cases.size(); ++i) {
    bad[i] = report.is_bad(i);
    out.problems.insert(out.problems.end(), report.problems[i].begin(), report.problems[i].end());
    if (!bad[i]) apply_record(report.records[i], out.cases[i]);
  }
  check_together(out.cases, bad, out.problems);
  std::vector<VolumeCase> good;
  for (size_t i = 0; i < out.cases.size(); ++i)
    if (!bad[i]) good.push_back(std::move(out.cases[i]));
  out.cases = std::move(good);
  std::sort(out.problems.begin(), out.problems.end());
  const std::string where = config.list.empty() ? "the volumes in '" + config.root + "'"
                                                : "the volumes of '" + config.list + "'";
  settle_problems(out.problems, where, config.on_bad_files == "refuse", "volumes.on_bad_files",
                  ranks, hooks);
  BORA_CHECK(!out.cases.empty() || items.empty(), "no case is left of ",
             counted(std::ssize(items), "case"), " among ", where,
             ": each has a problem (see above)");
  BORA_CHECK(!out.cases.empty(), "no case among ", where, ": wanted pairs of <case>",
             config.image_suffix, " and <case>", config.label_suffix,
             " (volumes.image_suffix, volumes.label_suffix)");
  std::vector<NamedMissing> missing;
  for (const VolumeCase& c : out.cases) missing.push_back({c.name, c.missing});
  if (!ranks || ranks->rank() == 0) tell_missing(missing, "volumes.missing");
  for (const bool by_affine : {true, false}) {
    const std::string turned = turned_volumes(out.cases, by_affine);
    if (!turned.empty() && (!ranks || ranks->rank() == 0))
      log_warn("the axes of ", where, " run in different directions: ", turned,
               "; the network sees these cases mirrored or turned against each other; ",
               by_affine ? "unet3d data convert --orientation=ras writes them all alike"
                         : "a '-' is a falling coordinate: turn such axes in the files, with "
                           "ncpdq -a -NAME say");
  }
  return out;
}

VolumeCase open_volume_case(const VolumesConfig& config, const std::string& image_path,
                            const std::string& label_path) {
  VolumeCase c;
  c.name = volume_case_name(config, image_path);
  c.group = c.name;
  c.image = volume_source(config, image_path, config.image_variable);
  if (!label_path.empty()) c.label = volume_source(config, label_path, config.label_variable);
  open_headers(config, {}, c);
  return c;
}

}  // namespace bora::data
