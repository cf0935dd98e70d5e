// SPDX-License-Identifier: Apache-2.0
#include "core/tape.hpp"

#include <atomic>
#include <queue>
#include <unordered_map>
#include <utility>

#include "core/backend.hpp"
#include "core/profile.hpp"

namespace bora {
namespace {

std::atomic<uint64_t> g_sequence{0};
thread_local bool t_recording = true;
thread_local std::function<void()> t_poll;

void add_into(Tensor& target, const Tensor& source) {
  BORA_CHECK(target.shape() == source.shape(), "gradient of shape ", source.shape(),
             " for a tensor of shape ", target.shape());
  if (target.numel() == 0) return;
  backend(target.device().type)
      .accumulate(target.stream(), target.raw(), target.dtype(), source.raw(), source.dtype(),
                  target.numel());
}

}  // namespace

Node::Node(std::string name) : name_(std::move(name)), sequence_(g_sequence++) {}

// Without recursion: the last owner of a long chain would else need a stack as deep as the chain.
Node::~Node() {
  std::vector<std::shared_ptr<Node>> dying = std::move(inputs_);
  while (!dying.empty()) {
    const std::shared_ptr<Node> node = std::move(dying.back());
    dying.pop_back();
    if (!node || node.use_count() > 1) continue;  // others keep it
    for (auto& input : node->inputs_) dying.push_back(std::move(input));
    node->inputs_.clear();
  }
}

void Leaf::backward(const Tensor&, InputGradients&) {
  BORA_FAIL("leaf '", name(), "' has no backward");
}

Tensor make_leaf(const Tensor& value, std::string name) {
  BORA_CHECK(value.defined() && is_float(value.dtype()), "make_leaf('", name,
             "'): wants a floating tensor");
  return value.detach().with_node(std::make_shared<Leaf>(std::move(name)));
}

Leaf& leaf_of(const Tensor& tensor) {
  auto* leaf = dynamic_cast<Leaf*>(tensor.node().get());
  BORA_CHECK(leaf != nullptr, "leaf_of: the tensor is ",
             tensor.node() ? "the result of an op" : "not on the tape");
  return *leaf;
}

bool recording() { return t_recording; }
RecordingScope::RecordingScope(bool on) : previous_(t_recording) { t_recording = on; }
RecordingScope::~RecordingScope() { t_recording = previous_; }

void set_backward_poll(std::function<void()> poll) { t_poll = std::move(poll); }

/// One run over the tape.
class BackwardPass {
 public:
  BackwardPass(const Tensor& root, bool hooks) : hooks_(hooks) { count_uses(root.node()); }

  void run(const Tensor& root, Tensor seed) {
    const NoGrad no_grad;
    deliver(root.node(), std::move(seed), /*uses=*/1);
    while (!ready_.empty()) {
      const std::shared_ptr<Node> node = ready_.top().node;
      ready_.pop();
      step(node);
      if (t_poll) t_poll();
    }
  }

 private:
  struct State {
    int uses = 0;  // consumers that have not contributed yet
    Tensor gradient;
  };
  struct Entry {
    uint64_t sequence;
    std::shared_ptr<Node> node;
    bool operator<(const Entry& other) const { return sequence < other.sequence; }
  };

  class Out final : public InputGradients {
   public:
    Out(BackwardPass& pass, Node& node) : pass_(pass), node_(node) {}
    bool wants(int input) const override {
      return node_.inputs().at(static_cast<size_t>(input)) != nullptr;
    }
    Sink take_sink(int input, DType type) override {
      if (!wants(input)) return {};
      auto* leaf = dynamic_cast<Leaf*>(node_.inputs()[static_cast<size_t>(input)].get());
      if (leaf == nullptr || !leaf->gradient_.defined() || leaf->gradient_.dtype() != type)
        return {};
      const bool add = leaf->filled_;
      leaf->filled_ = true;
      return {leaf->gradient_, add};
    }
    Tensor take_partial(int input) override {
      if (!wants(input)) return {};
      const auto it = pass_.states_.find(node_.inputs()[static_cast<size_t>(input)].get());
      if (it == pass_.states_.end() || !it->second.gradient.defined() ||
          !it->second.gradient.exclusive())
        return {};
      return std::exchange(it->second.gradient, Tensor());
    }
    void give(int input, Tensor gradient) override {
      if (!wants(input) || !gradient.defined()) return;
      auto& target = node_.inputs()[static_cast<size_t>(input)];
      if (auto* leaf = dynamic_cast<Leaf*>(target.get())) {
        pass_.add_to_leaf(*leaf, gradient);
      } else {
        pass_.add_to_node(pass_.states_[target.get()], std::move(gradient));
      }
    }

