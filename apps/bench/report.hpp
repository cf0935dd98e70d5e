// SPDX-License-Identifier: Apache-2.0
// What bench_step says about a step: figures by op against the machine's floor, as text and as
// lines of JSON.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "apps/bench/convolutions.hpp"
#include "apps/bench/machine_peak.hpp"
#include "apps/bench/step.hpp"
#include "core/allocator.hpp"
#include "core/profile.hpp"

namespace bora::bench {

struct OpFigures {
  std::string name;
  double calls = 0, ms = 0;  ///< a step, own time
  double flops = 0, bytes = 0;
  double floor_ms = 0;  ///< flops at the measured arithmetic peak, or bytes at the bandwidth
};
/// Of `n_steps` profiled steps.  An op that said its arithmetic (convolutions, linear maps) is held
/// against the peak for `type`, any other against the bandwidth; one that said nothing has floor 0.
std::vector<OpFigures> op_figures(const std::vector<RangeTotal>& totals, int64_t n_steps,
                                  const MachinePeak& peak, DType type);

struct StepReport {
  StepConfig config;
  std::string device = "cpu";  ///< DeviceChoice::text
  std::string way = "eager";   ///< Step::way
  int threads = 0, ranks = 1;
  int64_t n_parameters = 0, skipped = 0;
  std::vector<double> ms;  ///< of each counted step, sorted; on several ranks those of rank 0
  /// A step's wait for gradients after backward, of the rank that waits least: the last to come,
  /// which waits for communication only; and of the one that waits most, for the last as well.
  double exposed_ms = 0, longest_wait_ms = 0;
  double faults_a_step = 0, peak_resident_mib = 0;
  MemoryStats memory;  ///< of tensors on the device

  std::optional<MachinePeak> machine;  ///< with --ops
  std::vector<OpFigures> ops;

  struct ConvolutionFigures {
    Convolution convolution;
    ConvolutionTime time;
  };
  std::vector<ConvolutionFigures> convolutions;  ///< with --convs

  double median_ms() const;
  double percentile_ms(double p) const;
  double samples_per_s() const;    ///< of all ranks, by the median step
  double floor_ms() const;         ///< 0 without ops
  double convolutions_ms() const;  ///< sum over the network's layers; 0 without --convs
};

void print(const StepReport& report);
/// First a line of "kind": "step", then one of "op" for each op, "memory" for each op that held
/// memory at the peak, "convolution" for each distinct convolution.
void write_json(const StepReport& report, const std::string& path);

}  // namespace bora::bench
