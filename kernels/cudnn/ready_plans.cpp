// SPDX-License-Identifier: Apache-2.0
#include "kernels/cudnn/ready_plans.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <mutex>
#include <optional>

#include "core/allocator.hpp"
#include "core/log.hpp"
#include "kernels/cudnn/qualify.hpp"
#include "kernels/cudnn/tuning.hpp"
#include "kernels/cudnn/version_gate.hpp"
#include "kernels/plan_cache.hpp"

namespace bora::kernels::cudnn {
namespace {

struct CacheKey {
  ConvKey key;
  int64_t device;
  int64_t generation;  ///< of the plan book
};

struct Shared {
  PlanCache<CacheKey, ReadyPlan> plans{4096};
  std::mutex mutex;  // of what follows
  std::map<int, DeviceDescription> devices;
  std::vector<std::string> log;
};

// Never destroyed: at the end of the process cuDNN's engines, opened after this was made, and the
// CUDA runtime go first, and descriptors of plans must not be destroyed without them.
Shared& shared() {
  static auto* s = new Shared();
  return *s;
}

const DeviceDescription& description(int device) {
  const std::lock_guard lock(shared().mutex);
  auto& devices = shared().devices;
  auto found = devices.find(device);
  if (found == devices.end())
    found = devices.emplace(device, DeviceDescription::from_device(device)).first;
  return found->second;
}

/// Memory for a search's tensors, of the size of a layer: it goes back to the device at the end
/// instead of staying in the caller's pool, which a StepGraph keeps for good.
std::shared_ptr<CachingAllocator> passing_pool(const Session& session) {
  return std::make_shared<CachingAllocator>(session.stream().device);
}

/// Random operands for measuring.
struct Operands {
  Tensor first, second, bias, result;
  Operands(Stream stream, const ConvKey& key) {
    const PassShapes shapes = shapes_of(key);
    first = Tensor::empty(shapes.first, key.dtype(), stream.device);
    second = Tensor::empty(shapes.second, key.dtype(), stream.device);
    result = Tensor::zeros(shapes.result, key.dtype(), stream.device);
    fill_exact(stream, first, 1);
    fill_exact(stream, second, 2);
    if (key.bias) {
      bias = Tensor::empty({shapes.result[4]}, key.dtype(), stream.device);
      fill_exact(stream, bias, 3);
    }
  }
};

ConvPlan fastest(Session& session, const ConvKey& key, std::vector<ConvPlan> plans) {
  if (plans.size() == 1) return std::move(plans.front());
  for (const ConvPlan& plan : plans) session.prepare(plan);
  const AllocationPoolScope scope(passing_pool(session));
  std::optional<Operands> t;
  try {
    t.emplace(session.stream(), key);
  } catch (const Error& e) {  // tensors of a layer that just fits into memory do not fit twice
    log_warn("cuDNN: engines for ", text_of(key), " are not timed: ", e.what());
    return std::move(plans.front());
  }
  const auto tensors = bindings(key.pass, t->first, t->second, t->bias, t->result);
  std::vector<double> times;
  double fastest = std::numeric_limits<double>::infinity();
  for (const ConvPlan& plan : plans) {
    try {
      times.push_back(time_on_device(
          session.stream(), [&] { session.execute(plan, tensors); }, fastest));
    } catch (const Error& e) {  // one that does not run is slower than all that do
      log_warn("cuDNN: ", text_of(plan.choice), " for ", text_of(key), ": ", e.what());
      times.push_back(std::numeric_limits<double>::infinity());
    }
    fastest = std::min(fastest, times.back());
  }
  const size_t best = tuned_choice(times);
  log_info("cuDNN: ", text_of(key), ": ", plans[best].text(), ", ", times[best],
           " ms; cuDNN's first: ", times[0], " ms");
  return std::move(plans[best]);
}

/// Empty, or what is wrong with the plan.  Without the memory to find out it passes, with a line in
/// the log: the tensors of a layer that just fits into memory do not fit twice.
std::string fault(Session& session, const ConvKey& key, const ConvPlan& plan) {
  constexpr uint64_t kSeed = 20260101;  // any: the same data in each run
  std::string failure;
  const auto result_of = [&] {
    return qualify(
        session.stream(), key,
        [&](const Tensor& first, const Tensor& second, const Tensor& bias, Tensor& result) {
          try {
            session.execute(plan, bindings(key.pass, first, second, bias, result));
          } catch (const Error& e) {
            failure = e.what();
            throw;
          }
        },
        kSeed);
  };
  try {
    session.prepare(plan);
  } catch (const Error& e) {
    return e.what();
  }
  try {
    const AllocationPoolScope scope(passing_pool(session));
    return result_of();
  } catch (const Error&) {
    if (!failure.empty()) return failure;
  }
  try {
    return result_of();  // once more, with what the caller's pool has lying idle
  } catch (const Error& e) {
    if (!failure.empty()) return failure;
    log_warn("cuDNN: ", text_of(plan.choice), " for ", text_of(key),
             " is used without having been qualified: ", e.what());
    return {};
  }
}

/// The plan of an earlier choice, or nothing, with a line in the log.
std::optional<ConvPlan> from_book(const ConvKey& key, const ConvGraph& graph,
                                  const DeviceDescription& device) {
  const std::optional<EngineChoice> choice = plan_book().find(device.name(), key);
  if (!choice || plan_book().banned(device.name(), key).contains(choice->engine)) return {};
  try {
    return make_plan(key, graph, device, *choice);
  } catch (const Error& e) {
    log_warn("plan file: ", e.what(),
             "; another engine is chosen, results may differ in the last "
             "bits");
    return {};
  }
}

ReadyPlan make(Session& session, const ConvKey& key) {
  const DeviceDescription& device = description(session.stream().device.index);
  const cuda::Conv3dSettings settings = cuda::conv3d_settings();
  ReadyPlan ready{.graph = build_graph(key), .plan = {}, .reasons = {}};
  std::optional<ConvPlan> plan = from_book(key, ready.graph, device);
  for (;;) {
    if (!plan) {
      auto plans = find_plans(key, ready.graph, device, settings.tune ? kTunedPlans : 1,
                              plan_book().banned(device.name(), key), &ready.reasons);
      if (plans.empty()) return ready;
      plan = fastest(session, key, std::move(plans));
    }
    // What cuDNN tried in vain meanwhile must not show up in the next check of a launch.
    static_cast<void>(cudaGetLastError());
    const std::string wrong = settings.qualify ? fault(session, key, *plan) : std::string();
    if (wrong.empty()) break;
    log_warn("cuDNN: ", text_of(plan->choice), " is not right for ", text_of(key), ": ", wrong,
             "; it is not used for this, the next engine is tried");
    plan_book().ban(device.name(), key, plan->choice.engine);
    plan.reset();
  }
  plan_book().add(device.name(), key, plan->choice);
  log_debug("cuDNN: ", text_of(key), ": ", plan->text());
  if (prefers_tensor_cores(key) && !plan->notes.tensor_core)
    log_warn("cuDNN: ", text_of(key),
             " is not computed on tensor cores: no engine on them wants a "
             "workspace of less than ",
             key.workspace_limit >> 20, " MiB");
  {
    const std::lock_guard lock(shared().mutex);
    shared().log.push_back(text_of(key) + ": " + plan->text());
  }
  ready.plan = std::move(plan);
  return ready;
}

}  // namespace

std::shared_ptr<const ReadyPlan> ready_plan(Session& session, const ConvKey& key) {
  const CacheKey cache_key{key, session.stream().device.index, plan_book().generation()};
  return shared().plans.find_or_make(cache_key, [&] {
    const auto& k = key.problem.kernel;
    const std::string refused =
        refusal(cudnnGetVersion(), key.dtype(), key.tf32 != 0, {k[0], k[1], k[2]});
    BORA_CHECK(refused.empty(), "conv3d on cuda: ", refused);
    BORA_CHECK(!session.capturing(), "conv3d on cuda: ", text_of(key),
               " is met for the first time while a graph is captured: run the same step once "
               "before capturing");
    return make(session, key);
  });
}

std::vector<Session::Binding> bindings(ConvPass pass, const Tensor& first, const Tensor& second,
                                       const Tensor& bias, const Tensor& result) {
  switch (pass) {
    case ConvPass::backward_data:
      return {{kIdY, first.raw()}, {kIdW, second.raw()}, {kIdX, result.raw()}};
    case ConvPass::backward_weights:
      return {{kIdX, first.raw()}, {kIdY, second.raw()}, {kIdW, result.raw()}};
    case ConvPass::forward:
      break;
  }
  std::vector<Session::Binding> all{
      {kIdX, first.raw()}, {kIdW, second.raw()}, {kIdY, result.raw()}};
  if (bias.defined()) all.emplace_back(kIdBias, bias.raw());
  return all;
}

std::vector<std::string> ready_plan_log() {
  const std::lock_guard lock(shared().mutex);
  return shared().log;
}

}  // namespace bora::kernels::cudnn
