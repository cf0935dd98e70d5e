// SPDX-License-Identifier: Apache-2.0
// KernelRun: the inputs and outputs of one run of one kernel of the table, on any device in any
// type, so that the same row gives the reference (CPU, f64), the run under test and the timing.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/tensor.hpp"

namespace bora::gpucheck {

/// What a tensor is to a kernel, which decides its type from the type under test.
enum class Role {
  data,         ///< the type under test
  accumulator,  ///< f32; f64 in the reference
  f64,
  u8
};

/// Values of an input, a pure function of the input's number and the element.
enum class Fill {
  normal,
  positive,  ///< uniform in [0.5, 1.5)
  distinct,  ///< multiples of 1/64 that differ among neighbours: for functions that compare
  labels,    ///< 0, 1, 2
  mask,      ///< 0 or 1
};

class KernelRun {
 public:
  enum class Mode {
    check,  ///< random values, outputs poisoned with NaN
    tail,   ///< every sample (first axis) holds the values of the first
    bench,  ///< large inputs: a random piece, repeated
    once,   ///< as bench, one call, between marks for a profiler
  };
  /// `type` is what runs, `rounded` the type that values are rounded to first: the reference sees
  /// the very numbers of the run under test.
  KernelRun(Device device, DType type, DType rounded, Mode mode);

  Device device() const { return device_; }
  DType type() const { return type_; }
  Stream stream() const { return current_stream(device_); }
  DType type_of(Role role) const;

  /// The next input.
  Tensor input(const Shape& shape, Role role = Role::data, Fill fill = Fill::normal);
  /// A result to be compared, poisoned; `inout`: starts as a copy of it instead.
  Tensor output(const Shape& shape, Role role = Role::data);
  Tensor inout(const Tensor& start);
  /// Memory between two kernels: poisoned, not compared.
  Tensor scratch(const Shape& shape, Role role = Role::data) const;

  /// Runs the kernel under test: once, in mode bench until it is measured.  What a row calls
  /// outside of this is preparation.
  void call(const std::function<void()>& kernel);

  /// Whether results are looked at, so that a row may compare more.
  bool checks() const { return mode_ == Mode::check; }

  const std::vector<Tensor>& outputs() const { return outputs_; }
  /// Inputs read once and outputs written once (inout: both), or what moves() says.
  double bytes() const { return bytes_; }
  /// For a row that makes more than its kernel reads: the tensors that the kernel reads and those
  /// it writes (one that it does both to: twice).  Before call().
  void moves(const std::vector<Tensor>& tensors);
  /// Of the kernel under test, of its arithmetic; 0 unless the row says so.
  double flops = 0;
  /// Mode bench: ms of one call, one number a batch of calls.
  const std::vector<double>& times_ms() const { return times_ms_; }
  double bench_seconds = 0.05;  ///< how long to measure

 private:
  Device device_;
  DType type_, rounded_;
  Mode mode_;
  uint64_t n_inputs_ = 0;
  double bytes_ = 0;
  std::vector<Tensor> outputs_;
  std::vector<double> times_ms_;
};

}  // namespace bora::gpucheck
