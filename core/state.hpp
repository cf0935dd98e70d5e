// SPDX-License-Identifier: Apache-2.0
// StateVisitor: one function on each stateful object serves saving and loading.  What is not
// visited is not resumed.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/tensor.hpp"

namespace bora {

/// `object.state(visitor)` calls these for each piece of its state; a saver reads the references, a
/// loader writes them. Names are joined by '.', prefixes come from Group.
class StateVisitor {
 public:
  virtual ~StateVisitor() = default;
  virtual bool loading() const = 0;
  /// Whether a loader has the entry, for state that an older one may lack; a saver has all.
  virtual bool has_entry(std::string_view name) const = 0;

  /// `axes` names the axes in memory order, for readers of the file ("O,kD,kH,kW,I"); may be empty.
  /// A loader checks shape and type and writes into the tensor's bytes.
  virtual void tensor(std::string_view name, Tensor& value, std::string_view axes = {}) = 0;
  virtual void value(std::string_view name, int64_t& value) = 0;
  virtual void value(std::string_view name, uint64_t& value) = 0;
  virtual void value(std::string_view name, double& value) = 0;
  virtual void value(std::string_view name, bool& value) = 0;
  virtual void value(std::string_view name, std::string& value) = 0;
  virtual void value(std::string_view name, std::vector<double>& value) = 0;
  virtual void value(std::string_view name, std::vector<int64_t>& value) = 0;
  virtual void value(std::string_view name, std::vector<std::string>& value) = 0;

  virtual void enter(std::string_view group) = 0;
  virtual void leave() = 0;

  /// Prefixes names with `name.` while it lives.
  class Group {
   public:
    Group(StateVisitor& visitor, std::string_view name) : visitor_(visitor) {
      visitor_.enter(name);
    }
    ~Group() { visitor_.leave(); }
    Group(const Group&) = delete;
    Group& operator=(const Group&) = delete;

   private:
    StateVisitor& visitor_;
  };
};

}  // namespace bora
