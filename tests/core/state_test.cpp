// SPDX-License-Identifier: Apache-2.0
#include "core/state.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/map_visitor.hpp"

namespace bora {
namespace {

using testing::MapVisitor;
using Map = MapVisitor::Map;

struct Thing {
  int64_t step = 0;
  uint64_t seed = 0;
  double best = 0;
  bool done = false;
  std::string note;
  std::vector<double> losses;
  std::vector<int64_t> order;
  std::vector<std::string> names;
  Tensor weight = Tensor::zeros({2}, DType::f32);

  void state(StateVisitor& v) {
    const StateVisitor::Group group(v, "thing");
    v.value("step", step);
    v.value("seed", seed);
    v.value("best", best);
    v.value("done", done);
    {
      const StateVisitor::Group inner(v, "inner");
      v.value("note", note);
      v.value("losses", losses);
      v.value("order", order);
      v.value("names", names);
    }
    v.tensor("weight", weight, "O");
  }
};

TEST(StateVisitor, OneFunctionSavesAndLoadsEveryType) {
  Map file;
  Thing a{7, ~uint64_t{0}, 0.1, true, "n", {1.5}, {-2, 3}, {"x", ""}, {}};
  a.weight = Tensor::from<float>({2}, std::vector<float>{4, 5});
  MapVisitor save(file, false);
  EXPECT_FALSE(save.loading());
  a.state(save);
  EXPECT_EQ(save.axes.at("thing.weight"), "O");

  Thing b;
  void* const bytes = b.weight.raw();
  MapVisitor load(file, true);
  b.state(load);
  EXPECT_EQ(b.step, 7);
  EXPECT_EQ(b.seed, ~uint64_t{0});
  EXPECT_EQ(b.best, 0.1);
  EXPECT_TRUE(b.done);
  EXPECT_EQ(b.note, "n");
  EXPECT_EQ(b.losses, a.losses);
  EXPECT_EQ(b.order, a.order);
  EXPECT_EQ(b.names, a.names);
  EXPECT_THAT(b.weight.to_vector<float>(), ::testing::ElementsAre(4, 5));
  EXPECT_EQ(b.weight.raw(), bytes);  // into the same bytes: views of an arena stay views
}

TEST(StateVisitor, GroupsPrefixAndClose) {
  Map file;
  MapVisitor save(file, false);
  Thing a;
  a.state(save);
  EXPECT_TRUE(file.contains("thing.step"));
  EXPECT_TRUE(file.contains("thing.inner.note"));
  EXPECT_TRUE(file.contains("thing.weight"));
  EXPECT_EQ(save.depth(), 0u);
  // A group closes when an exception passes.
  EXPECT_THROW(
      {
        const StateVisitor::Group g(save, "x");
        throw Error("y");
      },
      Error);
  EXPECT_EQ(save.depth(), 0u);
}

}  // namespace
}  // namespace bora
