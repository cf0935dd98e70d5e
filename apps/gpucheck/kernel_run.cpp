// SPDX-License-Identifier: Apache-2.0
#include "apps/gpucheck/kernel_run.hpp"

#include <algorithm>
#include <cmath>

#include "core/profile.hpp"
#include "core/rng.hpp"
#if defined(BORA_CUDA)
#include "kernels/cuda/device_facts.hpp"
#endif

namespace bora::gpucheck {
namespace {

/// In f32, which all tested types are rounded from.
Tensor make(const Shape& shape, DType rounded, Fill fill, const RngKey& key) {
  Tensor t = Tensor::empty(shape, DType::f32);
  const std::span<float> v{t.data<float>(), static_cast<size_t>(t.numel())};
  switch (fill) {
    case Fill::normal:
      fill_normal(key, 0, 1.0, v);
      break;
    case Fill::positive:
      fill_uniform(key, 0, 0.5, 1.5, v);
      break;
    case Fill::distinct:
      // 97 is prime to 251: neighbours in any direction differ, all are exact in bf16.
      for (size_t i = 0; i < v.size(); ++i)
        v[i] = static_cast<float>((i * 97) % 251) / 64.0f - 2.0f;
      break;
    case Fill::labels:
      for (size_t i = 0; i < v.size(); ++i) v[i] = static_cast<float>(key.below(3, i));
      break;
    case Fill::mask:
      for (size_t i = 0; i < v.size(); ++i) v[i] = key.uniform(i) < 0.75f ? 1.0f : 0.0f;
      break;
  }
  return rounded == DType::f32 ? t : t.to(rounded);
}

/// Fills `t` with copies of `piece`, the last one cut off.
void repeat(const Tensor& piece, Tensor& t) {
  const Tensor flat_piece = piece.reshape({piece.numel()});
  const Tensor flat = t.reshape({t.numel()});
  for (int64_t i = 0; i < t.numel(); i += piece.numel()) {
    const int64_t n = std::min(piece.numel(), t.numel() - i);
    Tensor part = flat.rows(i, i + n);
    part.copy_from(flat_piece.rows(0, n));
  }
}

void profiler([[maybe_unused]] bool on) {
#if defined(BORA_CUDA)
  kernels::cuda::profiler(on);
#endif
}

/// Odd: data that repeat after a power of two would hide an address that has wrapped around.
constexpr int64_t kPiece = (int64_t{1} << 20) - 3;

}  // namespace

KernelRun::KernelRun(Device device, DType type, DType rounded, Mode mode)
    : device_(device), type_(type), rounded_(rounded), mode_(mode) {}

DType KernelRun::type_of(Role role) const {
  switch (role) {
    case Role::data:
      return type_;
    case Role::accumulator:
      return type_ == DType::f64 ? DType::f64 : DType::f32;
    case Role::f64:
      return DType::f64;
    case Role::u8:
      return DType::u8;
  }
  return type_;
}

Tensor KernelRun::input(const Shape& shape, Role role, Fill fill) {
  const RngKey key{2026, rng_stream("gpucheck.input", n_inputs_++)};
  const DType rounded = role == Role::data          ? rounded_
                        : role == Role::accumulator ? DType::f32
                                                    : type_of(role);
  const int64_t n = shape.numel();
  // Samples that are alike, for `tail`; all of it otherwise.
  const Shape whole =
      mode_ == Mode::tail && shape.rank() > 1 && shape[0] > 1 ? shape.with(0, 1) : shape;
  const bool pieces = mode_ != Mode::check && whole.numel() > kPiece;
  const Tensor host = make(pieces ? Shape{kPiece} : whole, rounded, fill, key);
  const DType type = type_of(role);
  Tensor made = (host.dtype() == type ? host : host.to(type)).to(device_);
  bytes_ += static_cast<double>(n * size_of(type));
  const auto enlarge = [&](const Shape& to) {
    if (made.numel() == to.numel()) {
      made = made.reshape(to);
      return;
    }
    Tensor out = Tensor::empty(to, type, device_);
    if (to.numel() > 0) repeat(made, out);
    made = out;
  };
  enlarge(whole);
  enlarge(shape);
  return made;
}

Tensor KernelRun::scratch(const Shape& shape, Role role) const {
  const DType type = type_of(role);
  Tensor t = Tensor::empty(shape, type, device_);
  t.fill(is_float(type) ? NAN : 255.0);
  return t;
}

Tensor KernelRun::output(const Shape& shape, Role role) {
  outputs_.push_back(scratch(shape, role));
  bytes_ += static_cast<double>(outputs_.back().bytes());
  return outputs_.back();
}

Tensor KernelRun::inout(const Tensor& start) {
  outputs_.push_back(start.clone());
  bytes_ += static_cast<double>(start.bytes());
  return outputs_.back();
}

void KernelRun::moves(const std::vector<Tensor>& tensors) {
  bytes_ = 0;
  for (const Tensor& t : tensors)
    if (t.defined()) bytes_ += static_cast<double>(t.bytes());
}

void KernelRun::call(const std::function<void()>& kernel) {
  const Stream s = stream();
  if (mode_ == Mode::once) {
    s.synchronize();
    profiler(true);
    kernel();
    s.synchronize();
    profiler(false);
    return;
  }
  kernel();
  if (mode_ != Mode::bench) return;
  s.synchronize();
  double begin = now_s();
  kernel();
  s.synchronize();
  const double once = now_s() - begin;
  // Calls are queued behind each other: a batch is long against what starting it costs.
  const int calls = static_cast<int>(std::clamp(2e-3 / std::max(once, 1e-7), 1.0, 200.0));
  const double until = now_s() + bench_seconds;
  do {
    begin = now_s();
    for (int i = 0; i < calls; ++i) kernel();
    s.synchronize();
    times_ms_.push_back(1e3 * (now_s() - begin) / calls);
  } while (now_s() < until || times_ms_.size() < 5);
  std::sort(times_ms_.begin(), times_ms_.end());
}

}  // namespace bora::gpucheck
