// SPDX-License-Identifier: Apache-2.0
#include "core/finite_watch.hpp"

#include <cmath>

namespace bora {
namespace {
thread_local FiniteWatch* t_watch = nullptr;
}

FiniteWatch::FiniteWatch() : previous_(t_watch) { t_watch = this; }
FiniteWatch::~FiniteWatch() { t_watch = previous_; }

void FiniteWatch::see(const char* op, const Tensor& result) {
  if (t_watch != nullptr) t_watch->look(op, result);
}

void FiniteWatch::look(const char* op, const Tensor& result) {
  ++ops_;
  if (!first_.empty() || !result.defined() || !is_float(result.dtype())) return;
  int64_t bad = 0;
  // f64 holds every value of the other types; it is for the host only.
  for (const double v : result.to(cpu()).to(DType::f64).to_vector<double>())
    bad += std::isfinite(v) ? 0 : 1;
  if (bad > 0)
    first_ = detail::join("op ", ops_, " (", op, "), result ", result.shape(), " ", result.dtype(),
                          ": ", bad, " of ", result.numel(), " values are NaN or inf");
}

}  // namespace bora
