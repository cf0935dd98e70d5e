// SPDX-License-Identifier: Apache-2.0
// The calls that cuBLAS gets, executed by a reference that keeps to its conventions: column-major,
// leading dimensions, transposition flags.  No GPU and no cuBLAS needed.
#include "kernels/cublas/gemm_call.hpp"

#include <gtest/gtest.h>

#include "tests/support/message_of.hpp"
#include "tests/support/random.hpp"
#include "tests/support/tolerance.hpp"

namespace bora::test {
namespace {

using bora::testing::message_of;
using kernels::GradientMode;
using kernels::MatmulForm;
using kernels::cuda::GemmCall;

/// What cuBLAS's documentation says of cublasGemmEx with alpha 1, on f64.  Refuses what it refuses.
void execute(const GemmCall& g) {
  const int64_t rows_a = g.transpose_a ? g.k : g.m, rows_b = g.transpose_b ? g.n : g.k;
  ASSERT_GE(g.lda, std::max<int64_t>(1, rows_a));
  ASSERT_GE(g.ldb, std::max<int64_t>(1, rows_b));
  ASSERT_GE(g.ldc, std::max<int64_t>(1, g.m));
  const auto* a = static_cast<const double*>(g.a);
  const auto* b = static_cast<const double*>(g.b);
  auto* c = static_cast<double*>(g.c);
  for (int64_t i = 0; i < g.m; ++i)
    for (int64_t j = 0; j < g.n; ++j) {
      double sum = 0;
      for (int64_t l = 0; l < g.k; ++l)
        sum += (g.transpose_a ? a[i * g.lda + l] : a[l * g.lda + i]) *
               (g.transpose_b ? b[l * g.ldb + j] : b[j * g.ldb + l]);
      c[j * g.ldc + i] = g.beta == 0 ? sum : sum + g.beta * c[j * g.ldc + i];
    }
}

/// c[r, j] = sum a b in row-major terms: written from the definition in kernels/linear.hpp.
std::vector<double> wanted(MatmulForm form, const std::vector<double>& a,
                           const std::vector<double>& b, int64_t rows, int64_t inner,
                           int64_t columns, const std::vector<double>& start) {
  std::vector<double> c = start;
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t j = 0; j < columns; ++j) {
      double sum = 0;
      for (int64_t l = 0; l < inner; ++l) {
        const double x = form == MatmulForm::a_transposed ? a[static_cast<size_t>(l * rows + r)]
                                                          : a[static_cast<size_t>(r * inner + l)];
        const double y = form == MatmulForm::b_transposed ? b[static_cast<size_t>(j * inner + l)]
                                                          : b[static_cast<size_t>(l * columns + j)];
        sum += x * y;
      }
      c[static_cast<size_t>(r * columns + j)] += sum;
    }
  return c;
}

struct Extents {
  int64_t rows, inner, columns;
};

TEST(GemmCall, GivesTheProductInEveryForm) {
  for (const Extents e :
       {Extents{1, 1, 1}, Extents{2, 3, 5}, Extents{7, 1, 4}, Extents{1, 9, 2}, Extents{16, 8, 17}})
    for (const MatmulForm form :
         {MatmulForm::plain, MatmulForm::b_transposed, MatmulForm::a_transposed})
      for (const GradientMode mode : {GradientMode::overwrite, GradientMode::add}) {
        SCOPED_TRACE(detail::join("form ", static_cast<int>(form), ", ", e.rows, "x", e.inner, "x",
                                  e.columns));
        const std::vector<double> a = normal_values(e.rows * e.inner, 1),
                                  b = normal_values(e.inner * e.columns, 2),
                                  c = normal_values(e.rows * e.columns, 3);
        const bool ta = form == MatmulForm::a_transposed, tb = form == MatmulForm::b_transposed;
        const Tensor at =
            Tensor::from<double>(ta ? Shape{e.inner, e.rows} : Shape{e.rows, e.inner}, a);
        const Tensor bt =
            Tensor::from<double>(tb ? Shape{e.columns, e.inner} : Shape{e.inner, e.columns}, b);
        Tensor ct = Tensor::from<double>({e.rows, e.columns}, c);
        execute(kernels::cuda::gemm_call(form, at, bt, mode, ct));
        const std::vector<double> start =
            mode == GradientMode::add ? c : std::vector<double>(c.size(), 0.0);
        EXPECT_EQ("", differences(ct.to_vector<double>(),
                                  wanted(form, a, b, e.rows, e.inner, e.columns, start),
                                  gamma(static_cast<double>(e.inner) + 2, DType::f64) * 64));
      }
}

TEST(GemmCall, NamesTypesAndLeadingDimensions) {
  // The weight gradient of a linear map 3 -> 5 over 7 rows, f16 into f32: dw^T = x^T dy.
  const Tensor dy = Tensor::zeros({7, 5}, DType::f16), x = Tensor::zeros({7, 3}, DType::f16);
  Tensor dw = Tensor::zeros({5, 3}, DType::f32);
  const GemmCall g =
      kernels::cuda::gemm_call(MatmulForm::a_transposed, dy, x, GradientMode::add, dw);
  EXPECT_EQ(g.m, 3);
  EXPECT_EQ(g.n, 5);
  EXPECT_EQ(g.k, 7);
  EXPECT_EQ(g.a, x.raw());
  EXPECT_EQ(g.b, dy.raw());
  EXPECT_FALSE(g.transpose_a);
  EXPECT_TRUE(g.transpose_b);
  EXPECT_EQ(g.lda, 3);
  EXPECT_EQ(g.ldb, 5);
  EXPECT_EQ(g.ldc, 3);
  EXPECT_EQ(g.type, DType::f16);
  EXPECT_EQ(g.result_type, DType::f32);
  EXPECT_EQ(g.beta, 1);
}

TEST(GemmCall, KeepsLeadingDimensionsOfEmptyMatricesAllowed) {
  const Tensor a = Tensor::zeros({4, 0}, DType::f32), b = Tensor::zeros({0, 3}, DType::f32);
  Tensor c = Tensor::zeros({4, 3}, DType::f32);
  const GemmCall g = kernels::cuda::gemm_call(MatmulForm::plain, a, b, GradientMode::overwrite, c);
  EXPECT_EQ(g.k, 0);
  EXPECT_EQ(g.ldb, 1);
}

TEST(Matmul, GivesTheProductAndRefusesWhatDoesNotFit) {
  const Tensor a = make_tensor({2, 3}, normal_values(6, 1), DType::f64),
               b = make_tensor({3, 4}, normal_values(12, 2), DType::f64);
  Tensor c = Tensor::zeros({2, 4}, DType::f64);
  kernels::matmul(c.stream(), MatmulForm::plain, a, b, c);
  EXPECT_EQ("", differences(c.to_vector<double>(),
                            wanted(MatmulForm::plain, a.to_vector<double>(), b.to_vector<double>(),
                                   2, 3, 4, std::vector<double>(8, 0.0)),
                            1e-12));
  const std::string message =
      message_of([&] { kernels::matmul(c.stream(), MatmulForm::b_transposed, a, b, c); });
  EXPECT_NE(message.find("(2, 3) and (3, 4) do not fit"), std::string::npos) << message;
}

}  // namespace
}  // namespace bora::test
