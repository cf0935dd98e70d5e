// SPDX-License-Identifier: Apache-2.0
#include "nn/optim/ema.hpp"

#include <exception>
#include <map>
#include <string>

#include "core/log.hpp"
#include "kernels/ema.hpp"

namespace bora::nn {

Ema::Ema(ParameterArena& arena, double decay)
    : arena_(arena),
      decay_(decay),
      average_(arena.layout(), arena.type(), arena.device()),
      share_(Tensor::zeros({}, DType::f32, arena.device())) {
  BORA_CHECK(decay > 0 && decay < 1, "Ema: decay is ", decay, ", wanted above 0 and below 1");
  BORA_CHECK(arena.type() == DType::f32, "Ema: averages weights in f32, these are ", arena.type());
  begin(0);
}

void Ema::begin(int64_t updates) {
  BORA_CHECK(!in_use_, "Ema: begun anew while the average is in the place of the weights");
  BORA_CHECK(updates >= 0, "Ema: begins after ", updates, " updates");
  begin_ = updates;
  average_.all().copy_from(arena_.values().all());
}

void Ema::update(int64_t updates) {
  BORA_CHECK(!in_use_, "Ema: updated while the average is in the place of the weights");
  BORA_CHECK(updates > begin_, "Ema: update ", updates, ", but it began after ", begin_);
  share_.fill(1.0 - kernels::ema_decay(decay_, static_cast<double>(updates - begin_)));
  const Tensor& values = arena_.values().all();
  kernels::ema_update(values.stream(), share_, values, average_.all());
}

void Ema::update_from(const Tensor& scalars) {
  BORA_CHECK(!in_use_, "Ema: updated while the average is in the place of the weights");
  const Tensor& values = arena_.values().all();
  kernels::ema_share(values.stream(), decay_, begin_, scalars, share_);
  kernels::ema_update(values.stream(), share_, values, average_.all());
}

void Ema::swap() {
  Tensor& values = arena_.values().all();
  kernels::swap_contents(values.stream(), values, average_.all());
  arena_.refresh_working();
}

Ema::Use::Use(Ema& ema) : ema_(ema) {
  BORA_CHECK(!ema.in_use_, "Ema: the average is in the place of the weights already");
  ema.swap();
  ema.in_use_ = true;
}

Ema::Use::~Use() {
  ema_.in_use_ = false;
  // Nothing is allocated; what could throw is a device that has failed, which ends the run anyway.
  try {
    ema_.swap();
  } catch (const std::exception& e) {
    log_error("Ema: the weights could not be put back: ", e.what());
  }
}

void Ema::state(StateVisitor& visitor, Module& module) {
  BORA_CHECK(!in_use_, "Ema: saved or loaded while the average is in the place of the weights");
  visitor.value("ema_begin", begin_);
  std::map<std::string, int> ranges;
  for (size_t i = 0; i < average_.layout().ranges().size(); ++i)
    ranges[average_.layout().range(static_cast<int>(i)).name] = static_cast<int>(i);
  const StateVisitor::Group group(visitor, "ema");
  for (const auto& [name, p] : named_parameters(module)) {
    const auto found = ranges.find(name);
    BORA_CHECK(found != ranges.end(), "Ema: parameter '", name, "' is not in its arena");
    Tensor part = average_.part(found->second);
    visitor.tensor(name, part, p->axes);
  }
}

}  // namespace bora::nn
