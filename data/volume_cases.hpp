// SPDX-License-Identifier: Apache-2.0
// VolumeCase: an image, its label and its weights, found in a folder, a list or a manifest.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "core/collective.hpp"
#include "data/box.hpp"
#include "data/file_stamp.hpp"
#include "data/missing_cells.hpp"
#include "data/preflight.hpp"
#include "data/split.hpp"
#include "data/volume_file.hpp"
#include "data/volumes_config.hpp"

namespace bora::data {

/// One case.  Several cases may be boxes of one volume.
struct VolumeCase {
  std::string name;
  std::string group;  ///< patient; the name where nothing says it
  std::string part;   ///< "training", "validation", "test"; empty: by the split
  VolumeSource image;
  VolumeSource label;        ///< path empty: none is known (prediction)
  VolumeSource weight;       ///< path empty: every cell weighs 1
  Box box;                   ///< which cells of the files are the case
  double sample_weight = 1;  ///< chance to be drawn with train.sampling = weighted
  std::string place;         ///< where it was listed: "'cases.csv', line 3"; empty: in the folder
  // By looking into the files:
  Dims3 grid;                              ///< of the files
  int64_t channels = 1;                    ///< of the image
  std::array<double, 3> spacing{0, 0, 0};  ///< of cells along x, y, z; 0: not known
  std::string orientation;                 ///< "RAS": orientation_of(); empty: not known
  DType image_type = DType::f32;           ///< u8 or f32: what the files' values are read as
  DType label_type = DType::i32;           ///< u8 or i32
  FileStamp image_stamp, label_stamp, weight_stamp;
  std::string image_id;  ///< file_identity() of the image, as the rank sees it that lists the cases
  MissingCells missing;  ///< cells of the box without a value in a channel, where these were read
};

/// The outcome of looking for a data set.
struct VolumeCases {
  std::vector<VolumeCase> cases;      ///< sorted by name
  std::vector<std::string> problems;  ///< one line each, sorted; of cases that were left out
};

/// The cases of config.list, or those of the folder: files below the root called
/// <case><image_suffix>, with their <case><label_suffix> beside them or anywhere below the root.
///
/// A list has a name of a case or a path of its image a line.  A manifest has the columns `case` or
/// `image` or both, and any of label, weight, group, part, sample_weight, box, or instead of box
/// begin_x, begin_y, begin_z, end_x, end_y, end_z.  Paths are relative to the folder of the list.
/// An empty or absent label or weight is the file of the folder search's name.
///
/// Every file is opened: grids and channels must be those of the image, affines equal within
/// config.affine_tolerance_mm, the box inside the grid.  Of the values the pre-flight looks at
/// those that config.preflight says: labels must have classes, images no NaN (missing = refuse),
/// weights be finite and not below 0.  Ranks share the work and all get the same result (nullptr:
/// this process alone).  Problems (a file without its partner, two of one case, an unreadable one,
/// another form): with on_bad_files = refuse one Error lists them, with skip a warning does and the
/// cases are left out.  No case left is an Error.  Axes that run in different directions (by the
/// affines) are a warning: patches would be mirror images of each other.  A list that does not
/// parse is a UsageError.
VolumeCases find_volume_cases(const VolumesConfig& config, Collective* ranks = nullptr,
                              const PreflightHooks& hooks = {});

/// A case of single files, for prediction; `label_path` may be empty.  Throws as above.
VolumeCase open_volume_case(const VolumesConfig& config, const std::string& image_path,
                            const std::string& label_path = {});

/// The name of the case of an image file: its file name without the image suffix; without that, up
/// to its first dot.
std::string volume_case_name(const VolumesConfig& config, const std::string& image_path);

/// Cases whose `part` is set go there; the others are split as make_split() does, by their groups.
/// A share (split.validation, split.test) of a side that the manifest fills by itself takes no
/// further cases.  Throws UsageError as make_split() does, and for a group of which only some cases
/// have a part.
Split split_volumes(const std::vector<VolumeCase>& cases, const SplitConfig& config);

}  // namespace bora::data
