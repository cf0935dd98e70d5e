// SPDX-License-Identifier: Apache-2.0
// map, for_each and reduce, without the kernels that use them.
#include <gtest/gtest.h>
#include <omp.h>

#include "kernels/for_each.hpp"
#include "kernels/map.hpp"
#include "kernels/reduce.hpp"
#include "tests/kernels/guarded.hpp"
#include "tests/support/device.hpp"
#include "tests/support/tolerance.hpp"

namespace bora::kernels {
namespace {

using test::differences;
using test::Guarded;
using test::make_tensor;
using test::values_of;

struct TimesPlusOne {
  template <class A>
  BORA_HD A operator()(A a, A b) const {
    return a * b + A(1);
  }
};

TEST(Map, MatchesF64AtAllSizesAndTypesWithinItsBounds) {
  for (DType type : test::kFloats)
    for (int64_t n : test::kSizes) {
      SCOPED_TRACE(testing::Message() << name_of(type) << " " << n);
      Guarded a({n}, type, test::normal_values(n, 1)), b({n}, type, test::normal_values(n, 2));
      Guarded out({n}, type);
      map(out.view().stream(), "test", TimesPlusOne{}, out.view(), a.view(), b.view());
      const std::vector<double> x = values_of(a.view()), y = values_of(b.view());
      std::vector<double> want(x.size());
      for (size_t i = 0; i < x.size(); ++i) want[i] = x[i] * y[i] + 1.0;
      // A product, a sum, a store; terms are at most |xy| + 1.
      const double bound = test::relative_bound(type, 2) * (1.0 + 2.0 * test::max_abs(want));
      EXPECT_EQ("", differences(values_of(out.view()), want, bound));
      out.expect_guards_untouched();
    }
}

TEST(Map, MayWriteOverAnInput) {
  Tensor a = make_tensor({100}, test::normal_values(100, 1), DType::f32);
  const std::vector<double> before = values_of(a);
  map(a.stream(), "test", TimesPlusOne{}, a, a, a);
  for (size_t i = 0; i < 100; ++i)
    EXPECT_NEAR(before[i] * before[i] + 1.0, values_of(a)[i], 1e-6 * (1 + before[i] * before[i]));
}

TEST(Map, RefusesOtherShapesAndTypes) {
  Tensor a = test::zeros({3}, DType::f32), b = test::zeros({4}, DType::f32);
  Tensor c = test::zeros({3}, DType::f64), d = test::zeros({3}, DType::i32);
  EXPECT_THROW(map(a.stream(), "test", TimesPlusOne{}, a, a, b), Error);
  EXPECT_THROW(map(a.stream(), "test", TimesPlusOne{}, a, a, c), Error);
  EXPECT_THROW(map(d.stream(), "test", TimesPlusOne{}, d, d, d), Error);
}

struct CountEach {
  int32_t* out;
  BORA_HD void operator()(int64_t i) const { out[i] += 1; }
};

struct CountRows {
  int32_t* out;
  int64_t columns;
  BORA_HD int32_t* row(int64_t r) const { return out + r * columns; }
  BORA_HD void operator()(int32_t* row, int64_t c) const { row[c] += 1; }
};

// Each cell writes its own coordinates, folded into one number.
struct WriteCoordinates {
  int32_t* out;
  Dims3 extent;
  int64_t channels;
  struct Cell {
    int32_t* to;
    int32_t code;
  };
  BORA_HD Cell cell(const VolumeIndex& v) const {
    return {out + cell_number(v.n, v.d, v.h, v.w, extent) * channels,
            static_cast<int32_t>(((v.n * 100 + v.d) * 100 + v.h) * 100 + v.w)};
  }
  BORA_HD void operator()(const Cell& cell, int64_t c) const {
    cell.to[c] = cell.code * 10 + static_cast<int32_t>(c);
  }
};

TEST(ForEach, VisitsEachIndexOnce) {
  for (int64_t n : test::kSizes) {
    Guarded out({n}, DType::i32);
    out.view().fill(0.0);
    for_each(out.view().stream(), n, CountEach{out.view().data<int32_t>()});
    EXPECT_EQ(std::vector<int32_t>(static_cast<size_t>(n), 1), out.view().to_vector<int32_t>());
    out.expect_guards_untouched();
  }
}

TEST(ForEach, VisitsEachColumnOfEachRowOnce) {
  for (const auto& [rows, columns] : std::vector<std::pair<int64_t, int64_t>>{
           {0, 3}, {3, 0}, {1, 1}, {5, 17}, {4001, 19}, {2, 40001}}) {
    Guarded out({rows, columns}, DType::i32);
    out.view().fill(0.0);
    for_each_row(out.view().stream(), rows, columns,
                 CountRows{out.view().data<int32_t>(), columns});
    EXPECT_EQ(std::vector<int32_t>(static_cast<size_t>(rows * columns), 1),
              out.view().to_vector<int32_t>());
    out.expect_guards_untouched();
  }
}

TEST(ForEach, GivesEachCellItsCoordinates) {
  for (const Shape& s : {Shape{2, 3, 4, 5, 3}, Shape{1, 1, 1, 1, 1}, Shape{0, 2, 2, 2, 2},
                         Shape{2, 0, 2, 2, 2}, Shape{1, 23, 31, 37, 2}}) {
    Guarded out(s, DType::i32);
    const Dims3 extent{s[1], s[2], s[3]};
    for_each_cell(out.view().stream(), s[0], extent, s[4],
                  WriteCoordinates{out.view().data<int32_t>(), extent, s[4]});
    const std::vector<int32_t> got = out.view().to_vector<int32_t>();
    size_t at = 0;
    for (int32_t n = 0; n < s[0]; ++n)
      for (int32_t d = 0; d < s[1]; ++d)
        for (int32_t h = 0; h < s[2]; ++h)
          for (int32_t w = 0; w < s[3]; ++w)
            for (int32_t c = 0; c < s[4]; ++c)
              ASSERT_EQ((((n * 100 + d) * 100 + h) * 100 + w) * 10 + c, got[at++]);
    out.expect_guards_untouched();
  }
}

// Feature 103 at sizes beyond 2^31 elements, by arithmetic: no memory is touched.
TEST(ForEach, CellNumbersPassTwoToThe31) {
  const Dims3 extent{2048, 2047, 2046};
  for (int64_t cell : {int64_t{0}, int64_t{2147483647}, int64_t{2147483648}, int64_t{4294967296},
                       3 * extent.count() - 1}) {
    const VolumeIndex v = volume_index(cell, extent);
    EXPECT_EQ(cell, cell_number(v.n, v.d, v.h, v.w, extent));
    EXPECT_TRUE(v.w >= 0 && v.w < extent.w && v.h >= 0 && v.h < extent.h && v.d >= 0 &&
                v.d < extent.d && v.n >= 0 && v.n < 3);
  }
  EXPECT_EQ(2, volume_index(3 * extent.count() - 1, extent).n);
}

TEST(Reduce, ChunksCoverAllRowsAlsoBeyondTwoToThe31) {
  for (int64_t rows : {int64_t{0}, int64_t{1}, int64_t{255}, int64_t{8193}, int64_t{2147483649},
                       int64_t{12884901889}})
    for (int64_t columns : {1, 2, 3, 16, 33, 320}) {
      const detail::ReduceGeometry g(2, rows, columns, false);
      EXPECT_GE(g.n_chunks * g.chunk_rows, rows);
      EXPECT_LT((g.n_chunks - 1) * g.chunk_rows, std::max<int64_t>(rows, 1));
      EXPECT_LE(g.n_chunks, 1024);
      EXPECT_EQ(0, g.chunk_rows % g.lanes);
      EXPECT_GE(g.column_blocks << g.log_columns, columns);
    }
}

// Count, mean and sum of squared deviations, joined by Chan's formula: a merge that is wrong for a
// missing neutral element, a forgotten or a doubled part.
template <class A>
struct Moments {
  using Element = A;
  static constexpr int kWidth = 3;
  static constexpr bool kHostOnly = std::is_same_v<A, double>;
  using State = Lanes<A, 3>;
  const A* x;
  A* out;
  int64_t columns;

