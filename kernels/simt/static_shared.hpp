// SPDX-License-Identifier: Apache-2.0
// The static __shared__ variables of a kernel: how many bytes, and where they are for this OS
// thread. CUDA's compiler knows; here the symbol table of the program does.
#pragma once

#include <cstddef>
#include <span>

namespace bora::simt::detail {

/// The __shared__ variables of one kernel (not those of functions that it calls).
class StaticShared {
 public:
  /// Of the kernel at `kernel`.  Finds none, without an error, where the program has no symbol
  /// table (stripped, a kernel in a shared library) or the processor is not known.
  static const StaticShared& of(const void* kernel);

  size_t bytes() const { return bytes_; }
  /// Overwrites them with NaN: what they hold when a block begins.
  void poison() const;

 private:
  struct Variable {
    size_t offset, bytes;  // in the program's thread-local block
  };
  friend class SymbolTable;
  size_t bytes_ = 0;
  size_t n_ = 0;
  Variable variables_[32] = {};
};

}  // namespace bora::simt::detail
