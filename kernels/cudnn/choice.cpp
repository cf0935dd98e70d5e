// SPDX-License-Identifier: Apache-2.0
#include "kernels/cudnn/choice.hpp"

#include "core/log.hpp"

namespace bora::kernels::cudnn {

std::string text_of(const EngineChoice& choice) {
  std::string text = detail::join("engine ", choice.engine);
  for (size_t i = 0; i < choice.knobs.size(); ++i)
    text += detail::join(i ? " " : " (", choice.knobs[i].type, ':', choice.knobs[i].value);
  return choice.knobs.empty() ? text : text + ")";
}

bool prefers_tensor_cores(const ConvKey& key) { return key.dtype() != DType::f32 || key.tf32; }

std::string rejection(const EngineNotes& notes, int64_t workspace, const ConvKey& key) {
  // Seconds of compilation each, for dozens of layers, and nothing that the others lack.
  if (notes.compiled_at_run_time) return "compiled at run time";
  if (key.deterministic && notes.nondeterministic) return "not deterministic";
  if (notes.down_converts) return "rounds its inputs";
  if (notes.reduced_reduction) return "sums in less than f32";
  if (key.dtype() == DType::f32 && !key.tf32 && notes.tensor_core) return "rounds to TF32";
  if (workspace > key.workspace_limit)
    return detail::join("wants a workspace above ", key.workspace_limit >> 20, " MiB");
  return {};
}

std::optional<EngineChoice> PlanBook::find(const std::string& device, const ConvKey& key) {
  const std::lock_guard lock(mutex_);
  const auto d = devices_.find(device);
  if (d == devices_.end()) {
    if (loaded_ && warned_.insert(device).second) {
      std::string known;
      for (const auto& [name, unused] : devices_) known += (known.empty() ? "'" : "', '") + name;
      log_warn("plan file: it has choices for ", known.empty() ? "no device" : known + "'",
               ", not for '", device,
               "': engines are chosen afresh, results may differ in the last bits");
    }
    return {};
  }
  const auto found = d->second.choices.find(text_of(key));
  if (found == d->second.choices.end()) return {};
  return found->second;
}

void PlanBook::add(const std::string& device, const ConvKey& key, const EngineChoice& choice) {
  const std::lock_guard lock(mutex_);
  devices_[device].choices[text_of(key)] = choice;
  warned_.insert(device);  // it is there now because of this run
}

void PlanBook::ban(const std::string& device, const ConvKey& key, int64_t engine) {
  const std::lock_guard lock(mutex_);
  devices_[device].bans[text_of(key)].insert(engine);
}

std::set<int64_t> PlanBook::banned(const std::string& device, const ConvKey& key) const {
  const std::lock_guard lock(mutex_);
  const auto d = devices_.find(device);
  if (d == devices_.end()) return {};
  const auto found = d->second.bans.find(text_of(key));
  return found == d->second.bans.end() ? std::set<int64_t>{} : found->second;
}

size_t PlanBook::size() const {
  const std::lock_guard lock(mutex_);
  size_t n = 0;
  for (const auto& [unused, device] : devices_) n += device.choices.size();
  return n;
}

int64_t PlanBook::generation() const {
  const std::lock_guard lock(mutex_);
  return generation_;
}

PlanBook& plan_book() {
  static PlanBook book;
  return book;
}

}  // namespace bora::kernels::cudnn
