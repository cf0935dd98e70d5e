// SPDX-License-Identifier: Apache-2.0
// GradientExchange: how the gradients of a window become the same on all ranks.
#pragma once

#include "core/collective.hpp"
#include "core/flat_buffer.hpp"
#include "core/tape.hpp"

#include <cstdint>
#include <vector>

namespace bora {

/// One window = one update of the parameters:
///   for each micro-step: begin_micro_step(whether it is the window's last); backward(...);
///                        end_micro_step();
///   finish();  // now every rank holds the same gradients
class GradientExchange {
 public:
  virtual ~GradientExchange() = default;
  virtual void begin_micro_step(bool last) = 0;
  virtual void end_micro_step() = 0;
  /// Ends the window and waits for the other ranks.  Collective.
  virtual void finish() = 0;
  /// Forgets the window under way, of which an exception was the end: the next one begins afresh.
  /// For one rank, which has no others to fall out of step with.
  virtual void abandon() = 0;

  /// Since construction.
  struct Counters {
    int64_t windows = 0;     ///< finish() calls that completed
    int64_t reductions = 0;  ///< all-reductions of gradients
    int64_t bytes = 0;       ///< handed to them
    double wait_s = 0;       ///< spent in finish(): what backward did not hide
  };
  const Counters& counters() const { return counters_; }

 protected:
  Counters counters_;
};

/// Throws Error unless leaf i has a gradient buffer that is range i of `gradients`, and the buffer
/// is where `collective` works.  `who` begins the messages.
void check_gradient_ranges(const char* who, const FlatBuffer& gradients,
                           const std::vector<Leaf*>& leaves, const Collective& collective);
/// Throws Error on all ranks, naming the first difference, unless names and shapes of `layout` and
/// `also` are the same everywhere.  Collective.
void check_same_layout(const char* who, const FlatLayout& layout, const std::string& also,
                       Collective& collective);
/// Throws Error that names parameters without a gradient, unless `names` is empty.
void refuse_unused(const char* who, const std::vector<std::string>& names);

/// The mean over the ranks of each leaf's gradient, one all-reduction a leaf, for programs without
/// an arena.  A leaf that has a gradient on some ranks only counts as zero on the others (its
/// buffer holds the mean afterwards, though has_gradient() stays false there); one that has none
/// anywhere is left alone.  Every rank must pass the same leaves in the same order, each with a
/// gradient buffer (Leaf::set_gradient_buffer) wherever another rank has a gradient for it; else
/// all ranks throw Error naming it.  Collective.
void average_gradients(const std::vector<Leaf*>& leaves, Collective& collective);

}  // namespace bora
