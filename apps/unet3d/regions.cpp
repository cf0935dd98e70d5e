// SPDX-License-Identifier: Apache-2.0
#include "apps/unet3d/regions.hpp"

#include <algorithm>

namespace bora::unet3d {

std::array<Tensor, 3> region_masks(const Tensor& open, const Tensor& building,
                                   const std::vector<double>& z) {
  BORA_CHECK(open.rank() == 3 && open.shape() == building.shape(), "region_masks: open is ",
             open.shape(), ", building is ", building.shape());
  const int64_t nx = open.size(0), ny = open.size(1), nz = open.size(2);
  BORA_CHECK(static_cast<int64_t>(z.size()) == nz, "region_masks: ", z.size(), " heights for ", nz,
             " levels");
  const uint8_t* is_open = open.data<uint8_t>();
  const uint8_t* is_building = building.data<uint8_t>();

  int64_t x0 = nx, x1 = -1, y0 = ny, y1 = -1, z1 = -1;
  for (int64_t x = 0; x < nx; ++x)
    for (int64_t y = 0; y < ny; ++y)
      for (int64_t k = 0; k < nz; ++k)
        if (is_building[(x * ny + y) * nz + k]) {
          x0 = std::min(x0, x), x1 = std::max(x1, x);
          y0 = std::min(y0, y), y1 = std::max(y1, y);
          z1 = std::max(z1, k);
        }

  std::array<Tensor, 3> masks{open.clone(), Tensor::zeros(open.shape(), DType::u8),
                              Tensor::zeros(open.shape(), DType::u8)};
  uint8_t* low = masks[1].data<uint8_t>();
  uint8_t* built = masks[2].data<uint8_t>();
  for (int64_t x = 0; x < nx; ++x)
    for (int64_t y = 0; y < ny; ++y)
      for (int64_t k = 0; k < nz; ++k) {
        const int64_t i = (x * ny + y) * nz + k;
        if (!is_open[i]) continue;
        low[i] = z[static_cast<size_t>(k)] <= kLowHeight;
        built[i] = x >= x0 && x <= x1 && y >= y0 && y <= y1 && k <= z1;
      }
  return masks;
}

}  // namespace bora::unet3d
