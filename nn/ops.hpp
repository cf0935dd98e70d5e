// SPDX-License-Identifier: Apache-2.0
// Every differentiable function.  Tensors are dense and channels last: a volume batch is (N, D, H,
// W, C). Floating types are f16, bf16, f32 and f64 (f64 on the CPU only, for gradient checks)
// unless said otherwise; all tensors of a call share the type and the device unless said otherwise.
// Results are the same bits from run to run and for any number of threads.  Each function throws
// Error with the op, what was given and what was wanted.
#pragma once

#include <vector>

#include "core/collective.hpp"
#include "core/tensor.hpp"

namespace bora::nn {

// ---- pointwise (nn/ops/pointwise.cpp)
// -------------------------------------------------------------------------------------

/// a + b, element by element; equal shapes.  Saves nothing.
Tensor add(const Tensor& a, const Tensor& b);
/// a * b, element by element; equal shapes.  Saves a and b (each only if the other's gradient is
/// wanted).
Tensor mul(const Tensor& a, const Tensor& b);
/// factor * x.  Saves nothing.
Tensor scale(const Tensor& x, double factor);
/// The same elements in another shape; shares the bytes.  Saves nothing.
Tensor reshape(const Tensor& x, const Shape& shape);
/// Conversion to another floating type; the gradient is converted back.  Saves nothing.
Tensor cast(const Tensor& x, DType type);
/// Sum of all elements, shape (), in acc_t, fixed tree.  Saves nothing.
Tensor sum(const Tensor& x);
/// Mean of all elements, shape (); throws on an empty tensor.
Tensor mean(const Tensor& x);
/// Each element kept with probability 1 - p and divided by 1 - p, else 0; 0 <= p < 1.  The mask is
/// a pure function of the thread's random position (core/rng.hpp) and the element's index: nothing
/// is saved, recompute draws the same.
Tensor dropout(const Tensor& x, double p);

// ---- activations (nn/ops/activation.cpp)
// ------------------------------------------------------------------------------------

enum class Activation { identity, relu, leaky_relu, silu, gelu, sigmoid, tanh };

/// max(x, 0).  Gradient 0 at 0.  Saves y.
Tensor relu(const Tensor& x);
/// x where x > 0, slope * x elsewhere; slope >= 0.  Saves y.
Tensor leaky_relu(const Tensor& x, double slope);
/// x * sigmoid(x).  Saves x.
Tensor silu(const Tensor& x);
/// x * Phi(x), exact (erf) form.  Saves x.
Tensor gelu(const Tensor& x);
/// 1 / (1 + exp(-x)), no overflow for any x.  Saves y.
Tensor sigmoid(const Tensor& x);
/// Saves y.
Tensor tanh(const Tensor& x);
/// exp(x_i) / sum exp(x_j) over the last axis, shifted by the maximum, in acc_t.  Saves y.
Tensor softmax(const Tensor& x);

// ---- convolution and linear (nn/ops/conv.cpp)
// -----------------------------------------------------------------------------

struct Conv3dOptions {
  Dims3 stride = Dims3::all(1);
  Dims3 padding = Dims3::all(0);
  Dims3 dilation = Dims3::all(1);
  int64_t groups = 1;
  Dims3 output_padding =
      Dims3::all(0);  ///< transposed convolution only; less than stride or dilation
};

/// Cross-correlation: y[n,o] = b[o] + sum w[o,k,i] x[n, o*stride - padding + k*dilation, i].
/// x (N, D, H, W, I); w (O, kD, kH, kW, I/groups); b (O) or undefined; returns (N, D', H', W', O),
/// D' = (D + 2 padding - dilation (kD - 1) - 1) / stride + 1, rounded down.  Saves x and w.
/// On the CPU: f32 by oneDNN; bf16 too where there are bf16 instructions; f16, and bf16 elsewhere,
/// through f32 scratch; f64 by reference loops.
Tensor conv3d(const Tensor& x, const Tensor& w, const Tensor& b, const Conv3dOptions& options = {});
/// The adjoint of conv3d with respect to x.  x (N, D, H, W, I); w (I, kD, kH, kW, O/groups); b (O)
/// or undefined; returns (N, D', H', W', O), D' = (D - 1) stride - 2 padding + dilation (kD - 1) +
/// output_padding + 1.  Saves x and w.
Tensor conv_transpose3d(const Tensor& x, const Tensor& w, const Tensor& b,
                        const Conv3dOptions& options = {});
/// conv3d with depth 1: x (N, H, W, I); w (O, kH, kW, I/groups); the d members of options must be
/// the neutral ones.
Tensor conv2d(const Tensor& x, const Tensor& w, const Tensor& b, const Conv3dOptions& options = {});
/// y = x w^T + b over the last axis: x (..., I); w (O, I); b (O) or undefined; returns (..., O).
/// Saves x and w.
Tensor linear(const Tensor& x, const Tensor& w, const Tensor& b);

// ---- pooling (nn/ops/pool.cpp)
// --------------------------------------------------------------------------------------------

struct PoolOptions {
  Dims3 kernel = Dims3::all(2);
  Dims3 stride = Dims3::all(2);
  Dims3 padding = Dims3::all(0);  ///< at most half of the kernel
};

/// Maximum over windows; out of bounds never wins; the first of equal ones and the first NaN win.
/// x (N, D, H, W, C); returns (N, D', H', W', C), D' = (D + 2 padding - kernel) / stride + 1
/// rounded down. Saves the winner's place in the window, one byte an element (windows of at most
/// 255 cells).
Tensor max_pool3d(const Tensor& x, const PoolOptions& options = {});
/// Mean over windows, out of bounds not counted.  Saves nothing.
Tensor avg_pool3d(const Tensor& x, const PoolOptions& options = {});

// ---- resampling (nn/ops/resample.cpp)
// -------------------------------------------------------------------------------------

/// Trilinear interpolation to (size.d, size.h, size.w), half-pixel centres, edges clamped ("align
/// corners" off), any ratio. x (N, D, H, W, C); saves nothing.  The gradient is the exact adjoint,
/// in gather form.
Tensor upsample_trilinear(const Tensor& x, Dims3 size);
/// Nearest neighbour: source index floor(i * in / out).  Saves nothing.
Tensor upsample_nearest(const Tensor& x, Dims3 size);

// ---- rearranging (nn/ops/rearrange.cpp)
// -----------------------------------------------------------------------------------

/// Joins along the channel (last) axis; the other extents are equal.  Saves nothing.
Tensor concat(const std::vector<Tensor>& parts);
/// Channels [begin, end).  Saves nothing.
Tensor slice_channels(const Tensor& x, int64_t begin, int64_t end);
/// Parts of the channel axis, in order; the sizes add up to C.
std::vector<Tensor> split(const Tensor& x, const std::vector<int64_t>& sizes);
/// Adds `before` and `after` cells of `value` along D, H, W of (N, D, H, W, C).
Tensor pad(const Tensor& x, Dims3 before, Dims3 after, double value = 0.0);
/// The box of `size` cells from `offset` on along D, H, W of (N, D, H, W, C).
Tensor crop(const Tensor& x, Dims3 offset, Dims3 size);

// ---- normalisation (nn/ops/norm.cpp)
// --------------------------------------------------------------------------------------

/// What is fused behind a norm: y = activation(norm(x) + residual).
struct NormFusion {
  Activation activation = Activation::identity;
  double slope = 0.01;  ///< of leaky_relu
  Tensor residual{};    ///< shape of x, or undefined; gets its gradient
};

/// Statistics per sample and group of C/groups channels over D, H, W; y = (x - mean) / sqrt(var +
/// eps) * gamma + beta. x (N, D, H, W, C) or (N, ..., C); gamma, beta (C), f32 (f64 with f64 x);
/// groups divides C.  Mean and variance (biased) in f32 by shifted sums with pairwise or Chan
/// merging, also for 16-bit x.  Saves x, mean, rstd (and the residual where the activation's
/// derivative needs it).  Source: Wu and He 2018.
Tensor group_norm(const Tensor& x, const Tensor& gamma, const Tensor& beta, int64_t groups,
                  double eps = 1e-5, const NormFusion& fusion = {});
/// group_norm with one channel a group.  Source: Ulyanov et al. 2016.
Tensor instance_norm(const Tensor& x, const Tensor& gamma, const Tensor& beta, double eps = 1e-5,
                     const NormFusion& fusion = {});

struct BatchNormState {
  Tensor running_mean;  ///< (C) f32 (f64 with f64 x); written in training mode
  Tensor running_var;   ///< (C), unbiased
  double momentum = 0.1;
};
/// Statistics per channel over N, D, H, W.  Training: of this batch, joined over `sync`'s ranks if
/// given (counts may differ, a rank may be empty), running statistics updated; else: the running
/// ones.  An empty batch leaves them unchanged and gives zero gradients.  Source: Ioffe and Szegedy
/// 2015.
Tensor batch_norm(const Tensor& x, const Tensor& gamma, const Tensor& beta, BatchNormState& state,
                  bool training, double eps = 1e-5, const NormFusion& fusion = {},
                  Collective* sync = nullptr);

// ---- losses (nn/ops/loss.cpp)
// ---------------------------------------------------------------------------------------------
// prediction, target (N, D, H, W, K); region (N, D, H, W) u8 (1 = counts) or undefined (all count);
// sums in f32 or better, fixed order, counts in 64 bit; returns () f32 (f64 for f64 input): the
// mean over samples of each sample's mean over its region, so that N ranks with batch b equal one
// rank with batch N b.  A sample whose region is empty contributes 0.  Only the prediction gets a
// gradient.  Values outside the region are never read into the sum: NaN there does no harm.

enum class DataLoss { mse, mae, charbonnier };
/// mse: e^2; mae: |e|; charbonnier: sqrt(e^2 + eps^2); e = prediction - target.
Tensor data_loss(const Tensor& prediction, const Tensor& target, const Tensor& region,
                 DataLoss kind, double eps = 1e-3);

enum class GradientLoss { plain, inverse, edge };
/// One third of the sum over axes of the mean of |D p - D t|, D = forward difference; a difference
/// counts if both its cells do. inverse: each divided by |D t| + 1e-3 (the old documented form;
/// stresses flat areas).  edge: each weighted by a factor that grows with |D t|, normalised to mean
/// 1 over the counting differences of the sample and axis.  Source: spec unet3d.md 2.
Tensor gradient_loss(const Tensor& prediction, const Tensor& target, const Tensor& region,
                     GradientLoss form);

struct DiceOptions {
  double dice_weight = 1.0, cross_entropy_weight = 1.0;
  double smooth = 1e-5;
  bool include_background = true;
};
/// logits (N, D, H, W, K); labels (N, D, H, W) u8 with values < K.  Softmax cross-entropy (mean
/// over counting cells) plus soft Dice: 1 - mean over (sample, class) of (2 sum p t + smooth) /
/// (sum p + sum t + smooth).  A class absent from both prediction and label scores 1 by the smooth
/// term.  Source: Milletari et al. 2016.
///
/// weights (N, D, H, W) f32 (f64 with f64 logits), >= 0, or undefined (all 1): a cell adds its
/// weight times what it added to every sum, and a sample's cross-entropy is divided by the sum of
/// its weights: only their ratios matter there.  Dice is of weighted sums too, (2 sum w p t +
/// smooth) / (sum w p + sum w t + smooth): a weight of 0 is then the same as not being in the
/// region (label and logits are not looked at, the gradient is 0), and weights of 1 change no bit.
/// All 0: the sample contributes 0.  Throws Error for a weight that is negative or not finite and
/// for labels >= K (on a device the loss is NaN instead).  Source: of the weighted cross-entropy
/// Ronneberger et al. 2015, eq. 1; of the Dice part the formula above, with w as the measure of a
/// cell.
Tensor dice_cross_entropy(const Tensor& logits, const Tensor& labels, const Tensor& region,
                          const DiceOptions& options = {}, const Tensor& weights = {});
/// Mean softmax cross-entropy alone.
Tensor cross_entropy(const Tensor& logits, const Tensor& labels, const Tensor& region,
                     const Tensor& weights = {});

// ---- head and loss in one (nn/ops/head_loss.cpp)
// -----------------------------------------------------------------------------
// A network's head, y = x w^T + b per cell (a 1x1x1 convolution), and the loss of y: the function
// is data_loss(conv3d(x, w, b), ...), but y stays in f32 (never rounded to a 16-bit type) and, on a
// device, for up to 8 outputs and channels in whole packs of 16 bytes, in registers: forward reads
// x once, backward reads it once more and writes its gradient.  x (N, D, H, W, I); w (O, 1, 1, 1,
// I); b (O) or undefined.  Under mixed precision x, w and b are seen in the 16-bit type, target in
// f32.  Saves x, w, b, target or labels, region.  For a loss that needs y itself (gradient_loss)
// use conv3d.

/// target (N, D, H, W, O), f32 also for 16-bit x.
Tensor head_data_loss(const Tensor& x, const Tensor& w, const Tensor& b, const Tensor& target,
                      const Tensor& region, DataLoss kind, double eps = 1e-3);
/// labels (N, D, H, W) u8 with values < O; see dice_cross_entropy.
Tensor head_dice_cross_entropy(const Tensor& x, const Tensor& w, const Tensor& b,
                               const Tensor& labels, const Tensor& region,
                               const DiceOptions& options = {});

}  // namespace bora::nn
