// SPDX-License-Identifier: Apache-2.0
#include "core/step_graph.hpp"

#include <utility>

#include "core/backend.hpp"
#include "core/error.hpp"
#include "core/log.hpp"
#include "core/rng.hpp"

namespace bora {
namespace {

/// What a graph has been given.
struct Place {
  const void* address;
  Shape shape;
  DType type;
};

std::vector<Place> places_of(const std::vector<Tensor>& tensors) {
  std::vector<Place> places;
  for (const Tensor& t : tensors) places.push_back({t.raw(), t.shape(), t.dtype()});
  return places;
}

/// How `now` differs from `then`; empty if it does not.
std::string difference(const std::vector<Place>& then, const std::vector<Tensor>& now) {
  if (then.size() != now.size())
    return detail::join(now.size(), " inputs, captured with ", then.size());
  for (size_t i = 0; i < now.size(); ++i) {
    if (now[i].shape() != then[i].shape || now[i].dtype() != then[i].type)
      return detail::join("input ", i, " is ", now[i].shape(), " ", now[i].dtype(),
                          ", captured with ", then[i].shape, " ", then[i].type);
    if (now[i].raw() != then[i].address)
      return detail::join("input ", i, " lies elsewhere than at the capture: use one buffer");
  }
  return {};
}

}  // namespace

struct StepGraph::Variant {
  int runs = 0;
  Graph graph;
  std::vector<Place> inputs;
  std::vector<Tensor> results;  // outside the pool
  bool eager_for_good = false;
  bool told = false;  // of other inputs
  Way way = Way::eager;
  std::string why;
};

StepGraph::StepGraph(Device device, const StepGraphOptions& options)
    : device_(device), options_(options), pool_(std::make_shared<CachingAllocator>(device)) {
  BORA_CHECK(options.warm_up >= 2, "StepGraph: ", options.warm_up, " warm-up runs, wanted 2");
  pool_->hold_segments();
}

StepGraph::~StepGraph() {
  try {
    reset();
  } catch (const std::exception& e) {
    log_warn("step graph: ", e.what());
  }
}

// Waits for the last launches, which may be under way.
void StepGraph::forget_graphs() {
  bool any = false;
  for (const auto& [name, v] : variants_) any = any || v->graph.defined();
  if (any) current_stream(device_).synchronize();
  for (const auto& [name, v] : variants_) {
    if (!v->graph.defined()) continue;
    v->graph = {};
    v->runs = 1;
  }
}

void StepGraph::reset() {
  forget_graphs();
  variants_.clear();
}

StepGraph::Way StepGraph::way(const std::string& variant) const {
  const auto it = variants_.find(variant);
  return it == variants_.end() ? Way::eager : it->second->way;
}

std::string StepGraph::why_eager(const std::string& variant) const {
  const auto it = variants_.find(variant);
  return it == variants_.end() ? std::string() : it->second->why;
}

void StepGraph::give_up(const std::string& name, Variant& v, const std::string& reason) {
  v.eager_for_good = true;
  v.why = reason;
  v.way = Way::eager;
  log_info("step '", name, "' runs eagerly, not as a graph: ", reason);
  for (const auto& [other, variant] : variants_)
    if (variant->graph.defined()) return;
  // Nothing is captured: eager runs take their memory elsewhere, this need not lie idle.
  pool_ = std::make_shared<CachingAllocator>(device_);
  pool_->hold_segments();
}

void StepGraph::keep_results(Variant& v, std::vector<Tensor> results) {
  v.results.resize(results.size());
  for (size_t i = 0; i < results.size(); ++i) {
    Tensor& kept = v.results[i];
    const Tensor& now = results[i];
    BORA_CHECK(now.defined() && now.device() == device_, "StepGraph: result ", i, " is not on ",
               device_);
    if (!kept.defined() || kept.shape() != now.shape() || kept.dtype() != now.dtype())
      kept = Tensor::empty(now.shape(), now.dtype(), device_);
    kept.copy_from(now.detach());
  }
}

std::vector<Tensor> StepGraph::warm_up(const std::string& name, Variant& v, const Body& body) {
  const uint64_t draws = n_rng_keys();
  const int64_t live = pool_->stats().live;
  v.way = Way::eager;
  {
    std::vector<Tensor> results;
    {
      const AllocationPoolScope scope(pool_);
      results = body();
    }
    keep_results(v, std::move(results));
  }
  std::vector<Tensor> results = v.results;
  const int64_t outlives = pool_->stats().live - live;
  if (n_rng_keys() != draws)
    give_up(name, v, "it draws random numbers (dropout), which a replay would repeat");
  else if (outlives != 0 && v.runs > 0)
    give_up(name, v, detail::join(outlives, " bytes that it allocates outlive it"));
  else if (outlives != 0)
    forget_graphs();  // what stays may lie where an earlier graph has its scratch
  ++v.runs;
  return results;
}

bool StepGraph::capture(const std::string& name, Variant& v, const std::vector<Tensor>& inputs,
                        const Body& body) {
  Backend& b = backend(device_.type);
  const Stream stream = current_stream(device_);
  const int64_t live = pool_->stats().live;
  std::string reason;
  Graph graph;
  try {
    b.begin_capture(stream);
  } catch (const Error& e) {
    give_up(name, v, e.what());
    return false;
  }
  try {
    std::vector<Tensor> results;
    {
      const AllocationPoolScope scope(pool_);
      results = body();
    }
    BORA_CHECK(results.size() == v.results.size(), "the number of its results changes");
    for (size_t i = 0; i < results.size(); ++i)
      BORA_CHECK(
          results[i].shape() == v.results[i].shape() && results[i].dtype() == v.results[i].dtype(),
          "the shape of result ", i, " changes");
    keep_results(v, std::move(results));
  } catch (const std::exception& e) {
    reason = e.what();
  }
  try {
    graph = b.end_capture(stream);
  } catch (const Error& e) {
    if (reason.empty()) reason = e.what();
  }
  if (reason.empty() && pool_->stats().live != live)
    reason = detail::join(pool_->stats().live - live, " bytes that it allocates outlive it");
  if (!reason.empty()) {
    give_up(name, v, reason);
    return false;
  }
  v.graph = std::move(graph);
  v.inputs = places_of(inputs);
  v.way = Way::captured;
  log_info("step '", name, "' is captured as a graph; ", pool_->stats().reserved >> 20,
           " MiB of scratch memory stay with it");
  return true;
}

std::vector<Tensor> StepGraph::run(const std::string& variant, const std::vector<Tensor>& inputs,
                                   const Body& body, const std::function<void()>& restart) {
  std::unique_ptr<Variant>& slot = variants_[variant];
  if (slot == nullptr) slot = std::make_unique<Variant>();
  Variant& v = *slot;
  if (v.runs == 0 && !v.eager_for_good) {
    if (!options_.enabled) {
      v.eager_for_good = true;
      v.why = "graphs are switched off";
    } else if (!backend(device_.type).has_graphs()) {
      v.eager_for_good = true;
      v.why = detail::join("there are no graphs on ", device_);
    }
  }
  if (v.eager_for_good) return body();
  if (v.graph.defined()) {
    const std::string changed = difference(v.inputs, inputs);
    v.why = changed;
    if (changed.empty()) {
      backend(device_.type).launch(current_stream(device_), v.graph);
      v.way = Way::replayed;
      return v.results;
    }
    if (!std::exchange(v.told, true))
      log_info("step '", variant,
               "' runs eagerly where its inputs are not those of its graph: ", changed);
    v.way = Way::eager;
    const int64_t live = pool_->stats().live;
    std::vector<Tensor> results;
    {
      const AllocationPoolScope scope(pool_);
      results = body();
    }
    // Not to where the graph writes its results, and not in the pool.
    for (Tensor& r : results) r = r.detach().clone();
    if (pool_->stats().live != live) forget_graphs();  // what stays may lie in a graph's scratch
    return results;
  }
  if (v.runs < options_.warm_up) {
    // What earlier eager work left in the cache would lie idle beside the pool.
    if (pool_->stats().reserved == 0) caching_allocator(device_).release_cached();
    return warm_up(variant, v, body);
  }
  if (!capture(variant, v, inputs, body)) {
    if (restart) restart();
    return body();
  }
  backend(device_.type).launch(current_stream(device_), v.graph);
  return v.results;
}

}  // namespace bora
