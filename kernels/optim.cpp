// SPDX-License-Identifier: Apache-2.0
#include "kernels/optim.hpp"

#include <algorithm>
#include <cmath>

#include "core/convert.hpp"
#include "kernels/portable.hpp"
#include "kernels/step_scalars.hpp"
#include "kernels/volume.hpp"
#if defined(BORA_DEVICE_CODE)
#include "kernels/cuda/update_packs.hpp"
#endif

namespace bora::kernels {
namespace {

struct NoWorking {};  // stands for "no working copy"

template <class A, class G, class W>
struct Buffers {
  const G* gradient;
  A* p;
  A* slot0;
  A* slot1;
  W* working;
  const uint8_t* skip;

  BORA_HD bool skipped() const { return skip != nullptr && *skip != 0; }
  BORA_HD void put(int64_t i, A value) const {
    p[i] = value;
    if constexpr (!std::is_same_v<W, NoWorking>) working[i] = static_cast<W>(value);
  }
};

template <class A, class G, class W>
struct AdamW {
  static constexpr int kSlots = 2;
  Buffers<A, G, W> b;
  A unscale, factor, keep, beta1, beta2, eps, step_size, inverse_root_bias2;

  BORA_HD void read(const StepScalars& s, double weight_decay) {
    unscale = static_cast<A>(s.unscale);
    factor = static_cast<A>(s.clip);
    keep = static_cast<A>(1.0 - s.rate * weight_decay);
    beta1 = static_cast<A>(s.beta1);
    step_size = static_cast<A>(s.step_size);
    inverse_root_bias2 = static_cast<A>(s.inverse_root_bias2);
  }
  BORA_HD void operator()(int64_t i) const {
    const A g = factor * (unscale * static_cast<A>(load(b.gradient[i])));
    const A m = b.slot0[i] + (A(1) - beta1) * (g - b.slot0[i]);
    const A v = beta2 * b.slot1[i] + (A(1) - beta2) * g * g;
    b.slot0[i] = m;
    b.slot1[i] = v;
    const A root = std::sqrt(v) * inverse_root_bias2 + eps;
    b.put(i, b.p[i] * keep - step_size * (m / root));
  }
};

template <class A, class G, class W>
struct Sgd {
  static constexpr int kSlots = 1;  // or none
  Buffers<A, G, W> b;
  A unscale, factor, learning_rate, momentum, weight_decay;
  bool nesterov;

