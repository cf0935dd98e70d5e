// SPDX-License-Identifier: Apache-2.0
#include "apps/unet3d/exchange.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <string_view>

#include "apps/unet3d/model.hpp"
#include "data/permute.hpp"

namespace bora::unet3d {
namespace {

using data::NamedTensor;

/// One tensor of a module, and what PyTorch calls it.
struct Slot {
  std::string name;    ///< PyTorch's
  Tensor value;        ///< ours; shares its bytes with the module
  bool channels_last;  ///< a convolution's weight, whose second axis in PyTorch is our last
  Tensor* buffer;      ///< where a buffer is kept, nullptr for a parameter
};

std::string torch_name(const std::string& name) {
  const size_t dot = name.rfind('.') + 1;  // npos + 1 is 0
  const std::string last = name.substr(dot);
  if (last == "gamma") return name.substr(0, dot) + "weight";
  if (last == "beta") return name.substr(0, dot) + "bias";
  return name;
}

std::vector<Slot> slots_of(nn::Module& module) {
  std::vector<Slot> slots;
  for (const auto& [name, p] : nn::named_parameters(module)) {
    if (UNet3d::is_deep_head(name)) continue;
    BORA_CHECK(p->value.defined(), "exchange of weights: parameter '", name, "' has no memory");
    const bool conv = p->axes == "O,kD,kH,kW,I" || p->axes == "I,kD,kH,kW,O";
    BORA_CHECK(conv || p->shape.rank() <= 2, "exchange of weights: parameter '", name,
               "' has the axes '", p->axes, "', whose order in PyTorch is not known");
    slots.push_back({torch_name(name), p->value.detach(), conv, nullptr});
  }
  for (const auto& [name, b] : nn::named_buffers(module))
    if (b->defined()) slots.push_back({torch_name(name), *b, false, b});
  return slots;
}

Shape torch_shape(const Slot& slot) {
  const Shape s = slot.value.shape();
  return slot.channels_last ? Shape{s[0], s[4], s[1], s[2], s[3]} : s;
}

/// The file's tensors by the module's names; `prefix`: what wrappers put in front of all of them.
std::map<std::string, std::string> unwrapped_names(const data::SafetensorsReader& file,
                                                   std::string& prefix) {
  constexpr std::array<std::string_view, 2> kWrappers{"module.", "_orig_mod."};
  const auto all_begin_with = [&](const std::string& text) {
    return std::all_of(file.entries().begin(), file.entries().end(),
                       [&](const auto& entry) { return entry.first.starts_with(text); });
  };
  for (bool found = !file.entries().empty(); found;) {
    found = false;
    for (const std::string_view wrapper : kWrappers)
      if (all_begin_with(prefix + std::string(wrapper))) {
        prefix += wrapper;
        found = true;
      }
  }
  std::map<std::string, std::string> names;
  for (const auto& [name, ignored] : file.entries())
    names.emplace(name.substr(prefix.size()), name);
  return names;
}

std::string list(const char* what, const std::vector<std::string>& names) {
  constexpr size_t kShown = 10;
  if (names.empty()) return "";
  std::string text = bora::detail::join("\n  ", what, " (", names.size(), "): ");
  for (size_t i = 0; i < std::min(names.size(), kShown); ++i)
    text.append(i ? ", " : "").append(names[i]);
  if (names.size() > kShown) text += bora::detail::join(", and ", names.size() - kShown, " more");
  return text;
}

int64_t count_non_finite(const Tensor& x) {
  return dispatch_float(x.dtype(), "exchange of weights", [&]<class T>() {
    const T* v = x.data<T>();
    return static_cast<int64_t>(std::count_if(
        v, v + x.numel(), [](T e) { return !std::isfinite(static_cast<acc_t<T>>(e)); }));
  });
}

/// Throws with the whole list of what does not fit.
void check_fit(const data::SafetensorsReader& file, const std::vector<Slot>& slots,
               std::map<std::string, std::string> names) {
  std::vector<std::string> missing, mismatching, unexpected;
  for (const Slot& slot : slots) {
    const auto found = names.find(slot.name);
    if (found == names.end()) {
      missing.push_back(slot.name);
      continue;
    }
    const data::SafetensorsReader::Entry& entry = file.entries().at(found->second);
    if (!(entry.shape == torch_shape(slot)))
      mismatching.push_back(bora::detail::join(slot.name, " is ", entry.shape,
                                               " in the file, wanted ", torch_shape(slot)));
    else if (!is_float(entry.dtype))
      mismatching.push_back(bora::detail::join(slot.name, " is of ", entry.dtype,
                                               " in the file, wanted a floating type"));
    names.erase(found);
  }
  for (const auto& [name, ignored] : names) unexpected.push_back(name);
  const std::string faults = list("missing in the file", missing) +
                             list("unexpected in the file", unexpected) +
                             list("not fitting", mismatching);
  BORA_CHECK(faults.empty(), "weights '", file.path(), "' are of another network:", faults);
}

/// PyTorch counts the batches of a batch norm for a kind of average that this network has not.
void drop_batch_counts(const std::vector<Slot>& slots, std::map<std::string, std::string>& names) {
  for (const Slot& slot : slots)
    if (slot.buffer != nullptr && slot.name.ends_with("running_mean"))
      names.erase(slot.name.substr(0, slot.name.rfind('.') + 1) + "num_batches_tracked");
}

}  // namespace

std::vector<NamedTensor> torch_tensors(nn::Module& module) {
  std::vector<NamedTensor> tensors;
  for (const Slot& slot : slots_of(module)) {
    const Tensor host = slot.value.to(cpu());
    tensors.push_back(
        {slot.name, slot.channels_last ? data::permute(host, {0, 4, 1, 2, 3}) : host});
  }
  return tensors;
}

LoadNotes load_torch_tensors(const data::SafetensorsReader& file, nn::Module& module) {
  const std::vector<Slot> slots = slots_of(module);
  std::string prefix;
  std::map<std::string, std::string> names = unwrapped_names(file, prefix);
  drop_batch_counts(slots, names);
  check_fit(file, slots, names);

  LoadNotes notes;
  if (!prefix.empty())
    notes.push_back("the prefix '" + prefix + "' of a wrapper was taken off all names");
  std::map<DType, int64_t> converted;
  std::vector<std::string> bad;
  std::vector<Tensor> values;
  for (const Slot& slot : slots) {
    Tensor value = file.read(names.at(slot.name));
    if (value.dtype() != slot.value.dtype()) {
      ++converted[value.dtype()];
      value = value.to(slot.value.dtype());
    }
    if (const int64_t n = count_non_finite(value); n > 0)
      bad.push_back(bora::detail::join(slot.name, " (", n, " of ", value.numel(), ")"));
    values.push_back(slot.channels_last ? data::permute(value, {0, 2, 3, 4, 1}) : value);
  }
  BORA_CHECK(bad.empty(), "weights '", file.path(), "': not all values are finite numbers",
             list("NaN or infinity", bad));
  for (const auto& [type, n] : converted)
    notes.push_back(bora::detail::join(n, " tensors were converted from ", type));
  for (size_t i = 0; i < slots.size(); ++i) {
    Tensor target = slots[i].value;
    target.copy_from(values[i].to(target.device()));
  }
  return notes;
}

}  // namespace bora::unet3d
