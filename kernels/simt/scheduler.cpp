// SPDX-License-Identifier: Apache-2.0
#include "kernels/simt/scheduler.hpp"

#include <algorithm>
#include <bit>
#include <exception>
#include <memory>
#include <numeric>
#include <random>
#include <vector>

#include "core/error.hpp"
#include "kernels/simt/block.hpp"
#include "kernels/simt/fiber.hpp"
#include "kernels/simt/stacks.hpp"

namespace bora::simt::detail {
namespace {

/// Thrown into threads that wait when their launch has failed, so that their stacks unwind.
struct Cancelled {};

/// A fiber and what it is for: runs threads from their beginning, one after another, until one
/// waits.
struct Worker {
  Context context;
  unsigned thread = 0;  // the one it runs, or begins when it is switched to
  Stack stack;
};

/// The state of the OS thread's launch.
class Machine {
 public:
  void run_grid(const Launch& launch, const std::function<void()>& body, Schedule schedule);
  void barrier(const std::source_location& where);
  uint64_t meet_lanes(WarpOp op, unsigned mask, uint64_t value, unsigned source,
                      const std::source_location& where);
  unsigned lane() const { return block_.thread % 32; }
  void* dynamic_shared() const { return shared_.get(); }
  static void worker_entry();

 private:
  void run_block(uint3 index);
  void run_thread(unsigned t);
  /// The calling thread waits (its state is set): others go on until it may, too.
  void wait();
  /// Switches from `self` to the fiber that is to run `t`.
  void go_to(Context& self, unsigned t);
  void fail(std::exception_ptr error) {
    if (!error_) error_ = std::move(error);
    block_.cancel();
  }
  Worker* free_worker();

