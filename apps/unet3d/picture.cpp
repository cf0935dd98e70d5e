// SPDX-License-Identifier: Apache-2.0
#include "apps/unet3d/picture.hpp"

#include "apps/unet3d/cases.hpp"
#include "data/figure.hpp"
#include "data/netcdf.hpp"

namespace bora::unet3d {
namespace {

/// Coordinates of the window's cells; empty where the file has none or the window is padded.
data::Axis window_axis(const data::NetcdfFile& file, const std::string& name, int64_t begin,
                       int64_t count) {
  data::Axis axis = file.axis(name);
  const auto n = static_cast<int64_t>(axis.centres.size());
  if (begin < 0 || begin + count > n) {
    axis.centres.clear();
  } else {
    axis.centres = {axis.centres.begin() + begin, axis.centres.begin() + begin + count};
  }
  return axis;
}

/// The y index of the highest building cell; the middle without a building.
int64_t row_of_tallest(const Tensor& building) {
  const int64_t nx = building.size(0), ny = building.size(1), nz = building.size(2);
  const uint8_t* b = building.data<uint8_t>();
  for (int64_t z = nz - 1; z >= 0; --z)
    for (int64_t y = 0; y < ny; ++y)
      for (int64_t x = 0; x < nx; ++x)
        if (b[(x * ny + y) * nz + z]) return y;
  return ny / 2;
}

}  // namespace

void draw_prediction(const std::string& path, const data::WindConfig& config,
                     const data::WindCase& files, const data::Sample& sample, const Tensor& field,
                     double height) {
  Tensor truth = sample.target.clone();
  data::denormalise(truth, sample.scaling);
  const data::NetcdfFile file = data::NetcdfFile::open(files.mask_path);
  const data::Window& w = sample.window;
  const data::SliceSource source{
      .truth = truth.reshape(field.shape()),
      .prediction = field,
      .open = sample.region,
      .axes = {window_axis(file, config.files.axes[0], w.begin.d, w.shape.d),
               window_axis(file, config.files.axes[1], w.begin.h, w.shape.h),
               window_axis(file, config.files.axes[2], w.begin.w, w.shape.w)}};
  const int64_t row = row_of_tallest(building_cells(sample));
  const std::vector<double>& y = source.axes[1].centres;
  data::SliceFigure figure;
  figure.title = "Case " + files.name;
  figure.subtitle = "mean wind speed around buildings (grey), wind from the left";
  figure.slices = {data::horizontal_slice(source, height),
                   data::vertical_slice(source, y.empty() ? static_cast<double>(row) + 0.5
                                                          : y[static_cast<size_t>(row)])};
  data::draw_slices(path, figure);
}

}  // namespace bora::unet3d