   private:
    BackwardPass& pass_;
    Node& node_;
  };

  void count_uses(const std::shared_ptr<Node>& root) {
    std::vector<Node*> stack{root.get()};
    states_[root.get()].uses = 1;
    while (!stack.empty()) {
      Node* node = stack.back();
      stack.pop_back();
      for (const auto& input : node->inputs()) {
        if (!input) continue;
        const auto [it, fresh] = states_.try_emplace(input.get());
        ++it->second.uses;
        if (fresh) stack.push_back(input.get());
      }
    }
  }

  static void add_to_node(State& state, Tensor gradient) {
    if (!state.gradient.defined()) {
      state.gradient = std::move(gradient);
      return;
    }
    // The first gradient may share its bytes with another (add returns dy twice): write in place
    // only if it is ours alone.
    if (!state.gradient.exclusive()) {
      if (gradient.exclusive()) {
        std::swap(state.gradient, gradient);
      } else {
        state.gradient = state.gradient.clone();
      }
    }
    add_into(state.gradient, gradient);
  }

  static void add_to_leaf(Leaf& leaf, const Tensor& gradient) {
    if (!leaf.gradient_.defined())
      leaf.gradient_ = Tensor::empty(gradient.shape(), gradient.dtype(), gradient.device());
    if (leaf.filled_) {
      add_into(leaf.gradient_, gradient);
    } else {
      leaf.gradient_.copy_from(gradient);
      leaf.filled_ = true;
    }
  }

  // `uses` consumers of `node` are done; the last one makes a node runnable and a leaf ready.
  void arrive(const std::shared_ptr<Node>& node, int uses) {
    State& state = states_[node.get()];
    state.uses -= uses;
    if (state.uses > 0) return;
    if (auto* leaf = dynamic_cast<Leaf*>(node.get())) {
      if (hooks_ && leaf->hook_) leaf->hook_(*leaf);
    } else {
      ready_.push({node->sequence(), node});
    }
  }

  void deliver(const std::shared_ptr<Node>& node, Tensor gradient, int uses) {
    if (auto* leaf = dynamic_cast<Leaf*>(node.get())) {
      add_to_leaf(*leaf, gradient);
    } else {
      states_[node.get()].gradient = std::move(gradient);
    }
    arrive(node, uses);
  }

  void step(const std::shared_ptr<Node>& node) {
    Tensor dy = std::move(states_[node.get()].gradient);
    states_[node.get()].gradient = Tensor();
    BORA_CHECK(!node->spent_, "backward of ", node->name(), " #", node->sequence(),
               ": a backward pass has used this node and freed what it saved; run forward again");
    node->spent_ = true;
    if (dy.defined()) {  // undefined: no gradient flowed to this node, so none flows on
      Out out(*this, *node);
      try {
        node->backward(dy, out);
      } catch (const Error& e) {
        throw Error(detail::join("in backward of ", node->name(), " #", node->sequence(), ", dy ",
                                 dy.shape(), " ", dy.dtype(), ": ", e.what()));
      }
    }
    node->release();
    for (const auto& input : node->inputs())
      if (input) arrive(input, 1);
  }

  bool hooks_;
  std::unordered_map<Node*, State> states_;
  std::priority_queue<Entry> ready_;
};

namespace {

void run_backward(const Tensor& root, Tensor seed, bool hooks) {
  BORA_CHECK(root.defined() && root.requires_grad(),
             "backward: the tensor is not on the tape (was it computed under NoGrad, or from no "
             "parameter?)");
  if (!seed.defined()) {
    BORA_CHECK(root.numel() == 1, "backward: a seed is wanted for a root of shape ", root.shape());
    seed = Tensor::full(root.shape(), 1.0, root.dtype(), root.device());
  }
  BORA_CHECK(seed.shape() == root.shape(), "backward: seed is ", seed.shape(), ", root is ",
             root.shape());
  BackwardPass pass(root, hooks);
  pass.run(root, std::move(seed));
}

}  // namespace

void backward(const Tensor& root, const Tensor& seed) { run_backward(root, seed, true); }
void backward_without_hooks(const Tensor& root, const Tensor& seed) {
  run_backward(root, seed, false);
}

}  // namespace bora
