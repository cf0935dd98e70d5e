// SPDX-License-Identifier: Apache-2.0
// A checkpoint without a file: what is saved can be looked at, and spoiled, before it is loaded.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "core/state.hpp"

namespace bora::testing {

/// Saves into a map by full names ("group.name"), or loads from it; std::out_of_range for an entry
/// that is not there, std::bad_variant_access for one of another kind.
class MapVisitor final : public StateVisitor {
 public:
  using Value = std::variant<int64_t, uint64_t, double, bool, std::string, std::vector<double>,
                             std::vector<int64_t>, std::vector<std::string>, Tensor>;
  using Map = std::map<std::string, Value>;

  MapVisitor(Map& values, bool load) : values_(values), loading_(load) {}
  bool loading() const override { return loading_; }
  bool has_entry(std::string_view name) const override {
    return !loading_ || values_.contains(path(name));
  }
  void tensor(std::string_view name, Tensor& value, std::string_view its_axes) override {
    axes[path(name)] = its_axes;
    if (loading_)
      value.copy_from(std::get<Tensor>(values_.at(path(name))));
    else
      values_[path(name)] = value.clone();
  }
  void value(std::string_view name, int64_t& v) override { any(name, v); }
  void value(std::string_view name, uint64_t& v) override { any(name, v); }
  void value(std::string_view name, double& v) override { any(name, v); }
  void value(std::string_view name, bool& v) override { any(name, v); }
  void value(std::string_view name, std::string& v) override { any(name, v); }
  void value(std::string_view name, std::vector<double>& v) override { any(name, v); }
  void value(std::string_view name, std::vector<int64_t>& v) override { any(name, v); }
  void value(std::string_view name, std::vector<std::string>& v) override { any(name, v); }
  void enter(std::string_view group) override { groups_.emplace_back(group); }
  void leave() override { groups_.pop_back(); }

  std::map<std::string, std::string> axes;  ///< of tensors, as they were told
  size_t depth() const { return groups_.size(); }

 private:
  std::string path(std::string_view name) const {
    std::string out;
    for (const std::string& group : groups_) out += group + ".";
    return out + std::string(name);
  }
  template <class T>
  void any(std::string_view name, T& v) {
    if (loading_)
      v = std::get<T>(values_.at(path(name)));
    else
      values_[path(name)] = v;
  }
  Map& values_;
  bool loading_;
  std::vector<std::string> groups_;
};

}  // namespace bora::testing
