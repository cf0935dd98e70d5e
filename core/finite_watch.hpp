// SPDX-License-Identifier: Apache-2.0
// FiniteWatch: which op first gave a value that is not finite.
#pragma once

#include <cstdint>
#include <string>

#include "core/tensor.hpp"

namespace bora {

/// While it lives, the result of every op of this thread is read and checked: slow, for finding out
/// why a run went wrong.  Scopes nest; the innermost one watches.
class FiniteWatch {
 public:
  FiniteWatch();
  ~FiniteWatch();
  FiniteWatch(const FiniteWatch&) = delete;
  FiniteWatch& operator=(const FiniteWatch&) = delete;

  /// "op 12 (conv3d), result (1, 8, 8, 8, 16) f16: 3 of 8192 values are NaN or inf"; empty if all
  /// were finite.
  const std::string& first() const { return first_; }

  /// Called by apply().
  static void see(const char* op, const Tensor& result);

 private:
  void look(const char* op, const Tensor& result);

  FiniteWatch* previous_;
  int64_t ops_ = 0;
  std::string first_;
};

}  // namespace bora
