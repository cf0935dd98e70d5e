// SPDX-License-Identifier: Apache-2.0
// Module and Parameter: a network is values that visit() names once; counting, initialising,
// training, saving and printing all go through that one function.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "core/state.hpp"
#include "core/tensor.hpp"

namespace bora::nn {

/// How a parameter starts.  Values are a pure function of (seed, full name, element index).
struct Init {
  enum class Kind { constant, normal, uniform };
  Kind kind = Kind::constant;
  double value = 0.0;  ///< the constant, the standard deviation, or the half width of the interval

  static Init constant(double v) { return {Kind::constant, v}; }
  /// N(0, gain^2 / fan_in), gain sqrt(2): for layers followed by a rectifier.  Source: He et al.
  /// 2015.
  static Init kaiming_normal(int64_t fan_in);
  /// U(-1/sqrt(fan_in), 1/sqrt(fan_in)): variance 1/(3 fan_in), for layers followed by nothing.
  static Init fan_in_uniform(int64_t fan_in);
  /// N(0, 2 / (fan_in + fan_out)).  Source: Glorot and Bengio 2010.
  static Init xavier_normal(int64_t fan_in, int64_t fan_out);
  /// U(-a, a) with a = sqrt(6 / (fan_in + fan_out)): the same variance.
  static Init xavier_uniform(int64_t fan_in, int64_t fan_out);
};

/// A tensor that is learned.  `value` is undefined until a ParameterArena gives it memory and makes
/// it a leaf of the tape.
struct Parameter {
  Shape shape;
  Init init;
  std::string axes;   ///< names of the axes in memory order ("O,kD,kH,kW,I")
  bool decay = true;  ///< false for norms and biases: left alone by weight decay where the
                      ///< optimizer is told so
  Tensor value;
};

class Module;

/// Walks over a module's parts in forward order.  Names are joined by '.'.
class Visitor {
 public:
  virtual ~Visitor() = default;
  virtual void parameter(std::string_view name, Parameter& p) = 0;
  /// State that is saved but not learned (running statistics).  Undefined until first set up by its
  /// module.
  virtual void buffer(std::string_view, Tensor&) {}
  void child(std::string_view name, Module& module);
  /// "a.b." inside child b of child a.
  const std::string& prefix() const { return prefix_; }

 protected:
  virtual void enter(Module&) {}
  virtual void leave(Module&) {}

 private:
  std::string prefix_;
};

/// A part of a network.  Its state is its parameters and buffers; `forward` is the derived class's
/// own function.
class Module {
 public:
  virtual ~Module() = default;
  /// Calls the visitor for each own parameter and buffer and each child, in forward order.
  virtual void visit(Visitor& v) = 0;
  /// A word for the summary ("Conv3d 16->32 k3").
  virtual std::string describe() const { return ""; }

  bool training() const { return training_; }
  /// Training or evaluation mode, for this module and all below it.
  void set_training(bool on);

 private:
  friend class ModeSetter;
  bool training_ = true;
};

struct NamedParameter {
  std::string name;
  Parameter* parameter;
};
struct NamedBuffer {
  std::string name;
  Tensor* buffer;
};
/// In forward order.  Throws Error if two have the same full name.
std::vector<NamedParameter> named_parameters(Module& module);
std::vector<NamedBuffer> named_buffers(Module& module);
/// Elements of all parameters.
int64_t parameter_count(Module& module);
/// A table: name, shape, parameters; and the total.
std::string summary(Module& module);

/// Fills every parameter from (seed, full name); parameters must have memory.
void initialise(Module& module, uint64_t seed);

/// Saves or loads all parameters and buffers under their full names.
void module_state(Module& module, StateVisitor& visitor);

}  // namespace bora::nn
