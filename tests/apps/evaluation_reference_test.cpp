// SPDX-License-Identifier: Apache-2.0
// Blends and normalised errors against numpy (features 112, 114);
// tests/reference/make_evaluation_reference.py made the values.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <map>
#include <sstream>

#include "apps/unet3d/evaluation.hpp"
#include "apps/unet3d/sliding_window.hpp"
#include "tests/support/tolerance.hpp"

namespace bora::unet3d {
namespace {

struct Reference {
  struct Case {
    double sigma = 1;
    std::vector<float> prediction, target;
    std::vector<uint8_t> open;
  };
  Dims3 volume, window;
  double overlap = 0;
  std::vector<std::pair<Dims3, std::vector<float>>> windows;
  std::vector<double> blend;
  std::vector<Case> cases;
  std::map<std::string, double> metrics;

  Reference() {
    std::ifstream file("tests/reference/data/evaluation.txt");
    BORA_CHECK(file.good(), "tests/reference/data/evaluation.txt is missing");
    for (std::string line; std::getline(file, line);) {
      std::istringstream in(line);
      std::string key;
      in >> key;
      if (key == "volume") {
        in >> volume.d >> volume.h >> volume.w;
      } else if (key == "window") {
        in >> window.d >> window.h >> window.w;
      } else if (key == "overlap") {
        in >> overlap;
      } else if (key == "values") {
        Dims3 begin;
        in >> begin.d >> begin.h >> begin.w;
        windows.emplace_back(begin, rest<float>(in));
      } else if (key == "blend") {
        blend = rest<double>(in);
      } else if (key == "case") {
        in >> cases.emplace_back().sigma;
      } else if (key == "cell") {
        float p = 0, t = 0;
        int open = 0;
        in >> p >> t >> open;
        cases.back().prediction.push_back(p);
        cases.back().target.push_back(t);
        cases.back().open.push_back(static_cast<uint8_t>(open));
      } else {
        in >> metrics[key];
      }
    }
  }
  template <class T>
  static std::vector<T> rest(std::istringstream& in) {
    std::vector<T> values;
    for (T v; in >> v;) values.push_back(v);
    return values;
  }
};

TEST(SlidingWindow, BlendsAsNumpyDoes) {
  const Reference wanted;
  const WindowLayout layout =
      lay_windows(wanted.volume, wanted.window, {wanted.overlap, wanted.overlap, wanted.overlap});
  ASSERT_EQ(layout.count(), static_cast<int64_t>(wanted.windows.size()));
  const Dims3 w = wanted.window;
  size_t next = 0;
  std::vector<float> found;
  slide(layout,
        {.read =
             [&](const data::Window& window) {
               EXPECT_EQ(window.begin, wanted.windows[next].first);
               return Tensor::from<float>({w.d, w.h, w.w, 1}, wanted.windows[next++].second);
             },
         .predict = [](const Tensor& x) { return x; },
         .take =
             [&](int64_t, Tensor& slab) {
               const std::vector<float> v = slab.to_vector<float>();
               found.insert(found.end(), v.begin(), v.end());
             }});
  ASSERT_EQ(found.size(), wanted.blend.size());
  // At most 3 x 3 windows meet in a cell; values are below 20.
  for (size_t i = 0; i < found.size(); ++i)
    EXPECT_NEAR(found[i], wanted.blend[i], test::gamma(9 + 2, DType::f32) * 20) << i;
}

TEST(Score, NormalisedErrorsAreNumpys) {
  const Reference wanted;
  Score pooled;
  for (size_t c = 0; c < wanted.cases.size(); ++c) {
    const Reference::Case& one = wanted.cases[c];
    const auto n = static_cast<int64_t>(one.target.size());
    Score score;
    score.sums =
        case_errors(Tensor::from<float>({n}, one.prediction), Tensor::from<float>({n}, one.target),
                    Tensor::from<uint8_t>({n}, one.open), 0.5);
    score.normalise(one.sigma);
    pooled.add(score);
    const std::string suffix = "." + std::to_string(c);
    if (!wanted.metrics.contains("mae" + suffix)) {  // no open cell
      EXPECT_TRUE(std::isnan(score.mae_normalised()));
      continue;
    }
    EXPECT_NEAR(score.mae_normalised(), wanted.metrics.at("mae" + suffix), 1e-12);
    EXPECT_NEAR(score.rmse_normalised(), wanted.metrics.at("rmse" + suffix), 1e-12);
    EXPECT_NEAR(score.max_normalised, wanted.metrics.at("max" + suffix), 1e-12);
  }
  EXPECT_NEAR(pooled.mae_normalised(), wanted.metrics.at("mae"), 1e-12);
  EXPECT_NEAR(pooled.rmse_normalised(), wanted.metrics.at("rmse"), 1e-12);
  EXPECT_NEAR(pooled.max_normalised, wanted.metrics.at("max"), 1e-12);
}

}  // namespace
}  // namespace bora::unet3d
