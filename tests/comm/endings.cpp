// SPDX-License-Identifier: Apache-2.0
// A program that ends in the way its argument says; endings_test.sh looks at how it ended.
#include "comm/communicator.hpp"

#include <csignal>
#include <cstring>
#include <iostream>
#include <thread>

namespace bora {
namespace {

// Longer than any test waits: who sleeps this long was not ended by the others.
void never_come() { std::this_thread::sleep_for(std::chrono::seconds(120)); }

int end(const MpiSession& session, const std::string& how) {
  CommunicatorOptions options;
  options.timeout_s = 60;
  if (how.ends_with("absent_from_start")) options.first_timeout_s = 1;
  const bool is_1 = session.rank() == 1;
  if (how == "absent_from_start" && is_1) never_come();
  if (how == "dead_before_start" && is_1) throw Error("rank 1 has no heart");
  if (how.ends_with("_inline")) options.threaded = false;
  const auto comm = make_communicator(session, options);
  Tensor big = Tensor::full({1'000'000}, 1.0, DType::f32);
  comm->all_reduce(big, ReduceOp::sum, "warm up");

  if (how == "well") {
    std::cout << "rank " << comm->rank() << " of " << comm->size() << " is done\n";
    return 0;
  }
  if (how == "code_3") return 3;
  if (how == "error_on_one") {
    if (is_1) throw Error("rank 1 is out of luck");
    comm->all_reduce(big, ReduceOp::sum, "the others wait");
  }
  if (how == "usage_error_on_one") {
    if (is_1) throw UsageError("rank 1 was told nonsense");
    comm->barrier("the others wait");
  }
  if (how == "foreign_exception_on_one") {
    if (is_1) throw 42;
    comm->barrier("the others wait");
  }
  if (how == "usage_error_on_all") throw UsageError("key 'foo' is unknown");
  if (how == "agreed_usage_error") {
    comm->agree("reading the configuration", [&] {
      if (is_1) throw UsageError("key 'foo' is unknown");
    });
  }
  if (how == "error_with_work_under_way") {
    const Work work = comm->all_reduce_async(big, ReduceOp::sum, "under way");
    throw Error("all ranks fail at once");
  }
  if (how == "error_on_one_with_work_under_way") {
    if (is_1) throw Error("rank 1 is out of luck");
    const Work work = comm->all_reduce_async(big, ReduceOp::sum, "under way");
    throw Error("the others fail too");
  }
  if (how == "absent" || how == "absent_inline") {
    set_timeout(*comm, 1.0);
    if (is_1) never_come();
    comm->all_reduce(big, ReduceOp::sum, "the last one");
  }
  if (how == "others_return_early") {
    if (!is_1) return 0;
    std::this_thread::sleep_for(std::chrono::seconds(3));
    throw Error("rank 1 fails long after the others are done");
  }
  if (how == "never_done") {
    // Where several are done, longer than a busy machine keeps them apart.
    set_timeout(*comm, comm->size() == 2 ? 1.0 : 10.0);
    if (is_1) never_come();
    return 0;
  }
  if (how == "killed") {
    if (is_1) std::raise(SIGKILL);
    comm->barrier("the others wait");
  }
  throw UsageError("endings: how to end? '" + how + "' is unknown");
}

}  // namespace
}  // namespace bora

int main(int argc, char** argv) {
  return bora::run_ranks(argc, argv, [&](bora::MpiSession& session) {
    return bora::end(session, argc > 1 ? argv[1] : "");
  });
}
