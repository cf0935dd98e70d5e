// SPDX-License-Identifier: Apache-2.0
// Folders of small volumes for tests.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "core/tensor.hpp"
#include "data/atomic_file.hpp"
#include "data/hdf5.hpp"
#include "data/synthetic_volumes.hpp"
#include "data/volume_dataset.hpp"

namespace bora::data::test {

class VolumeTest : public ::testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/bora_volumes_XXXXXX";
    ASSERT_NE(::mkdtemp(name), nullptr);
    root = name;
  }
  void TearDown() override { std::filesystem::remove_all(root); }

  /// One HDF5 file of one variable or more, axes (x, y, z) as the tensors have them.
  void write(const std::string& name, const std::string& variable, const Tensor& values) const {
    hdf5::Lock lock;
    hdf5::File file = hdf5::File::create(root + "/" + name);
    file.write_dataset(variable, values);
    file.close();
  }
  /// <name>_image.h5 with "raw" and <name>_label.h5 with "label".
  void write_pair(const std::string& name, const Tensor& image, const Tensor& label) const {
    write(name + "_image.h5", "raw", image);
    write(name + "_label.h5", "label", label);
  }
  /// For files of write_pair.
  VolumesConfig pairs() const {
    VolumesConfig config;
    config.root = root;
    config.image_suffix = "_image.h5";
    config.label_suffix = "_label.h5";
    config.order = "xyz";
    config.normalisation = "none";
    return config;
  }
  /// Of write_synthetic_volumes, NIfTI.
  VolumesConfig synthetic() const {
    VolumesConfig config;
    config.root = root;
    config.classes = synthetic_classes();
    return config;
  }
  void write_list(const std::string& name, const std::string& text) const {
    write_file_atomic(root + "/" + name, text);
  }

  std::string root;
};

/// (x, y, z) f32 with the value 10000 x + 100 y + z: a cell says where it is.
inline Tensor places(const Dims3& grid) {
  Tensor t = Tensor::empty({grid.d, grid.h, grid.w}, DType::f32);
  int64_t i = 0;
  for (int64_t x = 0; x < grid.d; ++x)
    for (int64_t y = 0; y < grid.h; ++y)
      for (int64_t z = 0; z < grid.w; ++z, ++i)
        t.data<float>()[i] = static_cast<float>(10000 * x + 100 * y + z);
  return t;
}

/// Labels of zeros, u8.
inline Tensor no_labels(const Dims3& grid) {
  return Tensor::zeros({grid.d, grid.h, grid.w}, DType::u8);
}

/// Of one case of a known image.
class OneCaseTest : public VolumeTest {
 protected:
  /// One case, image = places(grid), with label 1 in these cells.
  VolumeDataset one_case(const Dims3& grid, const std::vector<Dims3>& labelled,
                         const std::function<void(VolumesConfig&)>& change) const {
    Tensor label = no_labels(grid);
    for (const Dims3& c : labelled) label.data<uint8_t>()[(c.d * grid.h + c.h) * grid.w + c.w] = 1;
    write_pair("a", places(grid), label);
    VolumesConfig config = pairs();
    change(config);
    return VolumeDataset(config);
  }
  static RngKey key(uint64_t i) { return {5, rng_stream("test", i)}; }
};

}  // namespace bora::data::test
