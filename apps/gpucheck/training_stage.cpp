// SPDX-License-Identifier: Apache-2.0
// Stage "training": a small network trained on the device, against the CPU, against itself.
#include <cmath>
#include <numeric>

#include "apps/gpucheck/compare.hpp"
#include "apps/gpucheck/stages.hpp"
#include "apps/gpucheck/training_run.hpp"
#include "core/profile.hpp"
#include "kernels/cuda/device.hpp"

namespace bora::gpucheck {
namespace {

/// Gradients of the first updates are as large as 1.4: f16 holds them times this, which is not so
/// with the trainer's first scale of 65536, and a skipped update would be no fault.
constexpr double kLossScale = 1024;

struct Sizes {
  int64_t base, extent, updates;
};

class Trainings {
 public:
  Trainings(const StageOptions& options, Stage& stage)
      : options_(options),
        stage_(stage),
        sizes_(options.tiny ? Sizes{2, 8, 6} : Sizes{8, 32, 30}) {}

  std::unique_ptr<TrainingRun> make(Device device, DType type) const {
    return std::make_unique<TrainingRun>(
        make_problem("plain", sizes_.base, 1, sizes_.extent),
        TrainingRun::Options{.device = device, .type = type, .loss_scale = kLossScale});
  }
  std::vector<double> curve(TrainingRun& run, int64_t n) const {
    std::vector<double> losses;
    for (int64_t i = 0; i < n; ++i) losses.push_back(run.step());
    return losses;
  }

  /// Runs `body`, which fills in the check; an exception is a failure.
  template <class Body>
  void check(const std::string& name, DType type, const std::string& reference, const Body& body) {
    if (name.find(options_.only) == std::string::npos) return;
    if (lost_ || (options_.budget_s > 0 && now_s() - begin_ > options_.budget_s)) {
      stage_.numbers["left_out_for_time"] += 1;
      return;
    }
    doing(detail::join(name, ' ', type));
    Check c{.op = name,
            .shape = detail::join("plain base ", sizes_.base, ", ", sizes_.extent, "^3, ",
                                  sizes_.updates, " updates"),
            .dtype = std::string(name_of(type)),
            .reference = reference,
            .pass = true};
    try {
      body(c);
    } catch (const std::exception& e) {
      c.pass = false;
      c.note = e.what();
      if (const std::string why = why_lost(options_.target); !why.empty()) {
        lost_ = true;
        stage_.facts["device lost in"] = name;
        stage_.facts["device lost because"] = why;
      }
    }
    if (name == options_.plant) {
      c.pass = false;
      c.note = "spoiled on request";
    }
    stage_.checks.push_back(std::move(c));
    if (options_.so_far) options_.so_far(stage_);
  }

  void all();

 private:
  /// Largest relative distance of two curves over updates [begin, end).
  static double distance(const std::vector<double>& a, const std::vector<double>& b, size_t begin,
                         size_t end) {
    double most = 0;
    for (size_t i = begin; i < end; ++i) {
      const double d = std::abs(a[i] - b[i]) / std::abs(b[i]);
      if (!(d <= most)) most = d;  // also a NaN
    }
    return most;
  }
  void within(Check& c, double value, double tolerance, const std::string& from) {
    c.max_abs = c.rel_l2 = value;
    c.tol_max_abs = c.tol_rel_l2 = tolerance;
    c.tol_from = from;
    c.pass = value <= tolerance;
    if (!c.pass) c.note = detail::join("relative distance ", value);
  }
  static void demand(Check& c, bool holds, const std::string& note) {
    if (holds) return;
    c.pass = false;
    c.note += (c.note.empty() ? "" : "; ") + note;
  }

  void follows_cpu();
  void follows_f32(DType type, double tolerance);
  void repeats(DType type);
  void overflow();
  void resume(DType type);
  void graph(DType type);
  void waits_for_nothing();
  void long_run();

