// SPDX-License-Identifier: Apache-2.0
// Which engine computes a convolution: what is known of an engine, which are allowed, and the book
// of choices that becomes the plan file.  Knows nothing of cuDNN's headers.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "kernels/cudnn/problem.hpp"

namespace bora::kernels::cudnn {

/// A setting of an engine, by cuDNN's numbers.
struct Knob {
  int64_t type = 0, value = 0;
  friend bool operator==(const Knob&, const Knob&) = default;
};

/// An engine by its global index, and its settings: enough to make the same plan again.
struct EngineChoice {
  int64_t engine = -1;
  std::vector<Knob> knobs;
  friend bool operator==(const EngineChoice&, const EngineChoice&) = default;
};
/// "engine 62 (2:5 13:1)".
std::string text_of(const EngineChoice& choice);

/// What cuDNN says about an engine.
struct EngineNotes {
  bool tensor_core = false;
  bool down_converts = false;      ///< rounds its inputs to a smaller type first
  bool reduced_reduction = false;  ///< sums in less than f32
  bool nondeterministic = false;
  bool compiled_at_run_time = false;
};

/// Empty, or why an engine may not compute `key`.  `workspace` in bytes, negative where not known.
std::string rejection(const EngineNotes& notes, int64_t workspace, const ConvKey& key);
/// Whether engines on tensor cores go before others: where they compute what was asked for.
bool prefers_tensor_cores(const ConvKey& key);

/// Choices by device and problem, and engines that gave wrong results.  Thread-safe.
class PlanBook {
 public:
  /// `device` names the kind of device and the library's version.
  std::optional<EngineChoice> find(const std::string& device, const ConvKey& key);
  void add(const std::string& device, const ConvKey& key, const EngineChoice& choice);

  /// The engine gave a wrong result for this problem: it is not chosen for it again.
  void ban(const std::string& device, const ConvKey& key, int64_t engine);
  std::set<int64_t> banned(const std::string& device, const ConvKey& key) const;

  /// See cuda::plan_file_text() and cuda::load_plan_file_text().
  std::string text() const;
  void load(const std::string& text);

  size_t size() const;
  /// Grows with each load(): plans made before then are not to be used any longer.
  int64_t generation() const;

 private:
  struct Device {
    std::map<std::string, EngineChoice> choices;    // by text_of(key)
    std::map<std::string, std::set<int64_t>> bans;  // the same
  };
  mutable std::mutex mutex_;
  std::map<std::string, Device> devices_;
  bool loaded_ = false;
  int64_t generation_ = 0;
  std::set<std::string> warned_;  // devices that a loaded file does not know
};

/// The book of this process, which cuda::plan_file_text() writes.
PlanBook& plan_book();

}  // namespace bora::kernels::cudnn
