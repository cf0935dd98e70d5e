// SPDX-License-Identifier: Apache-2.0
// Engines and plans for a convolution on a described device.  Nothing here needs the device itself
// or a driver: plans are made from a description, which a device gives or a file holds.
#pragma once

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "kernels/cudnn/choice.hpp"
#include "kernels/cudnn/graph.hpp"

namespace bora::kernels::cudnn {

/// What plans are made for.
class DeviceDescription {
 public:
  /// From cuDNN's JSON of a device.  Throws Error with cuDNN's reason, which names what is missing.
  static DeviceDescription from_json(const std::string& json);
  /// Of the device with this number in this process.
  static DeviceDescription from_device(int index);

  /// cuDNN's JSON.
  std::string json() const;
  /// "NVIDIA H200, sm_90, 132 SMs, cuDNN 9.19.0": what choices of engines hold for.
  const std::string& name() const { return name_; }
  const Descriptor& descriptor() const { return descriptor_; }

 private:
  explicit DeviceDescription(Descriptor descriptor);
  Descriptor descriptor_;
  std::string name_;
};

/// A finalised plan.
struct ConvPlan {
  /// The configuration, then what it stands on: cuDNN does not say that a plan does without.
  std::vector<Descriptor> parts = {};
  Descriptor plan;
  EngineChoice choice;
  EngineNotes notes;
  int64_t workspace = 0;  ///< bytes

  /// "engine 62 (...), tensor core, workspace 0.0 MiB".
  std::string text() const;
};

/// The plans that may compute `key` on `device`, best first, at most `n`: cuDNN's suggestions (mode
/// A, then fallback) that rejection() lets pass and that finalise, without those in `banned`; where
/// prefers_tensor_cores() says so, those on tensor cores first.  If there is none, `*reasons` (if
/// given) says what was found against each engine.
std::vector<ConvPlan> find_plans(const ConvKey& key, const ConvGraph& graph,
                                 const DeviceDescription& device, size_t n,
                                 const std::set<int64_t>& banned, std::string* reasons = nullptr);

/// The plan of a choice made before.  Throws Error with cuDNN's reason if it cannot be made.
ConvPlan make_plan(const ConvKey& key, const ConvGraph& graph, const DeviceDescription& device,
                   const EngineChoice& choice);

}  // namespace bora::kernels::cudnn