  BORA_HD State identity() const { return {{A(0), A(0), A(0)}}; }
  BORA_HD void add(State& s, int64_t, int64_t offset, int64_t) const {
    const A d = x[offset] - s.v[1];
    s.v[0] += A(1);
    s.v[1] += d / s.v[0];
    s.v[2] += d * (x[offset] - s.v[1]);
  }
  BORA_HD void merge(State& a, const State& b) const {
    const A n = a.v[0] + b.v[0], d = b.v[1] - a.v[1];
    const A share = n > A(0) ? b.v[0] / n : A(0);
    a.v[2] += b.v[2] + d * d * a.v[0] * share;
    a.v[1] += d * share;
    a.v[0] = n;
  }
  BORA_HD void store(int64_t outer, int64_t column, const State& s) const {
    for (int k = 0; k < 3; ++k) out[(outer * columns + column) * 3 + k] = s.v[k];
  }
};

struct ReduceShape {
  int64_t outer, rows, columns;
};
const std::vector<ReduceShape> kReduceShapes = {
    {0, 3, 2},     {2, 3, 0},    {1, 0, 3},     {1, 1, 1},     {1, 7, 1},
    {3, 255, 1},   {2, 256, 1},  {2, 257, 1},   {1, 8193, 1},  {1, 100003, 1},
    {5, 33, 2},    {2, 1000, 3}, {2, 999, 8},   {1, 6001, 15}, {2, 1025, 16},
    {1, 3001, 17}, {2, 700, 32}, {1, 1500, 33}, {1, 70, 320}};

template <class A>
std::vector<double> moments(const Tensor& x, const ReduceShape& s, Tensor& out) {
  reduce_columns(x.stream(), s.outer, s.rows, s.columns,
                 Moments<A>{x.data<A>(), out.data<A>(), s.columns});
  return values_of(out);
}

TEST(Reduce, MomentsMatchF64OverTwoPasses) {
  for (const ReduceShape& s : kReduceShapes) {
    SCOPED_TRACE(testing::Message() << s.outer << " x " << s.rows << " x " << s.columns);
    const Shape shape{s.outer, s.rows, s.columns};
    // A mean of 100 beside a deviation of 1.
    std::vector<double> values = test::normal_values(shape.numel(), 5);
    for (double& v : values) v += 100.0;
    for (DType type : {DType::f32, DType::f64}) {
      const Tensor x = make_tensor(shape, values, type);
      Guarded out({s.outer, s.columns, 3}, type);
      const std::vector<double> got =
          type == DType::f32 ? moments<float>(x, s, out.view()) : moments<double>(x, s, out.view());
      out.expect_guards_untouched();
      const std::vector<double> v = values_of(x);
      for (int64_t o = 0; o < s.outer; ++o)
        for (int64_t c = 0; c < s.columns; ++c) {
          double sum = 0, m2 = 0;
          const auto at = [&](int64_t r) {
            return v[static_cast<size_t>((o * s.rows + r) * s.columns + c)];
          };
          for (int64_t r = 0; r < s.rows; ++r) sum += at(r);
          const double mean = s.rows > 0 ? sum / static_cast<double>(s.rows) : 0.0;
          for (int64_t r = 0; r < s.rows; ++r) m2 += (at(r) - mean) * (at(r) - mean);
          const double* g = got.data() + (o * s.columns + c) * 3;
          // At most 100 steps a lane and 16 levels of merging, 4 roundings each, relative to 105.
          const double u = test::gamma(4 * 116, type);
          ASSERT_EQ(static_cast<double>(s.rows), g[0]);
          ASSERT_NEAR(mean, g[1], 105 * u);
          ASSERT_NEAR(m2, g[2], m2 * u + 2 * 105 * u * std::sqrt(m2 * static_cast<double>(s.rows)));
        }
    }
  }
}

TEST(Reduce, BitsDoNotDependOnThreads) {
  const int before = omp_get_max_threads();
  for (const ReduceShape& s : kReduceShapes) {
    const Shape shape{s.outer, s.rows, s.columns};
    const Tensor x = make_tensor(shape, test::normal_values(shape.numel(), 5), DType::f32);
    Tensor out = test::empty({s.outer, s.columns, 3}, DType::f32);
    omp_set_num_threads(1);
    const std::vector<double> one = moments<float>(x, s, out);
    for (int n : {1, 2, 3, 5}) {
      omp_set_num_threads(n);
      EXPECT_EQ(one, moments<float>(x, s, out))
          << n << " threads, " << s.outer << " x " << s.rows << " x " << s.columns;
    }
  }
  omp_set_num_threads(before);
}

// Small integers add exactly in any order: each element must be there once.
struct IntegerSum {
  using Element = float;
  static constexpr int kWidth = 1;
  using State = Lanes<float, 1>;
  const float* x;
  float* out;
  int64_t columns;
  BORA_HD State identity() const { return {{0.0f}}; }
  BORA_HD void add(State& s, int64_t outer, int64_t offset, int64_t column) const {
    s.v[0] += x[offset] + static_cast<float>(outer) + static_cast<float>(column);
  }
  BORA_HD void merge(State& a, const State& b) const { a.v[0] += b.v[0]; }
  BORA_HD void store(int64_t outer, int64_t column, const State& s) const {
    out[outer * columns + column] = s.v[0];
  }
};

TEST(Reduce, TakesEachElementOnceWithItsOuterAndColumn) {
  for (const ReduceShape& s : kReduceShapes) {
    const Shape shape{s.outer, s.rows, s.columns};
    const Tensor x = make_tensor(shape, test::integer_values(shape.numel(), 8, 3), DType::f32);
    Guarded out({s.outer, s.columns}, DType::f32);
    reduce_columns(x.stream(), s.outer, s.rows, s.columns,
                   IntegerSum{x.data<float>(), out.view().data<float>(), s.columns});
    const std::vector<float> v = x.to_vector<float>(), got = out.view().to_vector<float>();
    for (int64_t o = 0; o < s.outer; ++o)
      for (int64_t c = 0; c < s.columns; ++c) {
        float want = 0;
        for (int64_t r = 0; r < s.rows; ++r)
          want +=
              v[static_cast<size_t>((o * s.rows + r) * s.columns + c)] + static_cast<float>(o + c);
        ASSERT_EQ(want, got[static_cast<size_t>(o * s.columns + c)])
            << s.outer << " x " << s.rows << " x " << s.columns;
      }
    out.expect_guards_untouched();
  }
}

}  // namespace
}  // namespace bora::kernels
