// SPDX-License-Identifier: Apache-2.0
// Figures: slices of truth, prediction and error, and curves over the course of a training.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/tensor.hpp"
#include "data/volume.hpp"

namespace bora::data {

/// A plane through truth and prediction.  Fields are (nu, nv) with v fastest; u is drawn to the
/// right, v upwards.
struct Slice {
  std::string label;             ///< "z = 12.5 m"
  std::string u_label, v_label;  ///< "x (m)", "y (m)"
  int64_t nu = 0, nv = 0;
  double u_begin = 0, u_end = 1, v_begin = 0, v_end = 1;  ///< outer faces of the cells
  std::vector<float> truth, prediction;
  std::vector<uint8_t> open;  ///< 0 = building (drawn grey, counts for no scale)
};

/// A limit of a colour scale that is not given is chosen from the data.
struct SliceFigure {
  std::string title{}, subtitle{};
  std::string quantity = "wind speed", unit = "m/s";
  std::vector<Slice> slices{};          ///< one row of panels each
  std::optional<double> low{}, high{};  ///< truth and prediction; default: 0 (or the least value)
                                        ///< to the largest value of both
  std::optional<double> error{};  ///< the scale is [-error, error]; default: 99.5 % of all |error|
                                  ///< lie inside
};

/// Draws for each slice truth, prediction and error (prediction - truth) side by side.  All panels
/// of truth and prediction share one colour scale, all errors another, symmetric one; where values
/// lie beyond a scale its bar has a pointed end.  Writes a PNG, atomically.  Throws Error if sizes
/// do not fit or nothing is open, and if the file cannot be written.  Feature 116.
void draw_slices(const std::string& path, const SliceFigure& figure);

/// What slices are cut from: three volumes (X, Y, Z) of one shape, f32, f32 and u8, on the CPU.
/// `axes` give the cells' centres; without centres, cells have the width 1 and start at 0.
struct SliceSource {
  Tensor truth, prediction, open;
  std::array<Axis, 3> axes;
};
/// The level whose height is nearest to `z`.
Slice horizontal_slice(const SliceSource& source, double z);
/// The (x, z) plane nearest to `y`.
Slice vertical_slice(const SliceSource& source, double y);

struct Curve {
  std::string label;
  std::vector<double> x, y;  ///< of one length; a y that is no number (or <= 0 on a log axis) makes
                             ///< a gap
};
struct CurveFigure {
  std::string title{}, x_label{}, y_label{};
  bool log_y = false;
  std::vector<Curve> curves{};
};
/// Draws curves over a common x axis.  Writes a PNG, atomically.  Throws Error if there is no point
/// to draw or lengths differ, and if the file cannot be written.
void draw_curves(const std::string& path, const CurveFigure& figure);

namespace detail {
/// Round numbers (1, 2, 2.5 or 5 times a power of ten apart) inside [low, high], about `n` of them.
std::vector<double> ticks(double low, double high, int n);
/// The ticks as text, all with as many digits as the finest one needs.
std::vector<std::string> tick_texts(const std::vector<double>& ticks);
}  // namespace detail

}  // namespace bora::data
