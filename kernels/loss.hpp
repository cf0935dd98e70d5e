// SPDX-License-Identifier: Apache-2.0
// Masked losses: sums per sample first, the value from them, the gradient as a gather.  Sums and
// counts are f64 (exact counts to 2^53) in the order of kernels/reduce.hpp; element arithmetic is
// in acc_t.  Cells outside the region are never added: a NaN there does no harm, their gradient
// is 0.
#pragma once

#include "core/tensor.hpp"

namespace bora::kernels {

/// f(e) of e = prediction - target.  The order is that of nn::DataLoss.
enum class DataLossKind { mse, mae, charbonnier };

struct DataLossAttributes {
  DataLossKind kind = DataLossKind::charbonnier;
  double eps = 1e-3;  ///< of charbonnier: sqrt(e^2 + eps^2)
};

/// prediction, target (N, ..., K) of one floating type; region (N, ...) u8 or undefined; sums (N,
/// 2) f64: sum of f(e), number of elements that count.
void data_loss_sums(Stream stream, const DataLossAttributes& attributes, const Tensor& prediction,
                    const Tensor& target, const Tensor& region, Tensor& sums);
/// loss (), acc type: the mean over samples of sum / count; an empty sample adds 0, no samples
/// give 0.
void data_loss_value(Stream stream, const Tensor& sums, Tensor& loss);
/// dprediction from dloss (), acc type.
void data_loss_backward(Stream stream, const DataLossAttributes& attributes,
                        const Tensor& prediction, const Tensor& target, const Tensor& region,
                        const Tensor& sums, const Tensor& dloss, Tensor& dprediction);

/// The order is that of nn::GradientLoss.  With e = |D p - D t| and a = |D t| along one axis of one
/// sample, means over the differences that count (both cells in the region):
///   plain    mean e
///   inverse  mean e / (a + 1e-3)
///   edge     mean w e, w = (1 + a / mean a) / 2: grows with a, mean 1; w = 1 where mean a is 0
enum class GradientLossForm { plain, inverse, edge };

/// prediction, target (N, D, H, W, K); region (N, D, H, W) u8 or undefined; sums (N, 3, 4) f64: for
/// each axis the count, the sum of e (inverse: of e / (a + 1e-3)), the sum of a e, the sum of a.
void gradient_loss_sums(Stream stream, GradientLossForm form, const Tensor& prediction,
                        const Tensor& target, const Tensor& region, Tensor& sums);
/// loss (): the mean over samples of a third of the sum over axes; an axis without differences
/// adds 0.
void gradient_loss_value(Stream stream, GradientLossForm form, const Tensor& sums, Tensor& loss);
void gradient_loss_backward(Stream stream, GradientLossForm form, const Tensor& prediction,
                            const Tensor& target, const Tensor& region, const Tensor& sums,
                            const Tensor& dloss, Tensor& dprediction);

/// ce_weight * cross-entropy + dice_weight * soft Dice, see nn::dice_cross_entropy.
struct ClassLossAttributes {
  double ce_weight = 1.0, dice_weight = 0.0;
  double smooth = 1e-5;
  bool include_background = true;
};

/// What is known of the cells of logits (N, ..., K).  A cell counts if the region has it (1) and
/// its weight is not 0; region and weights may be undefined.
struct ClassCells {
  Tensor labels;        ///< (N, ...) u8
  Tensor region = {};   ///< (N, ...) u8
  Tensor weights = {};  ///< (N, ...) acc type, >= 0: how much a cell adds to every sum; 1 if
                        ///< undefined
};

/// logits (N, ..., K).  normaliser (N, ..., 2) acc type: the largest logit of each cell and log sum
/// exp(logit - largest).  sums (N, K, 5) f64: over counting cells, per class: sum w p t, sum w p,
/// weight of the cells with that label, sum of -w log p over those, weight of the counting cells
/// (without weights: numbers of cells).  With weights, a weight that is negative or not finite and
/// a counting cell's label that is no class make the last NaN in each class.
void class_loss_sums(Stream stream, const Tensor& logits, const ClassCells& cells,
                     Tensor& normaliser, Tensor& sums);
/// Whether sums are of weighted cells: without weights they are exact counts, and labels that are
/// no class show as a difference.
enum class CellWeights { none, given };
/// loss (), acc type; NaN if a counting cell has a label that is no class, or a weight is bad.  A
/// sample without counting cells adds 0.
void class_loss_value(Stream stream, const ClassLossAttributes& attributes, const Tensor& sums,
                      Tensor& loss, CellWeights weights = CellWeights::none);
void class_loss_backward(Stream stream, const ClassLossAttributes& attributes, const Tensor& logits,
                         const ClassCells& cells, const Tensor& normaliser, const Tensor& sums,
                         const Tensor& dloss, Tensor& dlogits);

}  // namespace bora::kernels
