// SPDX-License-Identifier: Apache-2.0
// Dimension scales: how HDF5 (and NetCDF-4 on it) says which axis of a data set is which.
#pragma once

#include <string>
#include <vector>

#include "data/hdf5.hpp"

namespace bora::data::hdf5 {

/// The name of each axis: from the scales attached to it, or, for a scale, its own name.  An axis
/// without a scale has an empty name.  NetCDF-4's own conventions are known (a dimension without a
/// variable; a list of dimension numbers).  `parent` is the group that holds the data set.
std::vector<std::string> dimension_names(const Group& parent, const Dataset& dataset);

/// The same of the data set at `path` below a file, whose scales may lie in its group or above;
/// axes that no scale names have the names of DIMENSION_LABELS (h5py's dims[i].label), or empty
/// ones.
std::vector<std::string> axis_names(const Group& file, const std::string& path,
                                    const Dataset& dataset);

/// Makes a data set of one axis a dimension scale, with NetCDF-4's number of the dimension.
/// `without_variable`: NetCDF-4 readers then show a dimension and no variable.
void make_scale(Dataset& dataset, const std::string& name, int dimension_id,
                bool without_variable = false);

/// Attaches one scale to each axis of each data set, and tells the scales who uses them.  Call once
/// for a file, with all its data sets.
struct ScaledDataset {
  Dataset* dataset;
  std::vector<Dataset*> scales;  ///< one for each axis
};
void attach_scales(const std::vector<ScaledDataset>& datasets);

}  // namespace bora::data::hdf5
