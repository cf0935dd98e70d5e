// SPDX-License-Identifier: Apache-2.0
// Stage "nccl": NCCL on one rank: it starts, sums, is given up, and says why afterwards.
#include <algorithm>

#include "apps/gpucheck/compare.hpp"
#include "apps/gpucheck/stages.hpp"
#include "comm/nccl_communicator.hpp"
#include "core/profile.hpp"

namespace bora::gpucheck {
namespace {

/// One rank on the host by itself: what carries NCCL's id.  Without MPI, which this program is
/// without.
class OneRank final : public Collective {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  DeviceType device_type() const override { return DeviceType::cpu; }
  Work all_reduce_async(Tensor, ReduceOp, std::string_view) override { return {}; }
  void broadcast(Tensor&, int, std::string_view) override {}
  void all_gather(const Tensor& x, Tensor& out, std::string_view) override { copy(x, out); }
  void gather(const Tensor& x, Tensor& out, int, std::string_view) override { copy(x, out); }
  void reduce(Tensor&, int, ReduceOp, std::string_view) override {}
  void reduce_scatter(const Tensor& x, Tensor& out, ReduceOp, std::string_view) override {
    copy(x, out);
  }
  void barrier(std::string_view) override {}
  std::unique_ptr<Collective> split(int, int) override { return std::make_unique<OneRank>(); }

 private:
  static void copy(const Tensor& x, Tensor& out) {
    Tensor same = out.reshape(x.shape());
    same.copy_from(x);
  }
};

class Nccl {
 public:
  Nccl(const StageOptions& options, Stage& stage) : options_(options), stage_(stage) {}

  template <class Body>
  void check(const std::string& name, const std::string& dtype, const Body& body) {
    Check c{.op = name,
            .shape = "one rank",
            .dtype = dtype,
            .reference = "what one rank must give",
            .tol_from = "bit by bit",
            .pass = true};
    try {
      c.pass = body();
    } catch (const std::exception& e) {
      c.pass = false;
      c.note = e.what();
    }
    stage_.checks.push_back(std::move(c));
  }

  void all() {
    OneRank host;
    std::unique_ptr<NcclCommunicator> nccl;
    check("start", "", [&] {
      NcclOptions nccl_options;
      nccl_options.timeout_s = 10;
      nccl_options.first_timeout_s = 20;
      nccl = make_nccl_communicator(host, NcclPlace{}, nccl_options);
      return true;
    });
    if (!nccl) return;
    for (const DType type : {DType::f32, DType::f16, DType::bf16})
      check("all_reduce", std::string(name_of(type)), [&] {
        const int64_t n = (int64_t{1} << 20) + 3;
        Tensor x = Tensor::full({n}, 0.3, type, options_.target.device);
        const Tensor before = x.clone();
        nccl->all_reduce(x, ReduceOp::sum, "check");
        nccl->synchronize();
        return same_bits(x, before);
      });
    check("abort", "", [&] {
      nccl->abort("given up by the check");
      try {
        Tensor x = Tensor::zeros({8}, DType::f32, options_.target.device);
        nccl->all_reduce(x, ReduceOp::sum, "too late");
        nccl->synchronize();
      } catch (const Error& e) {
        return std::string(e.what()).find("given up by the check") != std::string::npos;
      }
      return false;
    });
  }

 private:
  const StageOptions& options_;
  Stage& stage_;
};

}  // namespace

Stage nccl_stage(const StageOptions& options) {
  Stage stage{.name = "nccl", .device = options.target.name()};
  if (options.target.kind != Target::Kind::gpu) {
    Target none = options.target;
    if (none.reason.empty()) none.reason = "NCCL wants a GPU";
    return no_device(stage.name, none);
  }
  const double begin = now_s();
  if (const std::string missing = nccl_missing(); !missing.empty()) {
    stage.status = Status::not_available;
    stage.error = missing;
    return stage;
  }
  Nccl(options, stage).all();
  stage.seconds = now_s() - begin;
  stage.conclude();
  return stage;
}

}  // namespace bora::gpucheck
