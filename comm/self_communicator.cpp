// SPDX-License-Identifier: Apache-2.0
#include "comm/arguments.hpp"
#include "comm/communicator.hpp"
#include "comm/operation.hpp"

namespace bora {
namespace {

class SelfCommunicator final : public Collective {
 public:
  explicit SelfCommunicator(DeviceType type) : type_(type) {
    if (type != DeviceType::cpu) control_ = make_self_communicator();
  }
  int rank() const override { return 0; }
  int size() const override { return 1; }
  DeviceType device_type() const override { return type_; }
  Collective& control() override { return control_ ? *control_ : *this; }

  Work all_reduce_async(Tensor x, ReduceOp, std::string_view label) override {
    check_tensor(*this, x, "all_reduce", label);
    record(OperationKind::all_reduce, x, label);
    return {};
  }
  void broadcast(Tensor& x, int root, std::string_view label) override {
    check_tensor(*this, x, "broadcast", label);
    check_root(*this, root, "broadcast", label);
    record(OperationKind::broadcast, x, label);
  }
  void all_gather(const Tensor& x, Tensor& out, std::string_view label) override {
    check_rows(*this, x, out, "all_gather", label);
    record(OperationKind::all_gather, x, label);
    copy(x, out, out.shape());
  }
  void gather(const Tensor& x, Tensor& out, int root, std::string_view label) override {
    check_root(*this, root, "gather", label);
    check_rows(*this, x, out, "gather", label);
    record(OperationKind::gather, x, label);
    copy(x, out, out.shape());
  }
  void reduce(Tensor& x, int root, ReduceOp, std::string_view label) override {
    check_tensor(*this, x, "reduce", label);
    check_root(*this, root, "reduce", label);
    record(OperationKind::reduce, x, label);
  }
  void reduce_scatter(const Tensor& x, Tensor& out, ReduceOp, std::string_view label) override {
    check_rows(*this, out, x, "reduce_scatter", label);
    record(OperationKind::reduce_scatter, x, label);
    copy(x, out, out.shape());
  }
  Work send_async(Tensor x, int to, std::string_view label) override {
    check_tensor(*this, x, "send", label);
    check_peer(*this, to, "send", label);  // there is none
    return {};
  }
  Work receive_async(Tensor x, int from, std::string_view label) override {
    check_tensor(*this, x, "receive", label);
    check_peer(*this, from, "receive", label);
    return {};
  }
  void barrier(std::string_view label) override { record(OperationKind::barrier, {}, label); }
  std::unique_ptr<Collective> split(int color, int) override {
    BORA_CHECK(color >= 0, "split: color ", color, " is negative");
    record(OperationKind::split, {}, "split");
    return make_self_communicator(type_);
  }

 private:
  // Done as soon as it has begun.
  void record(OperationKind kind, const Tensor& x, std::string_view label) {
    FlightRecorder::instance()
        .begin({.operation = name_of(kind),
                .group = "self",
                .label = label,
                .sequence = ++sequence_,
                .count = x.defined() ? x.numel() : -1,
                .type = x.dtype(),
                .arrived = true})
        .done();
  }
  static void copy(const Tensor& from, Tensor& to, const Shape& shape) {
    to.copy_from(from.detach().reshape(shape));
  }

  DeviceType type_;
  std::unique_ptr<Collective> control_;
  uint64_t sequence_ = 0;
};

}  // namespace

std::unique_ptr<Collective> make_self_communicator(DeviceType type) {
  return std::make_unique<SelfCommunicator>(type);
}

}  // namespace bora
