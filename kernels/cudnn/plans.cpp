// SPDX-License-Identifier: Apache-2.0
#include "kernels/cudnn/plans.hpp"

#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>

#include "kernels/cudnn/version_gate.hpp"

namespace bora::kernels::cudnn {
namespace {

EngineNotes notes_of(const Descriptor& engine) {
  EngineNotes notes;
  for (const auto note :
       engine.get_all<cudnnBackendNumericalNote_t>(CUDNN_ATTR_ENGINE_NUMERICAL_NOTE)) {
    notes.tensor_core |= note == CUDNN_NUMERICAL_NOTE_TENSOR_CORE;
    notes.down_converts |= note == CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS;
    notes.reduced_reduction |= note == CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION;
    notes.nondeterministic |= note == CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC;
  }
  for (const auto note :
       engine.get_all<cudnnBackendBehaviorNote_t>(CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE))
    notes.compiled_at_run_time |= note == CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION;
  return notes;
}

std::vector<Knob> knobs_of(const Descriptor& config) {
  std::vector<Knob> knobs;
  for (const Descriptor& knob :
       config.get_descriptors(CUDNN_ATTR_ENGINECFG_KNOB_CHOICES,
                              CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR, CUDNN_KNOB_TYPE_COUNTS))
    knobs.push_back(
        {static_cast<int64_t>(knob.get<cudnnBackendKnobType_t>(CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE)),
         knob.get<int64_t>(CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE)});
  return knobs;
}

/// cuDNN's suggestions, best first.  A mode that fails to answer (none of its engines supports the
/// graph) suggests nothing; its reason goes to `reasons`.
std::vector<Descriptor> suggestions(const ConvGraph& graph, const DeviceDescription& device,
                                    cudnnBackendHeurMode_t mode, std::string& reasons) {
  Descriptor heuristics(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  heuristics.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph.graph)
      .set(CUDNN_ATTR_ENGINEHEUR_MODE, mode)
      .set(CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, device.descriptor());
  if (const std::string refused = heuristics.try_finalize(); !refused.empty()) {
    reasons += "  heuristics: " + refused + "\n";
    return {};
  }
  return heuristics.get_descriptors(CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                    CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
}

/// Finalises; empty, or why not.
std::string finish(const ConvKey& key, const DeviceDescription& device, const Descriptor& config,
                   ConvPlan& plan) {
  plan.plan = Descriptor(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
  plan.plan.set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config)
      .set(CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, device.descriptor());
  if (std::string refused = plan.plan.try_finalize(); !refused.empty()) return refused;
  plan.workspace = plan.plan.get<int64_t>(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE);
  return rejection(plan.notes, plan.workspace, key);
}

}  // namespace

DeviceDescription::DeviceDescription(Descriptor descriptor) : descriptor_(std::move(descriptor)) {
  const auto d = nlohmann::json::parse(json(), nullptr, /*allow_exceptions=*/false);
  BORA_CHECK(d.is_object() && d.contains("deviceName") && d.contains("deviceVer") &&
                 d.contains("multiProcessorCount"),
             "cuDNN: the description of a device lacks deviceName, deviceVer or "
             "multiProcessorCount: ",
             json());
  const auto text = [&d](const char* key) {
    return d[key].is_string() ? d[key].get<std::string>() : d[key].dump();
  };
  const int64_t version = d["deviceVer"].is_number() ? d["deviceVer"].get<int64_t>() / 10 : 0;
  name_ = detail::join(text("deviceName"), ", sm_", version, ", ", text("multiProcessorCount"),
                       " SMs, cuDNN ", version_text(cudnnGetVersion()));
}

DeviceDescription DeviceDescription::from_json(const std::string& json) {
  Descriptor d(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
  d.set_all(CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, std::vector<char>(json.begin(), json.end()));
  d.finalize();
  return DeviceDescription(std::move(d));
}

DeviceDescription DeviceDescription::from_device(int index) {
  Descriptor d(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
  d.set(CUDNN_ATTR_DEVICEPROP_DEVICE_ID, static_cast<int32_t>(index));
  d.finalize();
  return DeviceDescription(std::move(d));
}

std::string DeviceDescription::json() const {
  const auto text = descriptor_.get_all<char>(CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION);
  std::string json(text.begin(), text.end());
  return json.substr(0, json.find('\0'));
}

std::string ConvPlan::text() const {
  char size[32];
  std::snprintf(size, sizeof size, "%.1f", static_cast<double>(workspace) / 1048576.0);
  return detail::join(text_of(choice), notes.tensor_core ? ", tensor cores" : "",
                      notes.nondeterministic ? ", not deterministic" : "", ", workspace ", size,
                      " MiB");
}

std::vector<ConvPlan> find_plans(const ConvKey& key, const ConvGraph& graph,
                                 const DeviceDescription& device, size_t n,
                                 const std::set<int64_t>& banned, std::string* reasons) {
  std::vector<ConvPlan> plans, later;  // later: not on tensor cores where these go first
  std::map<std::string, std::set<int64_t>> against;
  std::string refused;
  for (const auto mode : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK}) {
    if (plans.size() >= n) break;
    for (Descriptor& config : suggestions(graph, device, mode, refused)) {
      std::vector<Descriptor> engines =
          config.get_descriptors(CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_BACKEND_ENGINE_DESCRIPTOR, 1);
      BORA_CHECK(engines.size() == 1, "cuDNN: a configuration without an engine");
      const auto engine = engines[0].get<int64_t>(CUDNN_ATTR_ENGINE_GLOBAL_INDEX);
      ConvPlan plan{.parts = {}, .plan = {}, .choice = {engine, {}}, .notes = notes_of(engines[0])};
      const bool second_choice = prefers_tensor_cores(key) && !plan.notes.tensor_core;
      if (second_choice && later.size() >= n) continue;
      std::string reason = banned.contains(engine) ? "gave a wrong result"
                                                   : rejection(plan.notes, /*workspace=*/-1, key);
      if (reason.empty()) reason = finish(key, device, config, plan);
      if (!reason.empty()) {
        against[reason].insert(engine);
        continue;
      }
      plan.choice.knobs = knobs_of(config);
      plan.parts.push_back(std::move(config));
      plan.parts.push_back(std::move(engines[0]));
      (second_choice ? later : plans).push_back(std::move(plan));
      if (plans.size() >= n) break;
    }
  }
  for (ConvPlan& plan : later)
    if (plans.size() < n) plans.push_back(std::move(plan));
  if (plans.empty() && reasons) {
    *reasons = refused;
    for (const auto& [reason, engines] : against) {
      *reasons += "  engine";
      for (const int64_t e : engines) *reasons += ' ' + std::to_string(e);
      *reasons += ": " + reason + "\n";
    }
  }
  return plans;
}

ConvPlan make_plan(const ConvKey& key, const ConvGraph& graph, const DeviceDescription& device,
                   const EngineChoice& choice) {
  Descriptor engine(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  engine.set(CUDNN_ATTR_ENGINE_OPERATION_GRAPH, graph.graph)
      .set(CUDNN_ATTR_ENGINE_GLOBAL_INDEX, choice.engine)
      .set(CUDNN_ATTR_ENGINE_DEVICEPROP, device.descriptor());
  engine.finalize();
  std::vector<Descriptor> knobs;
  std::vector<const Descriptor*> pointers;
  knobs.reserve(choice.knobs.size());
  for (const Knob& k : choice.knobs) {
    Descriptor& knob = knobs.emplace_back(CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR);
    knob.set(CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, static_cast<cudnnBackendKnobType_t>(k.type))
        .set(CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, k.value);
    knob.finalize();
    pointers.push_back(&knob);
  }
  Descriptor config(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
  config.set(CUDNN_ATTR_ENGINECFG_ENGINE, engine);
  if (!pointers.empty()) config.set_all(CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, pointers);
  config.finalize();
  ConvPlan plan{.parts = {}, .plan = {}, .choice = choice, .notes = notes_of(engine)};
  const std::string reason = finish(key, device, config, plan);
  BORA_CHECK(reason.empty(), text_of(choice), " cannot compute ", text_of(key), ": ", reason);
  plan.parts.push_back(std::move(config));
  plan.parts.push_back(std::move(engine));
  for (Descriptor& knob : knobs) plan.parts.push_back(std::move(knob));
  return plan;
}

}  // namespace bora::kernels::cudnn
