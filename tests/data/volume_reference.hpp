// SPDX-License-Identifier: Apache-2.0
// What nibabel and numpy make of the files in tests/reference/data/volumes, and comparisons with
// it.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "data/volume_file.hpp"

namespace bora::data::test {

inline const std::string kVolumes = "tests/reference/data/volumes/";

/// "key" of "file" in volumes.txt, as text.
inline const std::map<std::pair<std::string, std::string>, std::string>& volume_facts() {
  static const auto facts = [] {
    std::map<std::pair<std::string, std::string>, std::string> out;
    std::ifstream in(kVolumes + "volumes.txt");
    for (std::string line; std::getline(in, line);) {
      std::istringstream words(line);
      std::string file, key, rest;
      words >> file >> key >> std::ws;
      std::getline(words, rest);
      out[{file, key}] = rest;
    }
    BORA_CHECK(!out.empty(), "no ", kVolumes, "volumes.txt: run from the repository's root");
    return out;
  }();
  return facts;
}

inline std::string volume_fact(const std::string& file, const std::string& key) {
  const auto it = volume_facts().find({file, key});
  BORA_CHECK(it != volume_facts().end(), "no ", key, " of ", file, " in volumes.txt");
  return it->second;
}

inline std::vector<double> volume_numbers(const std::string& file, const std::string& key) {
  std::vector<double> out;
  std::istringstream words(volume_fact(file, key));
  for (std::string word; words >> word;) out.push_back(std::strtod(word.c_str(), nullptr));
  return out;
}

/// The files with a fact of that name.
inline std::vector<std::string> volume_files(const std::string& key, const std::string& begin) {
  std::vector<std::string> out;
  for (const auto& [name, text] : volume_facts())
    if (name.second == key && name.first.starts_with(begin)) out.push_back(name.first);
  return out;
}

/// The same number, or NaN twice.
inline bool same_number(double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); }

inline void expect_same(const std::vector<double>& found, const std::vector<double>& wanted,
                        const std::string& what) {
  ASSERT_EQ(found.size(), wanted.size()) << what;
  for (size_t i = 0; i < found.size(); ++i)
    ASSERT_TRUE(same_number(found[i], wanted[i]))
        << what << ": number " << i << " is " << found[i] << ", wanted " << wanted[i];
}

inline std::vector<double> numbers_of(const Affine& affine) {
  std::vector<double> out;
  for (const auto& row : affine) out.insert(out.end(), row.begin(), row.end());
  return out;
}

inline std::vector<double> numbers_of(const Tensor& t) {
  return t.to(DType::f64).to_vector<double>();
}

/// All cells with all channels.
inline Tensor read_all(const VolumeFile& file, DType type = DType::f64) {
  return file.read({0, 0, 0}, file.info().grid, type);
}

/// Every box of some kinds has the values of the whole: single cells, planes, odd blocks, none.
inline void expect_boxes_of_the_whole(const VolumeFile& file, const std::string& what) {
  const Dims3 grid = file.info().grid;
  const Tensor whole = read_all(file);
  const int64_t c_n = file.info().channels;
  const auto check = [&](const Dims3& begin, const Dims3& count) {
    const Tensor box = file.read(begin, count, DType::f64);
    ASSERT_EQ(box.shape(), (Shape{count.d, count.h, count.w, c_n})) << what;
    const auto* in = whole.data<double>();
    const auto* out = box.numel() == 0 ? nullptr : box.data<double>();
    for (int64_t x = 0; x < count.d; ++x)
      for (int64_t y = 0; y < count.h; ++y)
        for (int64_t z = 0; z < count.w; ++z)
          for (int64_t c = 0; c < c_n; ++c)
            ASSERT_TRUE(same_number(
                *out++,
                in[(((begin.d + x) * grid.h + begin.h + y) * grid.w + begin.w + z) * c_n + c]))
                << what << " at " << x << " " << y << " " << z << " " << c;
  };
  for (int64_t x = 0; x < grid.d; ++x)
    for (int64_t y = 0; y < grid.h; ++y)
      for (int64_t z = 0; z < grid.w; ++z)
        for (const Dims3& count :
             {Dims3{1, 1, 1}, Dims3{grid.d - x, grid.h - y, grid.w - z}, Dims3{1, grid.h - y, 1},
              Dims3{grid.d - x, 1, 1}, Dims3{1, 1, grid.w - z}, Dims3{0, 1, 1}})
          check({x, y, z}, count);
}

}  // namespace bora::data::test
