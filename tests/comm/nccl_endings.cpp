// SPDX-License-Identifier: Apache-2.0
// Ends in the way its argument says, over the doubles of NCCL and CUDA; endings_test.sh looks how.
#include "comm/communicator.hpp"
#include "comm/nccl_communicator.hpp"
#include "tests/nccl_double/nccl_double.hpp"

#include <csignal>
#include <thread>

namespace bora {
namespace {

// Longer than any test waits.
void never_come() { std::this_thread::sleep_for(std::chrono::seconds(120)); }

int end(const MpiSession& session, const std::string& how) {
  nccl_double::start();
  nccl_double::use_backend(true);
  const bool is_1 = session.rank() == 1;
  CommunicatorOptions host_options;
  host_options.timeout_s = how == "absent_checked" ? 2 : 60;
  const auto host = make_communicator(session, host_options);
  NcclOptions options;
  options.poll_s = 0.05;
  options.timeout_s = 2;
  options.inquest_s = 2;
  options.check_every = how == "absent_checked" ? 1 : 0;
  nccl_double::Faults faults;
  if (how == "asynchronous_error") faults.error_operation = 3;
  if (how == "hang") faults.hang_operation = 3;
  if (is_1) nccl_double::set_faults(faults);
  const auto nccl = make_nccl_communicator(*host, nccl_place(session), options);
  Tensor x = Tensor::full({1000}, 1, DType::f32, cuda(nccl->device()));
  nccl->all_reduce(x, ReduceOp::sum, "warm up");  // number 2 of the double, after the start's own

  if (how == "well") {
    nccl->barrier("the end");
    return x.to_vector<float>()[0] == static_cast<float>(session.size()) ? 0 : 3;
  }
  if (how == "absent" || how == "absent_checked") {
    if (is_1) never_come();
  }
  if (how == "error_on_one") {
    nccl->set_timeout(60);  // nobody is to end by time
    if (is_1) throw Error("rank 1 is out of luck");
  }
  if (how == "killed" && is_1) std::raise(SIGKILL);
  nccl->all_reduce(x, ReduceOp::mean, "the last one");
  x.to_vector<float>();
  nccl->check();
  return 0;
}

}  // namespace
}  // namespace bora

int main(int argc, char** argv) {
  return bora::run_ranks(argc, argv, [&](bora::MpiSession& session) {
    return bora::end(session, argc > 1 ? argv[1] : "");
  });
}
