// SPDX-License-Identifier: Apache-2.0
// Result: what a stage of the GPU check found, as it is written to and read from JSON.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace bora::gpucheck {

/// The layout of the files; raised when a reader of old files would misread new ones.
inline constexpr const char* kSchema = "bora.gpu_check.stage/1";
inline constexpr const char* kRunSchema = "bora.gpu_check/1";

/// passed, failed: the stage ran.  error: it stopped on the way.  no_device: it needs a GPU and
/// there is none.  not_available: it needs something else that is not there (a tool, PyTorch).
/// timed_out: its time was up.  left_out: there was no time left for it.  not_wanted: whoever
/// started the run chose to do without.
enum class Status {
  passed,
  failed,
  error,
  no_device,
  not_available,
  timed_out,
  left_out,
  not_wanted
};
const char* name_of(Status status);
/// Throws Error for a word that is none.
Status status_from(const std::string& name);

/// One comparison.
struct Check {
  std::string op{}, shape{}, dtype{}, reference{};
  double rel_l2 = 0;   ///< norm of the difference by the norm of the reference
  double max_abs = 0;  ///< largest difference
  double tol_rel_l2 = 0, tol_max_abs = 0;
  std::string tol_from{};  ///< how the tolerances came about
  bool bitwise_repeat = true;
  bool pass = false;
  std::string note{};  ///< where it failed
};

/// One timing.
struct Bench {
  std::string name{}, shape{}, dtype{};
  double ms_p10 = 0, ms_median = 0, ms_p90 = 0;
  int64_t n = 0;
  double bytes = 0, flops = 0;
  double pct_of_floor = 0;  ///< floor time / median; 0 where no ceiling was measured
  double peak_mib = 0;      ///< memory at the peak; 0 where it was not looked at
  double gb_per_s() const { return ms_median > 0 ? bytes / ms_median * 1e-6 : 0; }
  double tflop_per_s() const { return ms_median > 0 ? flops / ms_median * 1e-9 : 0; }
};

/// One convolution plan.
struct Plan {
  std::string layer{}, pass{}, dtype{}, engine{};
  bool tensor_core = false, deterministic = false;
  double workspace_mib = 0, ms = 0, tflop_per_s = 0;
  std::string predicted{};  ///< the engine that the check without a device predicts
  std::string note{};
};

struct Stage {
  std::string name{};
  Status status = Status::passed;
  double seconds = 0;
  std::string device{};  ///< gpu, emulated, cpu or none
  std::string error{};
  std::map<std::string, std::string> facts{};
  std::map<std::string, double> numbers{};
  std::vector<Check> checks{};
  std::vector<Bench> bench{};
  std::vector<Plan> plans{};
  std::string properties_json{};  ///< of the device, as cuDNN describes it

  /// Whether all checks passed.
  bool right() const;
  /// status from right(): passed or failed.
  void conclude();
};

/// Writes the stage, so that a reader never sees half a file.  Throws Error naming the path.
void write_stage(const Stage& stage, const std::string& path);
/// Throws Error naming the path and what is wrong with it.
Stage read_stage(const std::string& path);

/// Ours against PyTorch on one network, from the stages "throughput ..." of one run.
struct Comparison {
  std::string network{};
  double ours_ms = 0, torch_channels_last_ms = 0, torch_contiguous_ms = 0;  ///< 0: not measured
  /// In use by tensors at the peak, and of the whole card at the end of the steps; PyTorch's of its
  /// faster layout.
  double ours_peak_mib = 0, torch_peak_mib = 0, ours_card_mib = 0, torch_card_mib = 0;
  double ratio_to_best = 0;  ///< theirs / ours: above 1 we are faster
  std::string note{};        ///< why there is no ratio
};

/// A whole run of the check.
struct Run {
  std::string when{}, git{};
  bool dirty = false;
  bool finished = true;  ///< false: written while stages were still to come
  bool judged = true;    ///< whether any stage has judged results
  std::map<std::string, std::string> machine{};
  std::map<std::string, double> ceilings{};
  std::vector<Stage> stages{};
  std::vector<Comparison> compare{};
  bool right = false;  ///< what the exit code says
};

void write_run(const Run& run, const std::string& path);
/// Throws Error naming the path and what is wrong with it.
Run read_run(const std::string& path);

}  // namespace bora::gpucheck
