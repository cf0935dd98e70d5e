// SPDX-License-Identifier: Apache-2.0
// Runs every row of the op table (op_cases.hpp) through the same checks.  Features 107, 123.
#include <gtest/gtest.h>
#include <omp.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <set>

#include "core/allocator.hpp"
#include "core/recompute.hpp"
#include "core/rng.hpp"
#include "core/tape.hpp"
#include "tests/nn/op_cases.hpp"
#include "tests/support/device.hpp"
#include "tests/support/gradcheck.hpp"
#include "tests/support/tolerance.hpp"

namespace bora::test {

void PrintTo(const OpCase& c, std::ostream* out) { *out << c.name; }

namespace {

// Ops that draw get the same position in each run.
const RngPosition kRng{.seed = 7, .base = 3, .next = 0};

std::vector<double> input_values(const OpCase& c, size_t k) {
  const Input& in = c.inputs[k];
  const int64_t n = in.shape.numel();
  const uint64_t seed = 1000 + k;
  switch (in.fill) {
    case Fill::normal:
      return normal_values(n, seed);
    case Fill::uniform:
      return uniform_values(n, in.lo, in.hi, seed);
    case Fill::off_zero:
      return off_zero_values(n, seed);
    case Fill::distinct:
      return distinct_values(n, seed);
    case Fill::integers:
      return integer_values(n, static_cast<int64_t>(in.hi), seed);
  }
  return {};
}

DType input_type(const Input& in, DType run_type) {
  if (in.integer) return DType::u8;
  const bool narrow = run_type == DType::f16 || run_type == DType::bf16;
  return in.parameter && narrow ? DType::f32 : run_type;
}

/// Inputs of a run in `compute`, after rounding to `storage`: so that an f64 run sees the very
/// numbers of a 16-bit run.
std::vector<Tensor> make_inputs(const OpCase& c, DType compute, DType storage) {
  std::vector<Tensor> out;
  for (size_t k = 0; k < c.inputs.size(); ++k) {
    const Input& in = c.inputs[k];
    const Tensor rounded = make_tensor(in.shape, input_values(c, k), input_type(in, storage));
    const DType type = input_type(in, compute);
    out.push_back(rounded.dtype() == type ? rounded : rounded.to(type));
  }
  return out;
}

std::vector<bool> wanted(const OpCase& c) {
  std::vector<bool> w;
  for (const Input& in : c.inputs) w.push_back(in.differentiable);
  return w;
}

struct Outcome {
  Tensor y;
  std::vector<Tensor> gradients;  // undefined where not wanted
};

Tensor seed_for(const Tensor& y) {
  return make_tensor(y.shape(), normal_values(y.numel(), 99), y.dtype(), y.device());
}

enum class Path { plain, recomputed };

Outcome run(const OpCase& c, const std::vector<Tensor>& inputs, Path path = Path::plain) {
  const RngScope rng(kRng);
  std::vector<Tensor> leaves, others;
  for (size_t k = 0; k < inputs.size(); ++k) {
    const bool leaf = c.inputs[k].differentiable;
    leaves.push_back(leaf ? make_leaf(inputs[k], "input " + std::to_string(k)) : inputs[k]);
    if (leaf && k > 0) others.push_back(leaves.back());
  }
  Outcome out;
  if (path == Path::plain) {
    out.y = c.run(leaves);
  } else {
    const auto body = [&](const Tensor& x) {
      std::vector<Tensor> in = leaves;
      in[0] = x;
      return c.run(in);
    };
    out.y = recompute(body, leaves[0], others);
  }
  backward(out.y, seed_for(out.y));
  out.y = out.y.detach();
  for (size_t k = 0; k < inputs.size(); ++k)
    out.gradients.push_back(c.inputs[k].differentiable ? leaf_of(leaves[k]).gradient() : Tensor());
  return out;
}

void expect_same_bits(const Outcome& a, const Outcome& b, const char* what) {
  EXPECT_TRUE(same_bits(a.y, b.y)) << what << ": results differ";
  for (size_t k = 0; k < a.gradients.size(); ++k)
    EXPECT_TRUE(same_bits(a.gradients[k], b.gradients[k]))
        << what << ": gradients of input " << k << " differ";
}

class OpTable : public testing::TestWithParam<OpCase> {};
class OpValue : public testing::TestWithParam<OpCase> {};

TEST_P(OpValue, MatchesReference) {
  const OpCase& c = GetParam();
  Values values;
  for (size_t k = 0; k < c.inputs.size(); ++k) values.push_back(input_values(c, k));
  const RngScope rng(kRng);
  const std::vector<double> got = values_of(c.run(make_inputs(c, DType::f64, DType::f64)));
  const std::vector<double> want = c.reference(values);
  // Both sides round: two bounds.  Library functions (exp, erf) are good to 2 units.
  const double bound = 2 * relative_bound(DType::f64, c.roundings + 4) * c.amplification;
  EXPECT_EQ("", differences(got, want, bound * std::max(max_abs(want), 1e-3)));
}

TEST_P(OpTable, GradientsMatchDifferences) {
  const OpCase& c = GetParam();
  GradcheckOptions options;
  options.tolerance = c.gradient_tolerance;
  options.step = c.gradient_step;
  options.n_elements = c.differences;
  options.zero_gradient_ok = c.zero_gradient_ok;
  const auto f = [&](const std::vector<Tensor>& in) {
    const RngScope rng(kRng);
    return c.run(in);
  };
  EXPECT_EQ("", check_gradients(f, make_inputs(c, DType::f64, DType::f64), wanted(c), options));
}

TEST_P(OpTable, NarrowTypesFollowF64) {
  const OpCase& c = GetParam();
  for (DType type : c.types) {
    SCOPED_TRACE(name_of(type));
    const Outcome narrow = run(c, make_inputs(c, type, type));
    const Outcome wide = run(c, make_inputs(c, DType::f64, type));
    const double bound = relative_bound(type, c.roundings, c.stores) * c.amplification;
    const auto compare = [&](const Tensor& a, const Tensor& b, const std::string& what) {
      ASSERT_EQ(a.defined(), b.defined()) << what;
      if (!a.defined()) return;
      const std::vector<double> want = values_of(b);
      EXPECT_EQ("", differences(values_of(a), want,
                                bound * max_abs(want) + 2 * absolute_floor(a.dtype())))
          << what;
    };
    compare(narrow.y, wide.y, "result");
    for (size_t k = 0; k < narrow.gradients.size(); ++k)
      compare(narrow.gradients[k], wide.gradients[k], "gradient of input " + std::to_string(k));
  }
}

#if defined(BORA_EMULATED_CUDA)
// The CPU's loops and the device code are two programs for one formula.  Both round.
TEST_P(OpTable, DeviceEqualsCpuWithinRounding) {
  const OpCase& c = GetParam();
  std::vector<DType> types = c.types;
  types.push_back(DType::f64);
  for (DType type : types) {
    SCOPED_TRACE(name_of(type));
    const std::vector<Tensor> inputs = make_inputs(c, type, type);
    std::vector<Tensor> on_cpu;
    for (const Tensor& t : inputs) on_cpu.push_back(t.to(cpu()));
    const Outcome a = run(c, inputs), b = run(c, on_cpu);
    const double bound = 2 * relative_bound(type, c.roundings, c.stores) * c.amplification;
    const auto compare = [&](const Tensor& x, const Tensor& y, const std::string& what) {
      ASSERT_EQ(x.defined(), y.defined()) << what;
      if (!x.defined()) return;
      EXPECT_EQ(device(), x.device()) << what;
      EXPECT_EQ(cpu(), y.device()) << what;
      EXPECT_EQ(x.dtype(), y.dtype()) << what;
      const std::vector<double> want = values_of(y);
      EXPECT_EQ("", differences(values_of(x), want,
                                bound * max_abs(want) + 2 * absolute_floor(x.dtype())))
          << what;
    };
    compare(a.y, b.y, "result");
    for (size_t k = 0; k < a.gradients.size(); ++k)
      compare(a.gradients[k], b.gradients[k], "gradient of input " + std::to_string(k));
  }
}

// A missing barrier shows as bits that depend on the order of threads.
TEST_P(OpTable, BitsDoNotDependOnTheOrderOfThreads) {
  const OpCase& c = GetParam();
  for (DType type : c.types) {
    SCOPED_TRACE(name_of(type));
    const std::vector<Tensor> inputs = make_inputs(c, type, type);
    const Outcome forward = run(c, inputs);
    for (const simt::Schedule s :
         {simt::Schedule{simt::ScheduleKind::backward}, {simt::ScheduleKind::shuffled, 3}}) {
      const simt::ScheduleScope scope(s);
      expect_same_bits(forward, run(c, inputs), "another order");
    }
  }
}
#endif

TEST_P(OpTable, BitsRepeatForAnyNumberOfThreads) {
  const OpCase& c = GetParam();
  const int before = omp_get_max_threads();
  for (DType type : c.types) {
    SCOPED_TRACE(name_of(type));
    const std::vector<Tensor> inputs = make_inputs(c, type, type);
    omp_set_num_threads(1);
    const Outcome one = run(c, inputs);
    expect_same_bits(one, run(c, inputs), "second run");
    for (int n : {2, 3}) {
      omp_set_num_threads(n);
      expect_same_bits(one, run(c, inputs), "threads");
    }
    omp_set_num_threads(before);
  }
}

TEST_P(OpTable, RecomputeGivesTheSameBits) {
  const OpCase& c = GetParam();
  for (DType type : c.types) {
    SCOPED_TRACE(name_of(type));
    const std::vector<Tensor> inputs = make_inputs(c, type, type);
    expect_same_bits(run(c, inputs), run(c, inputs, Path::recomputed), "recompute");
  }
}

TEST_P(OpTable, KeepsWhatItSaysAndReleasesItInBackward) {
  const OpCase& c = GetParam();
  const auto live = [] { return caching_allocator(device()).stats().live; };
  std::vector<Tensor> leaves = make_inputs(c, c.types.front(), c.types.front());
  for (size_t k = 0; k < leaves.size(); ++k)
    if (c.inputs[k].differentiable) {
      leaves[k] = make_leaf(leaves[k], "input");
      leaf_of(leaves[k]).set_gradient_buffer(zeros(leaves[k].shape(), leaves[k].dtype()));
    }
  const RngScope rng(kRng);
  const int64_t at_start = live();
  int64_t unrecorded = 0;
  {
    const NoGrad no_grad;
    const Tensor y = c.run(leaves);
    EXPECT_FALSE(y.requires_grad());
    unrecorded = live() - at_start;
  }
  EXPECT_EQ(at_start, live()) << "an unrecorded run leaves memory behind";
  set_rng_position(kRng);
  Tensor y = c.run(leaves);
  ASSERT_TRUE(y.requires_grad());
  const int64_t saved = live() - at_start - unrecorded;
  if (c.saved_bytes) {
    EXPECT_LE(saved, *c.saved_bytes) << "bytes kept for backward";
  }
  const Tensor seed = seed_for(y);
  const int64_t before_backward = live();
  backward(y, seed);
  EXPECT_EQ(before_backward - saved, live()) << "bytes kept after backward";
  const int64_t with_node = live();
  y = y.detach();
  EXPECT_EQ(with_node, live()) << "the node held memory after its backward";
}

std::vector<OpCase> with_reference() {
  std::vector<OpCase> rows = OpCases::all();
  std::erase_if(rows, [](const OpCase& c) { return !c.reference; });
  return rows;
}

std::string row_name(const testing::TestParamInfo<OpCase>& info) { return info.param.name; }

INSTANTIATE_TEST_SUITE_P(Ops, OpTable, testing::ValuesIn(OpCases::all()), row_name);
INSTANTIATE_TEST_SUITE_P(Ops, OpValue, testing::ValuesIn(with_reference()), row_name);

// Runs from the repository's root.
TEST(OpCases, EveryOpHasACase) {
  std::set<std::string> in_rows;
  for (const OpCase& c : OpCases::all()) in_rows.insert(c.op);
  const std::regex info(R"re(OpInfo\s+info\s*\{\s*"([^"]+)")re");
  std::set<std::string> in_sources;
  ASSERT_TRUE(std::filesystem::is_directory("nn/ops")) << "run from the repository's root";
  std::vector<std::filesystem::path> files{"core/precision.cpp"};
  for (const auto& entry : std::filesystem::directory_iterator("nn/ops"))
    if (entry.path().extension() == ".cpp") files.push_back(entry.path());
  for (const std::filesystem::path& path : files) {
    std::ifstream file(path);
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    for (std::sregex_iterator it(text.begin(), text.end(), info), end; it != end; ++it)
      in_sources.insert((*it)[1]);
  }
  EXPECT_GE(in_sources.size(), 10u) << "the pattern no longer finds the ops";
  for (const std::string& op : in_sources)
    EXPECT_TRUE(in_rows.contains(op)) << "no row for op '" << op << "' in tests/nn/*_cases.cpp";
  for (const std::string& op : in_rows)
    EXPECT_TRUE(in_sources.contains(op)) << "a row names op '" << op << "', not in nn/ops/*.cpp";
}

}  // namespace
}  // namespace bora::test