  bool active_ = false;
  const std::function<void()>* body_ = nullptr;
  Block block_;
  std::exception_ptr error_;
  std::unique_ptr<unsigned char[]> shared_;
  Context main_;
  std::vector<std::unique_ptr<Worker>> workers_;
  std::vector<Worker*> free_;
  std::vector<Worker*> worker_of_;  // of threads that wait
  Worker* running_ = nullptr;
};

// Not destroyed with the thread before kernels of other destructors could run: it holds stacks
// only.
Machine& machine() {
  static thread_local Machine instance;
  return instance;
}

Worker* Machine::free_worker() {
  if (free_.empty()) {
    auto worker = std::make_unique<Worker>();
    worker->stack = Stack(workers_.size());
    prepare_fiber(worker->context, worker->stack.bottom(), worker->stack.bytes(), &worker_entry);
    free_.push_back(worker.get());
    workers_.push_back(std::move(worker));
  }
  Worker* const worker = free_.back();
  free_.pop_back();
  return worker;
}

void Machine::go_to(Context& self, unsigned t) {
  Worker* const next = block_.fresh(t) ? free_worker() : worker_of_[t];
  next->thread = t;
  running_ = next;
  switch_context(self, next->context);
}

void Machine::run_thread(unsigned t) {
  block_.begin(t);
  try {
    (*body_)();
  } catch (const Cancelled&) {
  } catch (const Error& e) {
    fail(std::make_exception_ptr(Error(block_.name_of(t) + ": " + e.what())));
  } catch (...) {
    fail(std::current_exception());
  }
  block_.end(t);
}

void Machine::worker_entry() {
  fiber_began();
  Machine& m = machine();
  Worker& self = *m.running_;
  for (;;) {
    m.run_thread(self.thread);
    unsigned next = 0;
    bool more = false;
    try {
      more = m.block_.pick(next);
    } catch (const Error&) {
      m.fail(std::current_exception());
      more = m.block_.pick(next);  // of the cancelled
    }
    if (more && m.block_.fresh(next)) {
      self.thread = next;
      continue;
    }
    m.free_.push_back(&self);
    if (more)
      m.go_to(self.context, next);
    else
      switch_context(self.context, m.main_);
  }
}

void Machine::wait() {
  const unsigned t = block_.thread;
  Worker& self = *running_;
  worker_of_[t] = &self;
  unsigned next = 0;
  try {
    block_.pick(next);  // there is one: this thread waits, so the block is not done
  } catch (const Error&) {
    fail(std::current_exception());
    block_.pick(next);
  }
  if (next != t) go_to(self.context, next);
  block_.resume(t);
  if (block_.cancelled()) throw Cancelled();
}

void Machine::barrier(const std::source_location& where) {
  BORA_CHECK(active_, "__syncthreads outside a kernel");
  block_.wait_at_barrier(where);
  wait();
}

uint64_t Machine::meet_lanes(WarpOp op, unsigned mask, uint64_t value, unsigned source,
                             const std::source_location& where) {
  BORA_CHECK(active_, "a warp operation outside a kernel");
  block_.wait_for_lanes(op, mask, value, source, where);
  const unsigned t = block_.thread;
  wait();
  return block_.result(t);
}

void Machine::run_block(uint3 index) {
  block_.reset(index);
  unsigned first = 0;
  block_.pick(first);
  go_to(main_, first);
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
}

void Machine::run_grid(const Launch& launch, const std::function<void()>& body, Schedule schedule) {
  const dim3 grid = launch.grid;
  const size_t shared_bytes = launch.shared_bytes;
  BORA_CHECK(!active_, launch.what, ": launched from inside a kernel");
  active_ = true;
  struct Restore {
    Machine& m;
    ~Restore() {
      m.active_ = false;
      m.shared_.reset();
    }
  } restore{*this};
  if (main_.stack_bytes == 0) describe_thread_stack(main_);
  body_ = &body;
  gridDim = grid;
  blockDim = launch.block;
  block_.configure(launch.what, launch.block, schedule);
  worker_of_.resize(std::max<size_t>(worker_of_.size(), block_.n_threads()));
  // Of exactly that size, so that AddressSanitizer sees an access behind it.
  if (shared_bytes > 0) shared_ = std::make_unique_for_overwrite<unsigned char[]>(shared_bytes);
  const uint64_t n_blocks = uint64_t{grid.x} * grid.y * grid.z;
  std::vector<uint64_t> order;
  if (schedule.kind == ScheduleKind::shuffled) {
    order.resize(n_blocks);
    std::iota(order.begin(), order.end(), uint64_t{0});
    std::shuffle(order.begin(), order.end(), std::mt19937_64(schedule.seed));
  }
  for (uint64_t i = 0; i < n_blocks; ++i) {
    const uint64_t b = schedule.kind == ScheduleKind::forward    ? i
                       : schedule.kind == ScheduleKind::backward ? n_blocks - 1 - i
                                                                 : order[i];
    // What memory holds before a kernel writes it: NaN for any floating type.
    if (shared_bytes > 0) std::fill_n(shared_.get(), shared_bytes, uint8_t{0xff});
    launch.static_shared->poison();
    run_block({static_cast<unsigned>(b % grid.x), static_cast<unsigned>(b / grid.x % grid.y),
               static_cast<unsigned>(b / grid.x / grid.y)});
  }
}

}  // namespace

void run_grid(const Launch& launch, const std::function<void()>& thread_body, Schedule schedule) {
  machine().run_grid(launch, thread_body, schedule);
}

void barrier(const std::source_location& where) { machine().barrier(where); }
uint64_t meet_lanes(WarpOp op, unsigned mask, uint64_t value, unsigned source,
                    const std::source_location& where) {
  return machine().meet_lanes(op, mask, value, source, where);
}
unsigned lane() { return machine().lane(); }
void* dynamic_shared() { return machine().dynamic_shared(); }

void check_launch(const Launch& launch) {
  // CUDA programming guide, technical specifications, compute capability 9.0.
  constexpr size_t kMaxShared = 227 * 1024, kMaxStatic = 48 * 1024;
  const auto text = [](dim3 d) { return bora::detail::join('(', d.x, ", ", d.y, ", ", d.z, ')'); };
  const char* const what = launch.what;
  const dim3 grid = launch.grid, block = launch.block;
  const uint64_t n_threads = uint64_t{block.x} * block.y * block.z;
  BORA_CHECK(n_threads >= 1 && n_threads <= 1024 && block.z <= 64, what, ": a block of ",
             text(block), " has ", n_threads, " threads, wanted 1 to 1024, at most 64 along z");
  BORA_CHECK(grid.x >= 1 && grid.y >= 1 && grid.z >= 1 && grid.x <= 0x7fffffffu &&
                 grid.y <= 65535 && grid.z <= 65535,
             what, ": a grid of ", text(grid),
             ", wanted 1 to 2^31 - 1 blocks along x, 1 to 65535 along y and z");
  const size_t fixed = launch.static_shared->bytes();
  BORA_CHECK(fixed <= kMaxStatic, what, ": ", fixed,
             " bytes of static shared memory, a kernel has at most ", kMaxStatic);
  BORA_CHECK(launch.shared_bytes + fixed <= kMaxShared, what, ": ", launch.shared_bytes,
             " bytes of dynamic shared memory and ", fixed, " of static, a block has at most ",
             kMaxShared);
}

}  // namespace bora::simt::detail
