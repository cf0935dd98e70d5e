// SPDX-License-Identifier: Apache-2.0
// Stage "kernels": every row of the table in every type against the CPU in f64, three runs bit by
// bit, a run beyond 2^31 bytes, and on a GPU the time against the byte floor.
#include <algorithm>
#include <cmath>

#include "apps/gpucheck/ceilings.hpp"
#include "apps/gpucheck/compare.hpp"
#include "apps/gpucheck/kernel_table.hpp"
#include "apps/gpucheck/stages.hpp"
#include "core/profile.hpp"

namespace bora::gpucheck {
namespace {

/// Odd channels (no 16-byte packs), one pack, tails along every axis, one cell, nothing at all.
std::vector<Shape> check_shapes(bool tiny) {
  std::vector<Shape> shapes{{2, 3, 5, 4, 3}, {1, 4, 2, 6, 8}, {1, 1, 1, 1, 1}};
  if (tiny) return shapes;
  shapes.push_back({0, 4, 4, 4, 8});
  shapes.push_back({2, 9, 7, 11, 16});
  shapes.push_back({1, 17, 33, 31, 33});
  return shapes;
}

bool fits(const Row& row, const Shape& s) {
  return std::min({s[1], s[2], s[3]}) >= row.least_extent;
}

/// Whether the name contains one of the comma-separated words; no words: yes.
bool chosen(const std::string& name, const std::string& words) {
  if (words.empty()) return true;
  for (size_t begin = 0; begin <= words.size();) {
    const size_t end = std::min(words.find(',', begin), words.size());
    if (end > begin && name.find(words.substr(begin, end - begin)) != std::string::npos)
      return true;
    begin = end + 1;
  }
  return false;
}

const Shape kTimed{2, 128, 128, 128, 32};

/// Replaces one element by another number, for the tests of this program.
void spoil(const std::vector<Tensor>& outputs) {
  for (Tensor out : outputs) {
    if (out.numel() == 0) continue;
    Tensor one = out.reshape({out.numel()}).rows(0, 1);
    one.fill(out.dtype() == DType::u8 ? 77.0 : 77.25);
    return;
  }
}

class Checker {
 public:
  Checker(const StageOptions& options, Stage& stage) : options_(options), stage_(stage) {
    const size_t colon = options.plant.find(':');
    planted_ = options.plant.substr(0, colon);
    plant_once_ = colon != std::string::npos;
  }

  void values(const Row& row, const Shape& shape, DType type) {
    doing(detail::join(row.name, ' ', shape, ' ', type));
    Check check{
        .op = row.name,
        .shape = detail::join(shape),
        .dtype = std::string(name_of(type)),
        .reference = "cpu f64",
        .tol_from = detail::join(row.roundings, " roundings in f32 and one to the result's ",
                                 "type, times ", row.amplification),
        .pass = true};
    try {
      KernelRun reference(cpu(), DType::f64, type, KernelRun::Mode::check);
      row.run(reference, shape);
      std::vector<Tensor> first;
      for (int i = 0; i < options_.runs; ++i) {
        KernelRun run(options_.target.device, type, type, KernelRun::Mode::check);
        row.run(run, shape);
        if (row.name == planted_ && (!plant_once_ || i + 1 == options_.runs)) spoil(run.outputs());
        if (i == 0) {
          compare_outputs(row, type, run.outputs(), reference.outputs(), check);
          first = run.outputs();
          continue;
        }
        for (size_t k = 0; k < first.size(); ++k)
          if (!same_bits(first[k], run.outputs()[k])) check.bitwise_repeat = false;
      }
      if (!check.bitwise_repeat) {
        check.pass = false;
        if (check.note.empty()) check.note = "another run gave other bits";
      }
    } catch (const std::exception& e) {
      check.pass = false;
      check.note = e.what();
    }
    found(row, std::move(check));
  }

  /// Every sample is the same, so every sample's result must be; the last lies beyond 2^31 bytes,
  /// for convolutions beyond 2^31 elements, where slabs begin.  A sample's size is no power of two:
  /// a read at an address that wrapped around meets other numbers.
  void offsets(const Row& row) {
    const bool large = options_.target.timed() && !options_.tiny;
    const Shape sample = large ? Shape{1, 63, 127, 129, 32} : Shape{1, 2, 3, 2, 8};
    const DType type = DType::f16;
    const int64_t unit = row.by_library ? 1 : size_of(type);
    const int64_t n = large ? (int64_t{1} << 31) / (sample.numel() * unit) + 2 : 3;
    const Shape shape = sample.with(0, n);
    doing(detail::join(row.name, ' ', shape, ' ', type));
    Check check{.op = row.name,
                .shape = detail::join(shape),
                .dtype = std::string(name_of(type)),
                .reference = "its first sample",
                .tol_from = row.by_library ? "roundings, as for one sample: engines may differ"
                                           : "the same bits in every sample",
                .pass = true};
    try {
      KernelRun run(options_.target.device, type, type, KernelRun::Mode::tail);
      row.run(run, shape);
      if (row.name == planted_) spoil(run.outputs());
      for (const Tensor& out : run.outputs()) {
        const Tensor first = out.rows(0, 1), last = out.rows(n - 1, n);
        if (row.by_library) {
          compare(values_of(last), values_of(first), bound_of(row, type, type), type, check);
        } else if (!same_bits(first, last)) {
          check.pass = false;
          check.note = "the last sample's bits differ";
        }
      }
    } catch (const std::exception& e) {
      check.pass = false;
      check.note = e.what();
    }
    found(row, std::move(check));
  }

  /// Whether a row took the device with it: what follows would fail for that alone.
  bool lost() const { return lost_; }

