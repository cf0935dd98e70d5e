// SPDX-License-Identifier: Apache-2.0
// Qualification of a plan: it is run once on random data, and sampled results are compared with
// those of an own trivial kernel.  cuDNN had releases that computed large 3-D convolutions wrongly
// without an error; here that ends as a line in the log and another engine.
//
// The data are multiples of 1/8 in [-1, 1].  These are exact in every type, TF32 included, their
// products are multiples of 1/64, and sums of them stay exact in f32 below 2^18: the order of a sum
// does not matter, and a right engine may differ by one rounding to the result's type only.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "kernels/cudnn/problem.hpp"

namespace bora::kernels::cudnn {

/// Elements of a tensor of `shape` (5 axes, not empty) that are looked at: all if there are at most
/// `count`, else all corners, first and last elements along each axis, and random ones. Sorted.
std::vector<int64_t> sample_positions(const Shape& shape, int64_t count, uint64_t seed);

/// How many samples a pass gets: 4096, less where one is a sum of so many terms that all would take
/// more than some tens of milliseconds on a device.
int64_t sample_count(const ConvKey& key);
/// Terms of the sum behind one element of the result.
int64_t terms_of(const ConvKey& key);

/// What a right engine may differ by from `want`: one rounding to `type`, and 2^-18 sqrt(terms) for
/// engines that transform their data (Winograd's error is some 30 roundings of a sum whose size
/// goes with sqrt(terms)); one wrong term is about 1/4.
double allowed_difference(double want, DType type, int64_t terms);

/// Shapes of what a pass reads and writes: forward (x, w) -> y, backward_data (dy, w) -> dx,
/// backward_weights (x, dy) -> dw.
struct PassShapes {
  Shape first, second, result;
};
PassShapes shapes_of(const ConvKey& key);

/// t[i] = a pseudo-random multiple of 1/8 in [-1, 1].
void fill_exact(Stream stream, Tensor& t, uint64_t seed);
/// out[j] = result element positions[j] by its definition, summed in f32; for a key with a bias or
/// that adds, without these.  positions i64, out f32, on one device with the rest.
void sampled_result(Stream stream, const ConvKey& key, const Tensor& first, const Tensor& second,
                    const Tensor& positions, Tensor& out);

/// out[j] = from[positions[j]] as f32.
void gather(Stream stream, const Tensor& from, const Tensor& positions, Tensor& out);

/// Computes a pass: result from first and second, with the bias (undefined unless key.bias).
using RunPass = std::function<void(const Tensor& first, const Tensor& second, const Tensor& bias,
                                   Tensor& result)>;
/// Empty, or where `run` is wrong.  Waits for the device; allocates tensors of the pass's size for
/// as long as it runs.
std::string qualify(Stream stream, const ConvKey& key, const RunPass& run, uint64_t seed);

}  // namespace bora::kernels::cudnn
