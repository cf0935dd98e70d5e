// SPDX-License-Identifier: Apache-2.0
// What this machine can do at most, measured: arithmetic and memory bandwidth.
#pragma once

#include <string>

namespace bora::bench {

struct MachinePeak {
  int threads = 0;
  std::string vectors;  ///< "AVX-512", "AVX2" or "portable": what f32 was measured with
  double f32 = 0;       ///< FLOP/s of independent f32 multiply-adds, all threads together
  double bf16 = 0;      ///< FLOP/s of the bf16 dot instruction; 0 where there is none
  double copy = 0;      ///< bytes/s of y = x, read and written bytes counted
  double triad = 0;     ///< bytes/s of y = x + s z, three arrays counted

  double bandwidth() const { return copy > triad ? copy : triad; }
  /// The rate that convolutions of 16-bit (`half`) or f32 operands are held against: the dot
  /// instruction where there is one.
  double arithmetic(bool half) const { return half && bf16 > 0 ? bf16 : f32; }
};

/// Takes about half a second and 192 MiB a thread for the time of the call.  The widest vectors
/// that the processor has are used, whatever the program was built for.  Best of several rounds:
/// other load on the machine lowers it.  threads > 0.
MachinePeak measure_machine_peak(int threads);

}  // namespace bora::bench