  void time(const Row& row, double copy_gb_per_s) {
    const Shape& shape = kTimed;
    const DType type = row.types.front();
    doing(detail::join("times of ", row.name));
    try {
      KernelRun run(options_.target.device, type, type, KernelRun::Mode::bench);
      row.run(run, shape);
      const std::vector<double>& ms = run.times_ms();
      if (ms.empty()) return;
      const auto at = [&](double p) {
        return ms[static_cast<size_t>(p * static_cast<double>(ms.size() - 1) + 0.5)];
      };
      Bench b{.name = row.name,
              .shape = detail::join(shape),
              .dtype = std::string(name_of(type)),
              .ms_p10 = at(0.1),
              .ms_median = at(0.5),
              .ms_p90 = at(0.9),
              .n = static_cast<int64_t>(ms.size()),
              .bytes = run.bytes(),
              .flops = run.flops};
      // What moves less says how long starting it takes.
      constexpr double kLarge = 64e6;
      if (copy_gb_per_s > 0 && run.flops == 0 && run.bytes() >= kLarge)
        b.pct_of_floor = 100 * b.gb_per_s() / copy_gb_per_s;
      stage_.bench.push_back(b);
    } catch (const std::exception& e) {
      stage_.facts["not timed: " + row.name] = e.what();
      look_for_loss(row);
    }
    save();
  }

 private:
  void found(const Row& row, Check check) {
    const bool broke = !check.pass;
    stage_.checks.push_back(std::move(check));
    if (broke) look_for_loss(row);
    save();
  }
  void look_for_loss(const Row& row) {
    const std::string why = why_lost(options_.target);
    if (why.empty()) return;
    lost_ = true;
    stage_.facts["device lost in"] = row.name;
    stage_.facts["device lost because"] = why;
  }
  /// Not after each of a thousand checks: the file holds all of them.
  void save() {
    if (!options_.so_far || now_s() - saved_ < 1) return;
    options_.so_far(stage_);
    saved_ = now_s();
  }
  static double bound_of(const Row& row, DType type, DType stored) {
    return (relative_bound(row.roundings, stored) + row.stores_between * relative_bound(0, type)) *
           row.amplification;
  }

  static void compare_outputs(const Row& row, DType type, const std::vector<Tensor>& got,
                              const std::vector<Tensor>& wanted, Check& check) {
    BORA_CHECK(got.size() == wanted.size(), row.name, ": ", got.size(), " outputs, the reference ",
               wanted.size());
    for (size_t k = 0; k < got.size(); ++k) {
      const DType stored = got[k].dtype();
      const double bound = is_float(stored) ? bound_of(row, type, stored) : 0;
      compare(values_of(got[k]), values_of(wanted[k]), bound, stored, check);
    }
  }

  const StageOptions& options_;
  Stage& stage_;
  std::string planted_;
  bool plant_once_ = false, lost_ = false;
  double saved_ = now_s();
};

}  // namespace

Stage kernels_stage(const StageOptions& options) {
  Stage stage{.name = "kernels", .device = options.target.name()};
  if (options.target.kind == Target::Kind::none) return no_device(stage.name, options.target);
  const double begin = now_s();
  Checker checker(options, stage);
  const auto out_of_time = [&] {
    return checker.lost() || (options.budget_s > 0 && now_s() - begin > options.budget_s);
  };
  int64_t n_left = 0;
  std::vector<const Row*> rows;
  for (const Row& row : kernel_table())
    if (chosen(row.name, options.only) &&
        (',' + options.skip + ',').find(',' + row.name + ',') == std::string::npos)
      rows.push_back(&row);
  BORA_CHECK(!rows.empty(), "kernels: no row is named like '", options.only, "'");
  BORA_CHECK(options.runs > 0, "kernels: ", options.runs, " runs, wanted one or more");
  // Shapes outside, rows inside: whoever runs out of time has seen every kernel.
  const auto check_all = [&](const Shape& shape) {
    for (const Row* row : rows) {
      if (!fits(*row, shape)) continue;
      if (out_of_time()) {
        ++n_left;
        continue;
      }
      for (DType type : row->types)
        if (!checker.lost()) checker.values(*row, shape, type);
    }
  };
  std::vector<Shape> shapes = check_shapes(options.tiny);
  const Shape largest = shapes.back();  // its references take as long as all the others'
  shapes.pop_back();
  for (const Shape& shape : shapes) check_all(shape);
  for (const Row* row : rows) {
    if (!row->per_sample) continue;
    if (out_of_time())
      ++n_left;
    else
      checker.offsets(*row);
  }
  if (options.target.timed() && !options.tiny && !checker.lost()) {
    const double copy = copy_gb_per_s(options.target.device);
    stage.numbers["copy_GBps"] = copy;
    for (const Row* row : rows) {
      if (out_of_time())
        ++n_left;
      else
        checker.time(*row, copy);
    }
  }
  check_all(largest);
  if (n_left > 0) stage.numbers["left_out_for_time"] = static_cast<double>(n_left);
  stage.seconds = now_s() - begin;
  stage.conclude();
  return stage;
}

void launch_kernels(const StageOptions& options) {
  const Target& target = options.target;
  const Shape shape = target.timed() && !options.tiny ? kTimed : Shape{1, 4, 4, 4, 8};
  for (const Row& row : kernel_table()) {
    if (!chosen(row.name, options.only)) continue;
    KernelRun run(target.device, row.types.front(), row.types.front(), KernelRun::Mode::once);
    row.run(run, shape);
    run.stream().synchronize();
  }
}

}  // namespace bora::gpucheck
