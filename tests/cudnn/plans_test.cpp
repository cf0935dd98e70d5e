// SPDX-License-Identifier: Apache-2.0
// cuDNN's plans without a device: for every convolution of every shipped network, each precision,
// H200 and A100, the graph that the code builds has a plan that the code would choose: on tensor
// cores where the precision has them, deterministic, below the workspace limit, not compiled at run
// time.  BORA_PLAN_TABLE=1 prints what is chosen.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <map>
#include <sstream>

#include "kernels/cudnn/plans.hpp"
#include "tests/cudnn/in_child.hpp"
#include "tests/cudnn/networks.hpp"

namespace bora::kernels::cudnn {
namespace {

struct Network {
  const char* name;
  std::vector<std::vector<Conv3dCall>> (*convolutions)();
};

const Network kNetworks[] = {{"trainer", &test::trainer_networks},
                             {"configs", &test::config_networks},
                             {"plain", &test::plain_networks},
                             {"mlperf", &test::mlperf_networks}};
const char* const kDevices[] = {"h200", "a100"};

struct Precision {
  DType type;
  bool tf32;
};
constexpr Precision kPrecisions[] = {
    {DType::f16, false}, {DType::bf16, false}, {DType::f32, true}, {DType::f32, false}};

DeviceDescription device(const std::string& name) {
  std::ifstream file("tests/cudnn/devices/" + name + ".json");
  std::stringstream text;
  text << file.rdbuf();
  return DeviceDescription::from_json(text.str());
}

/// As kernels/cudnn/conv3d.cpp: the pass, a bias in the forward graph only, weight gradients of
/// halves by way of halves.
ConvKey key_of_call(const Conv3dCall& call, const Precision& p, bool add) {
  const ConvPass pass = call.pass == Conv3dCall::Pass::forward         ? ConvPass::forward
                        : call.pass == Conv3dCall::Pass::backward_data ? ConvPass::backward_data
                                                                       : ConvPass::backward_weights;
  cuda::Conv3dSettings settings;
  settings.tf32 = p.tf32;
  return key_of(pass, problem_of(call.attributes, call.x, call.w, call.y), p.type,
                call.bias && pass == ConvPass::forward, add, 16, settings);
}

std::map<std::string, ConvKey> keys_of(const std::vector<std::vector<Conv3dCall>>& networks) {
  std::map<std::string, ConvKey> keys;
  for (const auto& network : networks)
    for (const Conv3dCall& call : network)
      for (const Precision& p : kPrecisions) {
        const auto note = [&](const ConvKey& key) { keys.emplace(text_of(key), key); };
        note(key_of_call(call, p, false));
        // Accumulated gradients of f32 operands.
        if (call.pass == Conv3dCall::Pass::backward_weights && p.type == DType::f32)
          note(key_of_call(call, p, true));
      }
  return keys;
}

/// Whether a choice off the tensor cores is one that `fault_of` may excuse: not for halves, not on
/// an H200.
bool may_be_off_tensor_cores(const ConvKey& key, const DeviceDescription& d) {
  return key.tf32 && d.name().find("sm_80") != std::string::npos;
}

/// Empty, or what is wrong with what the code would choose.
std::string fault_of(const ConvKey& key, const DeviceDescription& d, std::string& chosen) {
  const ConvGraph graph = build_graph(key);
  std::string reasons;
  const std::vector<ConvPlan> plans = find_plans(key, graph, d, 1, {}, &reasons);
  if (plans.empty()) return "no plan:\n" + reasons;
  const ConvPlan& plan = plans.front();
  chosen = plan.text();
  if (plan.notes.tensor_core && !prefers_tensor_cores(key))
    return "on tensor cores, strict f32 was asked for";
  if (!plan.notes.tensor_core && prefers_tensor_cores(key)) {
    // TF32 on sm_80 copies its operands first: with large tensors nothing fits into the limit,
    // which the user may raise.  Else it is a fault.
    ConvKey unlimited = key;
    unlimited.workspace_limit = int64_t{1} << 40;
    const auto any = find_plans(unlimited, graph, d, 1, {});
    const bool excused =
        may_be_off_tensor_cores(key, d) && !any.empty() && any.front().notes.tensor_core;
    if (!excused) return "not on tensor cores";
    chosen += " (tensor cores want " + any.front().text() + ")";
  }
  if (plan.notes.nondeterministic) return "not deterministic";
  if (plan.notes.compiled_at_run_time) return "compiled at run time";
  if (plan.workspace > (int64_t{256} << 20)) return "a workspace above 256 MiB";
  // What a plan file keeps of it makes the same plan.
  const ConvPlan again = make_plan(key, graph, d, plan.choice);
  if (again.workspace != plan.workspace) return "the plan made again has another workspace";
  return {};
}

using Case = std::tuple<const char*, Network>;
class CudnnPlans : public ::testing::TestWithParam<Case> {};

TEST_P(CudnnPlans, EachConvolutionHasAPlan) {
  const auto& [device_name, network] = GetParam();
  const auto networks = network.convolutions();
  ASSERT_FALSE(networks.empty());
  for (const auto& calls : networks) ASSERT_GE(calls.size(), 20u);
  const std::map<std::string, ConvKey> keys = keys_of(networks);
  const std::string report = test::in_child([&, name = std::string(device_name)](const auto& line) {
    const DeviceDescription d = device(name);
    line("DEVICE " + d.name());
    for (const auto& [text, key] : keys) {
      line("BEGIN " + text);  // a crash shows where
      std::string chosen;
      const std::string fault = fault_of(key, d, chosen);
      line(fault.empty() ? "CHOSEN " + text + ": " + chosen
                         : "FAULT " + text + ": " + chosen + ": " + fault);
    }
  });
  if (const char* table = std::getenv("BORA_PLAN_TABLE"); table && *table == '1') {
    std::istringstream lines(report);
    for (std::string l; std::getline(lines, l);)
      if (l.rfind("BEGIN", 0) != 0) std::cout << l << '\n';
  }
  std::istringstream lines(report);
  size_t n_chosen = 0;
  std::string last, faults;
  for (std::string l; std::getline(lines, l);) {
    if (l.rfind("BEGIN", 0) == 0) last = l;
    if (l.rfind("CHOSEN", 0) == 0) ++n_chosen;
    if (l.rfind("FAULT", 0) == 0) faults += l + "\n  (after " + last + ")\n";
  }
  EXPECT_EQ(faults, "");
  EXPECT_EQ(n_chosen, keys.size());
  RecordProperty("plans", static_cast<int>(n_chosen));
}

INSTANTIATE_TEST_SUITE_P(All, CudnnPlans,
                         ::testing::Combine(::testing::ValuesIn(kDevices),
                                            ::testing::ValuesIn(kNetworks)),
                         [](const auto& i) {
                           return std::string(std::get<0>(i.param)) + "_" +
                                  std::get<1>(i.param).name;
                         });

// The network's own walk, by what is known of it: each layer of the trainer's network three times
// but the first, whose data gradient nobody asks for.
TEST(CudnnNetworks, AreHeardWhole) {
  const auto mlperf = test::mlperf_networks();
  const auto& calls = mlperf.at(0);
  const auto has = [&](Conv3dCall::Pass pass, const Shape& x, const Shape& y) {
    return std::any_of(calls.begin(), calls.end(),
                       [&](const Conv3dCall& c) { return c.pass == pass && c.x == x && c.y == y; });
  };
  using Pass = Conv3dCall::Pass;
  const Shape first{2, 128, 128, 128, 1}, top{2, 128, 128, 128, 32}, low{2, 64, 64, 64, 64};
  EXPECT_TRUE(has(Pass::forward, first, top));
  EXPECT_TRUE(has(Pass::backward_weights, first, top));
  EXPECT_FALSE(has(Pass::backward_data, first, top));
  EXPECT_TRUE(has(Pass::backward_data, top, low)) << "a strided layer, and a transposed one";
  EXPECT_TRUE(has(Pass::forward, top.with(4, 64), top)) << "behind the concat";
  EXPECT_TRUE(has(Pass::forward, {2, 8, 8, 8, 320}, {2, 4, 4, 4, 320}));
}

TEST(CudnnDevice, DamagedDescriptionsAreErrorsThatSayWhy) {
  const std::string report = test::in_child([](const auto& line) {
    for (const char* text : {"{}", "not json", R"({"deviceName": "x"})"}) {
      try {
        DeviceDescription::from_json(text);
        line("taken");
      } catch (const Error& e) {
        line(std::string(e.what()).find("cuDNN") != std::string::npos ? "refused" : e.what());
      }
    }
    // No driver here, or none that is needed: never a crash.
    line(device("h200").name());
  });
  EXPECT_EQ(report.rfind("refused\nrefused\nrefused\nNVIDIA H200, sm_90, 132 SMs, cuDNN ", 0), 0u)
      << report;
}

TEST(CudnnPlansOf, GroupsDilationSlabsAndUnalignedViews) {
  struct Problem {
    const char* what;
    Conv3dAttributes a;
    Shape x, w, y;
    int64_t alignment;
  };
  const std::vector<Problem> problems = {
      {"groups",
       {.padding = Dims3::all(1), .groups = 4},
       {2, 32, 32, 32, 32},
       {32, 3, 3, 3, 8},
       {2, 32, 32, 32, 32},
       16},
      {"dilation",
       {.padding = Dims3::all(2), .dilation = Dims3::all(2)},
       {2, 32, 32, 32, 32},
       {32, 3, 3, 3, 32},
       {2, 32, 32, 32, 32},
       16},
      {"first slab",
       {.padding = Dims3::all(1)},
       {1, 100, 256, 256, 32},
       {32, 3, 3, 3, 32},
       {1, 99, 256, 256, 32},
       16},
      {"inner slab",
       {.padding = {0, 1, 1}},
       {1, 101, 256, 256, 32},
       {32, 3, 3, 3, 32},
       {1, 99, 256, 256, 32},
       16},
      {"slab of a data gradient",
       {.padding = {2, 1, 1}},
       {1, 99, 256, 256, 32},
       {32, 3, 3, 3, 32},
       {1, 101, 256, 256, 32},
       16},
      {"large",
       {.padding = Dims3::all(1)},
       {1, 320, 320, 320, 64},
       {64, 3, 3, 3, 64},
       {1, 320, 320, 320, 64},
       16},
      {"2-D",
       {.padding = {0, 1, 1}},
       {8, 1, 64, 64, 32},
       {32, 1, 3, 3, 32},
       {8, 1, 64, 64, 32},
       16},
      {"odd extents",
       {.padding = Dims3::all(1)},
       {1, 17, 23, 19, 24},
       {40, 3, 3, 3, 24},
       {1, 17, 23, 19, 40},
       16},
      {"odd address",
       {.padding = Dims3::all(1)},
       {1, 17, 23, 19, 7},
       {5, 3, 3, 3, 7},
       {1, 17, 23, 19, 5},
       2},
  };
  const std::string report = test::in_child([&](const auto& line) {
    for (const char* name : kDevices) {
      const DeviceDescription d = device(name);
      for (const Problem& p : problems)
        for (const Precision& precision : kPrecisions)
          for (const ConvPass pass :
               {ConvPass::forward, ConvPass::backward_data, ConvPass::backward_weights}) {
            cuda::Conv3dSettings settings;
            settings.tf32 = precision.tf32;
            const ConvKey key =
                key_of(pass, problem_of(p.a, p.x, p.w, p.y), precision.type, false, false,
                       std::max(p.alignment, size_of(precision.type)), settings);
            std::string chosen;
            const std::string fault = fault_of(key, d, chosen);
            if (!fault.empty())
              line(detail::join("FAULT ", name, ", ", p.what, ": ", text_of(key), ": ", chosen,
                                ": ", fault));
          }
    }
  });
  EXPECT_EQ(report, "");
}

}  // namespace
}  // namespace bora::kernels::cudnn