  const StageOptions& options_;
  Stage& stage_;
  Sizes sizes_;
  std::vector<double> f32_;  // the device's curve
  bool lost_ = false;
  double begin_ = now_s();
};

void Trainings::follows_cpu() {
  std::vector<double> reference;
  check("curve follows the CPU, first updates", DType::f32, "cpu f32", [&](Check& c) {
    reference = curve(*make(cpu(), DType::f32), sizes_.updates);
    f32_ = curve(*make(options_.target.device, DType::f32), sizes_.updates);
    const auto early = static_cast<size_t>(std::min<int64_t>(5, sizes_.updates));
    within(c, distance(f32_, reference, 0, early), 1e-4,
           "f32 sums in another order: 2^-24 times the longest sum's roundings, some layers deep; "
           "grows with the updates");
    demand(c, f32_.back() < f32_.front(), "the loss did not fall");
  });
  if (f32_.empty() || reference.empty()) return;
  check("curve follows the CPU, all updates", DType::f32, "cpu f32", [&](Check& c) {
    within(c, distance(f32_, reference, 0, f32_.size()), 1e-2,
           "AdamW turns small differences of small gradients into steps: a band");
  });
}

void Trainings::follows_f32(DType type, double tolerance) {
  if (f32_.empty()) return;
  check("curve follows f32", type, "f32 on the device", [&](Check& c) {
    within(
        c,
        distance(curve(*make(options_.target.device, type), sizes_.updates), f32_, 0, f32_.size()),
        tolerance, "a band: activations rounded to 11 (f16) or 8 (bf16) bits at each layer");
  });
}

void Trainings::repeats(DType type) {
  check("two runs are equal bit by bit", type, "the first run", [&](Check& c) {
    const auto a = make(options_.target.device, type), b = make(options_.target.device, type);
    const int64_t n = std::min<int64_t>(10, sizes_.updates);
    const std::vector<double> first = curve(*a, n), second = curve(*b, n);
    c.bitwise_repeat = first == second && same_bits(a->values(), b->values());
    demand(c, c.bitwise_repeat, "losses or weights differ");
  });
}

void Trainings::overflow() {
  check("an overflow skips the update and halves the scale", DType::f16, "the state before",
        [&](Check& c) {
          const auto run = make(options_.target.device, DType::f16);
          run->step();
          demand(c, !run->report().skipped, "the first update was skipped already");
          const Tensor before = run->values();
          const int64_t updates = run->updates();
          const double scale = run->loss_scale(), rate = run->report().lr;
          run->step(HUGE_VAL);
          demand(c, run->report().skipped, "the update was not skipped");
          demand(c, same_bits(before, run->values()), "weights changed");
          demand(c, run->updates() == updates, "the number of updates moved on");
          demand(c, run->loss_scale() == scale / 2,
                 detail::join("the scale became ", run->loss_scale(), " from ", scale));
          run->step();
          demand(c, !run->report().skipped, "the update after it was skipped, too");
          demand(c, run->report().lr == rate, "the rate moved");
          demand(c, run->updates() == updates + 1, "the update after it did not count");
          demand(c, !same_bits(before, run->values()), "weights stand still after it");
        });
}

void Trainings::resume(DType type) {
  check("a resumed run is equal bit by bit", type, "the uninterrupted run", [&](Check& c) {
    const int64_t half = std::min<int64_t>(5, sizes_.updates / 2);
    const auto whole = make(options_.target.device, type);
    curve(*whole, half);
    const TrainingRun::Saved saved = whole->save();
    const std::vector<double> rest = curve(*whole, half);
    const auto resumed = make(options_.target.device, type);
    resumed->load(saved);
    c.bitwise_repeat =
        curve(*resumed, half) == rest && same_bits(whole->values(), resumed->values());
    demand(c, c.bitwise_repeat, "losses or weights differ");
  });
}

void Trainings::graph(DType type) {
  check("a captured step is equal bit by bit", type, "the eager step", [&](Check& c) {
    const auto eager = make(options_.target.device, type),
               captured = make(options_.target.device, type);
    captured->use_graph();
    const int64_t n = std::min<int64_t>(10, sizes_.updates);
    c.bitwise_repeat =
        curve(*eager, n) == curve(*captured, n) && same_bits(eager->values(), captured->values());
    demand(c, c.bitwise_repeat, "losses or weights differ");
    demand(c, captured->why_not_replayed().empty(),
           "the step was not replayed: " + captured->why_not_replayed());
  });
}

void Trainings::waits_for_nothing() {
  check("the steady step waits for nothing", DType::f16, "counters of the runtime", [&](Check& c) {
    const auto run = make(options_.target.device, DType::f16);
    for (int i = 0; i < 3; ++i) run->step();
    run->wait();
    const kernels::cuda::DeviceCounters before = kernels::cuda::device_counters();
    for (int i = 0; i < 3; ++i) run->enqueue();
    const kernels::cuda::DeviceCounters after = kernels::cuda::device_counters();
    demand(c, after.synchronizes == before.synchronizes, "the host waited for the device");
    demand(c, after.blocking_copies == before.blocking_copies, "it copied pageable memory");
    demand(c, after.allocations == before.allocations, "it took memory from the device");
    run->wait();
  });
}

void Trainings::long_run() {
  check("loss after 200 updates", DType::f16, "f32 on the device", [&](Check& c) {
    const auto end = [&](DType type) {
      const std::vector<double> losses = curve(*make(options_.target.device, type), 200);
      return std::accumulate(losses.end() - 20, losses.end(), 0.0) / 20;
    };
    const double f32 = end(DType::f32), f16 = end(DType::f16);
    within(c, std::abs(f16 - f32) / f32, 0.01,
           "what is aimed at; mean of the last 20, since single ones jump by 2 %");
  });
}

void Trainings::all() {
  follows_cpu();
  overflow();
  follows_f32(DType::f16, 0.03);
  follows_f32(DType::bf16, 0.1);
  for (DType type : {DType::f32, DType::f16}) {
    repeats(type);
    resume(type);
    // The CPU has no graphs.
    if (options_.target.kind != Target::Kind::cpu) graph(type);
  }
  if (options_.target.kind != Target::Kind::cpu) waits_for_nothing();
  if (options_.target.timed()) long_run();
}

}  // namespace

Stage training_stage(const StageOptions& options) {
  Stage stage{.name = "training", .device = options.target.name()};
  if (options.target.kind == Target::Kind::none) return no_device(stage.name, options.target);
  const double begin = now_s();
  Trainings(options, stage).all();
  stage.seconds = now_s() - begin;
  stage.conclude();
  return stage;
}

}  // namespace bora::gpucheck
