// SPDX-License-Identifier: Apache-2.0
// Values of a patch at the points of a CoordinateMap: trilinear or of the nearest cell.
#pragma once

#include <span>

#include "core/tensor.hpp"
#include "data/transforms/coordinate_map.hpp"

namespace bora::data {

/// Lines along z of a patch as places in a source: made once for all tensors of a sample.
class ResampleLine {
 public:
  ResampleLine(const Dims3& source, int64_t cells);
  /// Takes the coordinates of the line (x, y).
  void at(const CoordinateMap& map, int64_t x, int64_t y);

  /// in (X, Y, Z, channels) -> out (cells, channels).  A cell counts as inside if its point lies in
  /// a cell of the source, that is up to half a cell beyond the last centre, where the last value
  /// goes on; outside it gets `padding`.
  void linear(const float* in, float* out, int64_t channels, float padding) const;
  void nearest(const float* in, float* out, int64_t channels, float padding) const;
  void nearest(const uint8_t* in, uint8_t* out, int64_t channels) const;  ///< outside: 0
  /// 1 inside, 0 outside.
  void inside(uint8_t* out) const;

 private:
  template <class T>
  void take_nearest(const T* in, T* out, int64_t channels, T padding) const;

  Dims3 source_;
  int64_t n_;
  std::vector<float> sx_, sy_, sz_;      // coordinates, then the weights of the upper neighbours
  std::vector<int32_t> cell_, nearest_;  // the lower neighbour; the nearest cell
  std::vector<int32_t> up_x_, up_y_, up_z_;  // steps to the upper neighbours, 0 at the last cell
  std::vector<int32_t> is_inside_;
};

}  // namespace bora::data
