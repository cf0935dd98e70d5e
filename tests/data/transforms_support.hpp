// SPDX-License-Identifier: Apache-2.0
// What the tests of transforms share: samples, reference values, slow readers in f64.
#pragma once

#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "data/dataset.hpp"

namespace bora::data::test {

inline Tensor normal_tensor(const Shape& shape, uint64_t seed) {
  Tensor t = Tensor::empty(shape, DType::f32);
  fill_normal({seed, 1}, 0, 1.0, {t.data<float>(), static_cast<size_t>(t.numel())});
  return t;
}

/// u8 below `n`.
inline Tensor label_tensor(const Shape& shape, uint64_t n, uint64_t seed) {
  Tensor t = Tensor::empty(shape, DType::u8);
  for (int64_t i = 0; i < t.numel(); ++i)
    t.data<uint8_t>()[i] = static_cast<uint8_t>(RngKey{seed, 2}.below(n, static_cast<uint64_t>(i)));
  return t;
}

/// Everything that a sample can have; each weight belongs to its label: weight = label + 0.5.
inline Sample random_sample(const Dims3& n, int64_t channels, uint64_t seed) {
  Sample s;
  const Shape cells{n.d, n.h, n.w};
  s.input = normal_tensor(cells.append(channels), seed);
  s.target = label_tensor(cells.append(1), 4, seed + 1);
  s.region = label_tensor(cells, 2, seed + 2);
  s.valid = Tensor::full(cells, 1, DType::u8);
  s.weight = Tensor::empty(cells, DType::f32);
  for (int64_t i = 0; i < s.weight.numel(); ++i)
    s.weight.data<float>()[i] = static_cast<float>(s.target.data<uint8_t>()[i]) + 0.5f;
  s.window = {n, n, {}};
  s.name = "case";
  return s;
}

template <class T>
bool equal(const Tensor& a, const Tensor& b) {
  return a.shape() == b.shape() && a.to_vector<T>() == b.to_vector<T>();
}

inline void expect_same(const Sample& a, const Sample& b) {
  EXPECT_TRUE(equal<float>(a.input, b.input));
  EXPECT_TRUE(equal<uint8_t>(a.target, b.target));
  EXPECT_TRUE(equal<uint8_t>(a.region, b.region));
  EXPECT_TRUE(equal<uint8_t>(a.valid, b.valid));
  EXPECT_TRUE(equal<float>(a.weight, b.weight));
}

struct ReferenceArray {
  Shape shape;
  std::vector<double> values;
  Tensor tensor(DType type) const { return Tensor::from<double>(shape, values).to(type); }
};

/// tests/reference/data/transforms.txt, made by tests/reference/make_transforms_reference.py with
/// scipy.
inline const ReferenceArray& scipy(const std::string& name) {
  static const auto all = [] {
    std::map<std::string, ReferenceArray> arrays;
    std::ifstream file("tests/reference/data/transforms.txt");
    for (std::string line; std::getline(file, line);) {
      std::istringstream in(line);
      std::string key, extents;
      in >> key >> extents;
      ReferenceArray a;
      std::istringstream list(extents);
      for (std::string e; std::getline(list, e, ',');) a.shape = a.shape.append(std::stoll(e));
      for (double v = 0; in >> v;) a.values.push_back(v);
      arrays[key] = a;
    }
    return arrays;
  }();
  return all.at(name);
}

}  // namespace bora::data::test
