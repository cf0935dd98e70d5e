// SPDX-License-Identifier: Apache-2.0
// The stages of the GPU check that this program runs, and where.
#pragma once

#include <functional>
#include <string>

#include "apps/gpucheck/result.hpp"
#include "core/device.hpp"

namespace bora::gpucheck {

/// What a stage runs on.
struct Target {
  enum class Kind {
    gpu,
    emulated,  ///< CUDA code run by the CPU: right or wrong, but no time means anything
    cpu,       ///< asked for by --device=cpu: tries the stage itself
    none
  };
  Kind kind = Kind::none;
  Device device{};
  std::string reason{};  ///< why there is none
  const char* name() const;
  /// Whether times are those of a GPU.
  bool timed() const { return kind == Kind::gpu; }
};

/// `wanted`: auto (the GPU, or what stands for it in this build, or none), cuda (an error without
/// one) or cpu.
Target find_target(const std::string& wanted);

struct StageOptions {
  Target target{};
  bool tiny = false;    ///< smallest shapes: seconds on one CPU core
  double budget_s = 0;  ///< stop taking on more after this long; 0: no limit
  /// For the tests of this program: the kernel whose result is spoiled, "name" in every run or
  /// "name:once" in the last one only.
  std::string plant{};
  std::string skip{};       ///< kernels: rows of these names, with commas, are left out
  int runs = 3;             ///< kernels: of each row, compared bit by bit
  std::string only{};       ///< kernels: rows whose name contains one of these words, with commas;
                            ///< training: checks
  std::string network{};    ///< throughput: mlperf, wind
  std::string way{};        ///< throughput: eager, graph
  int64_t batch = 0;        ///< throughput
  int64_t base = 0;         ///< throughput: channels of the first level; 0: as published
  std::string plan_file{};  ///< cudnn, throughput: plans to begin with, and where the chosen go
  std::string prediction_file{};  ///< cudnn: JSON of a described device
  std::string driver_text{};      ///< environment: what nvidia-smi says
  /// Called after each finding with what was found so far: a stage that hangs or crashes later
  /// leaves that.
  std::function<void(const Stage&)> so_far{};
};

/// Says on standard error what is done now: the last line of a stage that hangs or crashes.
void doing(const std::string& what);
/// Empty, or why nothing can be computed on the device any longer: a kernel that read or wrote
/// where it may not takes the whole process's device with it.
std::string why_lost(const Target& target);

Stage environment_stage(const StageOptions& options);
Stage kernels_stage(const StageOptions& options);
Stage cudnn_stage(const StageOptions& options);
Stage nccl_stage(const StageOptions& options);
Stage training_stage(const StageOptions& options);
Stage throughput_stage(const StageOptions& options);

/// Each chosen kernel once at the size that is timed, between cudaProfilerStart and -Stop: what
/// `ncu --profile-from-start off` looks at.
void launch_kernels(const StageOptions& options);
/// Own kernels as Nsight Compute saw them, from the file that `ncu --csv` wrote.
Stage ncu_stage(const std::string& csv_path);

/// A stage that could not run for want of a device.
Stage no_device(const std::string& name, const Target& target);

}  // namespace bora::gpucheck
