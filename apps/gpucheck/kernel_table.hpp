// SPDX-License-Identifier: Apache-2.0
// The table of our kernels: one row each, by the name of the function of kernels/*.hpp (or
// "backend ..." for the element functions of core/backend.hpp).  A test holds it against the
// headers, so that a kernel without a row is found.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "apps/gpucheck/kernel_run.hpp"

namespace bora::gpucheck {

struct Row {
  std::string name{};
  /// Makes inputs and outputs for a volume batch (N, D, H, W, C), and calls the kernel.
  std::function<void(KernelRun&, const Shape&)> run;
  /// Roundings in f32 that a result goes through before it is rounded to its type, and how much
  /// larger than the result the numbers are on the way there.
  double roundings = 4, amplification = 1;
  std::vector<DType> types{DType::f16, DType::bf16, DType::f32};
  /// Whether samples do not depend on each other: then it is also run on more than 2^31 bytes.
  bool per_sample = false;
  int64_t least_extent = 1;  ///< smaller volumes are not its business
  int stores_between = 0;    ///< roundings to the type under test before the result's own
  /// A library computes it, which may sum in another order where the shape is another; its kernels
  /// count elements with 32 bits.
  bool by_library = false;
};

/// All rows, by family.
const std::vector<Row>& kernel_table();

std::vector<Row> activation_rows();
std::vector<Row> pointwise_rows();
std::vector<Row> norm_rows();
std::vector<Row> loss_rows();
std::vector<Row> volume_rows();
std::vector<Row> convolution_rows();
std::vector<Row> update_rows();

}  // namespace bora::gpucheck
