// SPDX-License-Identifier: Apache-2.0
// The op table: one row a call of a differentiable function.  Each family registers its rows in
// tests/nn/<family>_cases.cpp; tests/nn/op_table_test.cpp runs the same checks over all of them.
//
//   const OpCases rows([] {
//     return std::vector<OpCase>{
//         {.name = "silu", .op = "silu", .inputs = {normal({3, 7})},
//          .run = [](const auto& in) { return nn::silu(in[0]); },
//          .reference = [](const auto& in) { ... },   // values in memory order, f64
//          .saved_bytes = 0},
//     };
//   });
//
// Rows should include one shape with odd extents, one that is large enough for several threads
// (some 10^5 elements, to make the thread check bite), and one empty shape where the op allows it.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/tensor.hpp"
#include "tests/support/random.hpp"

namespace bora::test {

enum class Fill { normal, uniform, off_zero, distinct, integers };

/// One input of a row: its shape, what it is filled with, and how it takes part.
struct Input {
  Shape shape;
  Fill fill = Fill::normal;
  double lo = 0.0, hi = 0.0;   ///< of uniform; integers are in [0, hi)
  bool differentiable = true;  ///< its gradient is checked
  bool parameter = false;      ///< stays f32 when the other inputs are 16-bit
  bool integer = false;        ///< u8 in every run

  /// Not differentiated (a target).
  Input fixed() const {
    Input copy = *this;
    copy.differentiable = false;
    return copy;
  }
  /// f32 beside 16-bit inputs (gamma of a norm).
  Input param() const {
    Input copy = *this;
    copy.parameter = true;
    return copy;
  }
};

inline Input normal(const Shape& s) { return {.shape = s}; }
inline Input uniform(const Shape& s, double lo, double hi) {
  return {.shape = s, .fill = Fill::uniform, .lo = lo, .hi = hi};
}
/// Magnitudes in [0.1, 1.6): for functions with a kink at 0.
inline Input off_zero(const Shape& s) { return {.shape = s, .fill = Fill::off_zero}; }
/// Values 0.05 apart in random order: for functions that compare.
inline Input distinct(const Shape& s) { return {.shape = s, .fill = Fill::distinct}; }
/// u8 labels below k (k = 2: a mask).
inline Input labels(const Shape& s, int k) {
  return {.shape = s,
          .fill = Fill::integers,
          .hi = static_cast<double>(k),
          .differentiable = false,
          .integer = true};
}

using Values = std::vector<std::vector<double>>;

struct OpCase {
  std::string name;  ///< unique; letters, digits, underscores
  std::string op;    ///< OpInfo::name of the op (or of the main one) that `run` records
  std::vector<Input> inputs;
  std::function<Tensor(const std::vector<Tensor>&)> run = {};
  /// An independent f64 formula; empty where another test compares the op (say where).
  std::function<std::vector<double>(const Values&)> reference = {};

  /// Roundings in the arithmetic type on the longest way from an input to a result, backward too:
  /// about the number of terms of the longest sum plus the operations on each.
  double roundings = 16;
  /// Results and tensors stored in the storage type on that way.
  double stores = 3;
  /// How many times larger than the largest result the intermediate terms are (cancellation).
  double amplification = 2;
  std::vector<DType> types = {DType::f32, DType::f16, DType::bf16};  ///< compared with f64
  double gradient_tolerance = 1e-6;
  double gradient_step = 1e-3;
  int64_t differences = 48;  ///< elements per input that are tried by differences
  bool zero_gradient_ok = false;
  /// Bytes that a recorded f32 run may keep for backward beyond inputs and result (rounded up to
  /// 256 for each tensor); not checked if empty.
  std::optional<int64_t> saved_bytes = {};
};

/// Registers rows; a const at namespace scope of a _cases.cpp file.
class OpCases {
 public:
  using Make = std::vector<OpCase> (*)();
  explicit OpCases(Make make) { makers().push_back(make); }

  static std::vector<OpCase> all() {
    std::vector<OpCase> rows;
    for (Make make : makers())
      for (OpCase& row : make()) rows.push_back(std::move(row));
    return rows;
  }

 private:
  static std::vector<Make>& makers() {
    static std::vector<Make> list;
    return list;
  }
};

}  // namespace bora::test
