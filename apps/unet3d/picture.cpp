// SPDX-License-Identifier: Apache-2.0
#include "apps/unet3d/picture.hpp"

#include <algorithm>
#include <cmath>

#include "apps/unet3d/cases.hpp"
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

data::SliceFigure prediction_figure(const data::WindConfig& config, const data::WindCase& files,
                                    const data::Sample& sample, const Tensor& field,
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
  return figure;
}

void share_scales(std::vector<data::SliceFigure>& figures) {
  double least = 0, most = -INFINITY, error = 0;
  for (const data::SliceFigure& figure : figures) {
    std::vector<double> errors;
    for (const data::Slice& s : figure.slices)
      for (size_t i = 0; i < s.open.size(); ++i) {
        if (s.open[i] == 0) continue;
        for (const double v : {s.truth[i], s.prediction[i]})
          if (std::isfinite(v)) least = std::min(least, v), most = std::max(most, v);
        const double e = std::abs(double{s.prediction[i]} - double{s.truth[i]});
        if (std::isfinite(e)) errors.push_back(e);
      }
    if (errors.empty()) continue;
    // As draw_slices chooses for one figure; the widest of all.
    const auto at = errors.begin() +
                    static_cast<std::ptrdiff_t>(0.995 * static_cast<double>(errors.size() - 1));
    std::nth_element(errors.begin(), at, errors.end());
    error = std::max(error, *at);
  }
  for (data::SliceFigure& figure : figures) {
    if (most > least) figure.low = least, figure.high = most;
    if (error > 0) figure.error = error;
  }
}

void draw_prediction(const std::string& path, const data::WindConfig& config,
                     const data::WindCase& files, const data::Sample& sample, const Tensor& field,
                     double height) {
  data::draw_slices(path, prediction_figure(config, files, sample, field, height));
}

}  // namespace bora::unet3d