  BORA_HD void read(const StepScalars& s, double) {
    unscale = static_cast<A>(s.unscale);
    factor = static_cast<A>(s.clip);
    learning_rate = static_cast<A>(s.rate);
    momentum = static_cast<A>(s.beta1);
  }
  BORA_HD void operator()(int64_t i) const {
    const A p = b.p[i];
    A g = factor * (unscale * static_cast<A>(load(b.gradient[i]))) + weight_decay * p;
    if (b.slot0 != nullptr) {
      const A velocity = momentum * b.slot0[i] + g;
      b.slot0[i] = velocity;
      g = nesterov ? g + momentum * velocity : velocity;
    }
    b.put(i, p - learning_rate * g);
  }
};

/// What is known on the device only: whether to skip, and (scalars) the numbers of the update.
struct FromDevice {
  const StepScalars* scalars;  // or nullptr
  double weight_decay;
  template <class Update>
  BORA_HD bool operator()(Update& update) const {
    if (update.b.skipped() || (scalars != nullptr && scalars->skip != 0)) return false;
    if (scalars != nullptr) update.read(*scalars, weight_decay);
    return true;
  }
};

/// On the CPU the working copy is converted from each block's new masters, while they are in cache:
/// a conversion inside the update would keep it from becoming vector code.
template <class Update>
void run_cpu(OptimBuffers& buffers, const Update& shared) {
  constexpr int64_t kBlock = 4096;  // fixed by n: see map_cpu
  const int64_t n = buffers.master.numel(), n_blocks = (n + kBlock - 1) / kBlock;
#pragma omp parallel for schedule(static) if (n > kThreadWorthy)
  for (int64_t block = 0; block < n_blocks; ++block) {
    const Update update = shared;
    const int64_t begin = block * kBlock, end = std::min(n, begin + kBlock);
#pragma omp simd
    for (int64_t i = begin; i < end; ++i) update(i);
    if (!buffers.working.defined()) continue;
    const float* const master = buffers.master.data<float>() + begin;
    if (buffers.working.dtype() == DType::f16)
      narrow_run(master, end - begin, buffers.working.data<Half>() + begin);
    else
      narrow_run(master, end - begin, buffers.working.data<BFloat16>() + begin);
  }
}

template <class Update>
void launch(Stream stream, OptimBuffers& buffers, double weight_decay, const Update& update) {
  static_assert(Update::kSlots == 1 || Update::kSlots == 2);
  const StepScalars* const scalars =
      buffers.scalars.defined()
          ? reinterpret_cast<const StepScalars*>(buffers.scalars.data<double>())
          : nullptr;
  if (stream.device.type == DeviceType::cpu) {
    if (update.b.skipped() || (scalars && scalars->skip != 0)) return;
    Update now = update;
    if (scalars) now.read(*scalars, weight_decay);
    run_cpu(buffers, now);
    return;
  }
#if defined(BORA_DEVICE_CODE)
  if constexpr (kDeviceHasF64 || !std::is_same_v<decltype(update.b.p), double*>) {
    cuda::update_packs("optimizer", stream, buffers.master.numel(), update,
                       FromDevice{scalars, weight_decay});
  } else {
    throw_host_only("optimizer");
  }
#else
  ::bora::detail::throw_built_without_cuda();
#endif
}

template <class A>
A* pointer(Tensor& t) {
  return t.defined() ? t.data<A>() : nullptr;
}

// Calls f(Buffers<...>) with the types of a call.
template <class A, class G, class F>
void dispatch_working(OptimBuffers& b, const char* what, F&& f) {
  const uint8_t* skip = pointer<uint8_t>(b.skip);
  const auto make = [&]<class W>(W* working) {
    f(Buffers<A, G, W>{b.gradient.data<G>(), b.master.data<A>(), pointer<A>(b.slot0),
                       pointer<A>(b.slot1), working, skip});
  };
  if (!b.working.defined()) return make(static_cast<NoWorking*>(nullptr));
  if constexpr (std::is_same_v<A, float>) {
    const DType type = b.working.dtype();
    if (type == DType::f16 || type == DType::bf16) {
      if (b.master.device().type == DeviceType::cpu)  // run_cpu converts
        return make(static_cast<NoWorking*>(nullptr));
      return type == DType::f16 ? make(b.working.data<Half>()) : make(b.working.data<BFloat16>());
    }
  }
  BORA_FAIL(what, ": working copy is ", b.working.dtype(), " of a master in ", b.master.dtype(),
            ", wanted f16 or bf16 of f32");
}

template <class F>
void dispatch(OptimBuffers& b, const char* what, F&& f) {
  if (b.master.dtype() == DType::f64) return dispatch_working<double, double>(b, what, f);
  switch (b.gradient.dtype()) {
    case DType::f16:
      return dispatch_working<float, Half>(b, what, f);
    case DType::bf16:
      return dispatch_working<float, BFloat16>(b, what, f);
    default:
      return dispatch_working<float, float>(b, what, f);
  }
}

void check(const OptimBuffers& b, const char* what) {
  BORA_CHECK(b.master.defined() && b.gradient.defined(), what, ": master or gradient is undefined");
  const DType type = b.master.dtype();
  BORA_CHECK(type == DType::f32 || type == DType::f64, what, ": master is ", type,
             ", wanted f32 (or f64)");
  BORA_CHECK(
      is_float(b.gradient.dtype()) && (b.gradient.dtype() == DType::f64) == (type == DType::f64),
      what, ": gradient is ", b.gradient.dtype(), ", master ", type);
  const auto same = [&](const Tensor& t, const char* name) {
    BORA_CHECK(!t.defined() || (t.numel() == b.master.numel() && t.device() == b.master.device()),
               what, ": ", name, " has ", t.numel(), " elements on ", t.device(), ", master ",
               b.master.numel(), " on ", b.master.device());
  };
  same(b.gradient, "gradient");
  same(b.slot0, "slot0");
  same(b.slot1, "slot1");
  same(b.working, "working");
  if (b.skip.defined())
    check_tensor(b.skip, Shape{}, DType::u8, b.master.device(), "optimizer: skip");
  if (b.scalars.defined())
    check_tensor(b.scalars, {kStepScalars}, DType::f64, b.master.device(), "optimizer: scalars");
}

}  // namespace

void adamw(Stream stream, const AdamWUpdate& u, OptimBuffers& buffers) {
  check(buffers, "adamw");
  BORA_CHECK(buffers.slot0.defined() && buffers.slot1.defined(), "adamw: wants two slots");
  const bool given = !buffers.scalars.defined();
  BORA_CHECK(!given || u.step >= 1, "adamw: step is ", u.step, ", the first one is 1");
  BORA_CHECK(u.beta1 >= 0 && u.beta1 < 1 && u.beta2 >= 0 && u.beta2 < 1 && u.eps > 0,
             "adamw: betas ", u.beta1, ", ", u.beta2, ", eps ", u.eps,
             "; wanted 0 <= beta < 1, eps > 0");
  const double t = static_cast<double>(given ? u.step : 1);
  const double bias1 = 1.0 - std::pow(u.beta1, t), bias2 = 1.0 - std::pow(u.beta2, t);
  dispatch(buffers, "adamw", [&]<class A, class G, class W>(const Buffers<A, G, W>& b) {
    launch(stream, buffers, u.weight_decay,
           AdamW<A, G, W>{b, A(1), static_cast<A>(u.gradient_factor),
                          static_cast<A>(1.0 - u.learning_rate * u.weight_decay),
                          static_cast<A>(u.beta1), static_cast<A>(u.beta2), static_cast<A>(u.eps),
                          static_cast<A>(u.learning_rate / bias1),
                          static_cast<A>(1.0 / std::sqrt(bias2))});
  });
}

void sgd(Stream stream, const SgdUpdate& u, OptimBuffers& buffers) {
  check(buffers, "sgd");
  BORA_CHECK(u.momentum >= 0, "sgd: momentum is ", u.momentum, ", wanted at least 0");
  BORA_CHECK(buffers.slot0.defined() || u.momentum == 0, "sgd: momentum ", u.momentum,
             " without a slot");
  BORA_CHECK(!u.nesterov || buffers.slot0.defined(), "sgd: nesterov without a slot");
  dispatch(buffers, "sgd", [&]<class A, class G, class W>(const Buffers<A, G, W>& b) {
    launch(stream, buffers, u.weight_decay,
           Sgd<A, G, W>{b, A(1), static_cast<A>(u.gradient_factor), static_cast<A>(u.learning_rate),
                        static_cast<A>(u.momentum), static_cast<A>(u.weight_decay), u.nesterov});
  });
}

}  // namespace bora::kernels
