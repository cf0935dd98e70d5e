// SPDX-License-Identifier: Apache-2.0
// A state with every kind of entry, and its twin with other values.
#pragma once

#include <bit>
#include <limits>
#include <string>
#include <vector>

#include "core/state.hpp"

namespace bora::data::test {

struct Everything {
  Tensor f16, bf16, f32, f64, u8, i32, i64, scalar, empty;
  int64_t i = 0;
  uint64_t u = 0;
  double d = 0;
  bool yes = false, no = true;
  std::string text, no_text = "x", unicode;
  std::vector<double> doubles, no_doubles{1};
  std::vector<int64_t> integers;
  std::vector<std::string> names, no_names{"x"};

  /// Zeros of the shapes that filled() has.
  Everything() {
    f16 = Tensor::zeros({3}, DType::f16);
    bf16 = Tensor::zeros({3}, DType::bf16);
    f32 = Tensor::zeros({2, 3, 4}, DType::f32);
    f64 = Tensor::zeros({5, 1}, DType::f64);
    u8 = Tensor::zeros({2, 2}, DType::u8);
    i32 = Tensor::zeros({2}, DType::i32);
    i64 = Tensor::zeros({2}, DType::i64);
    scalar = Tensor::zeros({}, DType::f32);
    empty = Tensor::zeros({0, 3}, DType::f32);
  }

  static Everything filled() {
    Everything e;
    // Bit patterns that a conversion on the way would change: signed zero, subnormals, NaN
    // payloads.
    const uint16_t half_bits[3] = {0x8000, 0x0001, 0x7e55};
    for (int n = 0; n < 3; ++n) {
      static_cast<uint16_t*>(e.f16.raw())[n] = half_bits[n];
      static_cast<uint16_t*>(e.bf16.raw())[n] = half_bits[n];
    }
    for (int n = 0; n < 24; ++n) e.f32.data<float>()[n] = 1.0f / static_cast<float>(n + 1);
    e.f32.data<float>()[0] = -0.0f;
    e.f32.data<float>()[1] = std::bit_cast<float>(0x7fc12345u);
    e.f32.data<float>()[2] = std::numeric_limits<float>::denorm_min();
    e.f32.data<float>()[3] = -std::numeric_limits<float>::infinity();
    for (int n = 0; n < 5; ++n) e.f64.data<double>()[n] = 1.0 / (3.0 + n);
    e.f64.data<double>()[4] = std::bit_cast<double>(0x7ff8000000abcdefull);
    for (int n = 0; n < 4; ++n) e.u8.data<uint8_t>()[n] = static_cast<uint8_t>(250 + n);
    e.i32.data<int32_t>()[0] = std::numeric_limits<int32_t>::min();
    e.i64.data<int64_t>()[1] = std::numeric_limits<int64_t>::max();
    e.scalar.fill(0.1);
    e.i = std::numeric_limits<int64_t>::min();
    e.u = std::numeric_limits<uint64_t>::max();
    e.d = std::numeric_limits<double>::quiet_NaN();
    e.yes = true;
    e.no = false;
    e.text = "line 1\nline 2 \"quoted\"   ";
    e.no_text = "";
    e.unicode = "Bora, 30° from the Ωkarst";
    e.doubles = {0.1, -0.0, 1e-320};
    e.no_doubles = {};
    e.integers = {-1, 0, 1};
    e.names = {"a", "", "a much longer name"};
    e.no_names = {};
    return e;
  }

  void state(StateVisitor& v) {
    const StateVisitor::Group outer(v, "outer");
    v.tensor("f16", f16);
    v.tensor("bf16", bf16);
    {
      const StateVisitor::Group inner(v, "inner.0");
      v.tensor("f32", f32, "O,kD,I");
      v.tensor("f64", f64);
    }
    v.tensor("u8", u8);
    v.tensor("i32", i32);
    v.tensor("i64", i64);
    v.tensor("scalar", scalar);
    v.tensor("empty", empty);
    v.value("i", i);
    v.value("u", u);
    v.value("d", d);
    v.value("yes", yes);
    v.value("no", no);
    v.value("text", text);
    v.value("no_text", no_text);
    v.value("unicode", unicode);
    v.value("doubles", doubles);
    v.value("no_doubles", no_doubles);
    v.value("integers", integers);
    v.value("names", names);
    v.value("no_names", no_names);
  }
};

}  // namespace bora::data::test
