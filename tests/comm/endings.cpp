// SPDX-License-Identifier: Apache-2.0
// A program that ends in the way its argument says; endings_test.sh looks at how it ended.
#include "comm/communicator.hpp"
#include "comm/operation_queue.hpp"
#include "comm/watchdog.hpp"
#include "core/crash_note.hpp"

#include <csignal>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <thread>

namespace bora {
namespace {

void sleep_s(double seconds) {
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
}

// Longer than any test waits: who sleeps this long was not ended by the others.
void never_come() { std::this_thread::sleep_for(std::chrono::seconds(120)); }

// Feature rows 75 and 154: a library crashes on a file, in a thread of the program's.
void crash_reading(const std::string& how) {
  const std::string file = "/data/case 7.nc", part = file + ":/wind_speed";
  std::thread reader([&] {
    const CrashNote outer(file);
    {
      const CrashNote inner(part);
      if (how == "abort") std::abort();  // the heap is damaged
      if (how == "bus") std::raise(SIGBUS);
      if (how == "segv") *static_cast<volatile char*>(nullptr) = 1;
    }
    volatile int zero = 0;
    if (how == "fpe") zero = 7 / zero;  // 1 / x is no division to the compiler
  });
  reader.join();
  const CrashNote ended(file);
}

// Feature row 154: one rank is dead, stopped, stuck, busy or elsewhere; all learn of it.
void end_by_failure(Collective& comm, const std::string& how) {
  const bool is_1 = comm.rank() == 1;
  Tensor big = Tensor::full({1'000'000}, 1.0, DType::f32);
  if (how == "killed_inside") {
    // Rank 2 keeps the others waiting inside the operation in which rank 1 dies.
    if (comm.rank() == 2) never_come();
    std::thread killer([&] {
      sleep_s(0.5);
      if (is_1) std::raise(SIGKILL);
    });
    killer.detach();
    comm.all_reduce(big, ReduceOp::sum, "a rank dies in it");
  }
  if (how == "stopped") {
    set_timeout(comm, 5.0);  // longer than it takes to notice that a process does not run
    if (is_1) std::raise(SIGSTOP);
    comm.all_reduce(big, ReduceOp::sum, "the last one");
  }
  if (how == "busy_while_work_fails") {
    set_timeout(comm, 1.0);
    if (is_1) never_come();
    const Work work = comm.all_reduce_async(big, ReduceOp::sum, "bucket 0");
    never_come();  // nobody looks at the work
  }
  if (how == "stuck_in_a_call") {
    if (!is_1) never_come();
    const WatchedCall call("MPI_Something", 1.0, "that never returns");
    never_come();
  }
  if (how == "stuck_in_an_operation") {
    // As if MPI did not return: the thread is gone, and the program waits for it in vain.
    if (!is_1) comm.barrier("the others wait");
    const auto heartbeat = std::make_shared<Heartbeat>();
    heartbeat->limit_s = 1.0;
    OperationQueue queue([](Operation&) { never_come(); }, /*threaded=*/true, heartbeat);
    const auto operation = std::make_shared<Operation>();
    operation->label = "never back";
    queue.submit(operation);
    operation->wait();  // throws; then the queue waits for its thread
  }
  if (how == "other_operation") {
    comm.all_reduce(big, ReduceOp::sum, "bucket 1");
    if (is_1) return comm.barrier("epoch end");
    comm.all_reduce(big, ReduceOp::sum, "bucket 2");
  }
  if (how == "message_never_sent") {
    // The others wait longer, so that this rank's message is the one that is printed.
    set_timeout(comm, comm.rank() == 0 ? 1.0 : 20.0);
    if (comm.rank() == 0) comm.receive(big, 1, "halo");
    if (is_1) never_come();
    comm.barrier("the others wait");
  }
  if (how == "absent_from_part") {
    const auto part = comm.split(comm.rank() % 2, 0);
    set_timeout(*part, 1.0);
    if (comm.rank() == 3) never_come();
    part->all_reduce(big, ReduceOp::sum, "in a part");
    comm.barrier("the other part waits");
  }
}

// The same where nothing is wrong in the end.
bool end_well_after_all(Collective& comm, const std::string& how) {
  if (how == "late") {
    if (comm.rank() == 1) sleep_s(2);
  } else if (how == "long_section_on_one" || how == "long_section_too_long") {
    set_timeout(comm, 1.0);
    if (comm.rank() == 1) {
      const LongSection section("saving", how == "long_section_on_one" ? 60 : 2);
      sleep_s(how == "long_section_on_one" ? 4 : 120);
    }
  } else if (how == "long_section_on_all") {
    set_timeout(comm, 1.0);
    const LongSection section("validating", 60);
    if (comm.rank() == 1) sleep_s(4);
    comm.barrier("validated");
  } else if (how == "record_on_request") {
    std::raise(SIGUSR2);
    sleep_s(2);
  } else {
    return false;
  }
  comm.barrier("the end");
  return true;
}

int end(const MpiSession& session, const std::string& how) {
  CommunicatorOptions options;
  options.timeout_s = 60;
  if (how.ends_with("absent_from_start")) options.first_timeout_s = 1;
  const bool is_1 = session.rank() == 1;
  if (how == "absent_from_start" && is_1) never_come();
  if (how == "dead_before_start" && is_1) throw Error("rank 1 has no heart");
  if (how == "never_joins") {  // row 182
    if (is_1) return 0;
    options.first_timeout_s = 1;
  }
  if (how.ends_with("_inline")) options.threaded = false;
  if (how == "long_section_on_all") options.ranks_per_host = 1;  // nobody sees anybody
  const auto comm = make_communicator(session, options);
  Tensor big = Tensor::full({1'000'000}, 1.0, DType::f32);
  comm->all_reduce(big, ReduceOp::sum, "warm up");

  if (how == "well") {
    std::cout << "rank " << comm->rank() << " of " << comm->size() << " is done\n";
    return 0;
  }
  if (how == "code_3") return 3;
  if (end_well_after_all(*comm, how)) return 0;
  end_by_failure(*comm, how);
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
  const std::string crash = "crash_reading_";
  if (how.starts_with(crash)) {
    if (is_1 || comm->size() == 1) crash_reading(how.substr(crash.size()));
    comm->barrier("the others wait");
  }
  if (how == "crash_outside") {
    crash_reading("not");
    if (is_1 || comm->size() == 1) std::raise(SIGSEGV);
    comm->barrier("the others wait");
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
  // Row 182: a process of the launcher's that never becomes a rank.
  const std::string how = argc > 1 ? argv[1] : "";
  const char* rank = std::getenv("OMPI_COMM_WORLD_RANK");
  if (rank != nullptr && std::string(rank) == "1") {
    if (how == "leaves_before_start") return 0;
    if (how == "sleeps_before_start") bora::never_come();
  }
  return bora::run_ranks(argc, argv,
                         [&](bora::MpiSession& session) { return bora::end(session, how); });
}
