// SPDX-License-Identifier: Apache-2.0
#include "data/checkpoint_saver.hpp"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <deque>
#include <mutex>
#include <optional>
#include <thread>

#include "core/log.hpp"
#include "core/profile.hpp"
#include "data/atomic_file.hpp"
#include "data/run_checkpoints.hpp"

namespace bora::data {
namespace {

constexpr double kSayWaitingEvery_s = 10;

/// While it lives no signal goes to this thread, nor to threads that it starts: those that ask the
/// program to stop are for others, and SIGXFSZ then leaves the failing write to say what happened.
class NoSignals {
 public:
  NoSignals() {
    sigset_t all;
    sigfillset(&all);
    for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT}) sigdelset(&all, fault);
    ::pthread_sigmask(SIG_BLOCK, &all, &before_);
  }
  ~NoSignals() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  NoSignals(const NoSignals&) = delete;
  NoSignals& operator=(const NoSignals&) = delete;

 private:
  sigset_t before_;
};

}  // namespace

struct CheckpointSaver::Shared {
  struct Job {
    std::unique_ptr<CheckpointWriter> writer;
    std::vector<std::string> names;
    int64_t ticket = 0;
  };

  explicit Shared(Options o) : options(std::move(o)), folder(options.folder, options.keep) {}

  const Options options;
  RunCheckpoints folder;  // the thread's
  std::mutex mutex;
  std::condition_variable changed;
  std::optional<Job> waiting;
  std::unique_ptr<CheckpointWriter> spare;  // its memory is used again
  const CheckpointWriter* writing = nullptr;
  std::string writing_name;
  bool leave = false;
  std::vector<Saved> saved;
  std::string error;  // all that went wrong and was not told yet
  std::atomic<bool> has_error{false};
  bool has_thrown = false;         // an error, and no save was asked for since
  std::atomic<int64_t> n_done{0};  // jobs and files: with the writer's, a measure of progress
  int64_t n_tickets = 0;
  std::thread thread;

  void run();
  void write(Job& job);
  void note(const std::string& message) {
    const std::lock_guard lock(mutex);
    error += (error.empty() ? "" : "; ") + message;
    has_error = true;
  }
  /// Caller holds the mutex.
  bool idle() const { return !waiting && writing == nullptr; }
  std::string busy_with() const {
    return writing != nullptr ? writing_name : waiting ? waiting->names.front() : "nothing";
  }
  int64_t progress() const { return n_done + (writing != nullptr ? writing->progress() : 0); }
  /// Waits until `ready`.  Gives why it gave up: nothing moved for limit_s, or options.hindered
  /// says so; empty where all is well.  Tells now and then that it waits.
  template <class Ready>
  std::string wait(std::unique_lock<std::mutex>& lock, double limit_s, Ready&& ready) {
    const double begin_s = now_s();
    double moved_s = begin_s, said_s = begin_s;
    int64_t seen = progress();
    while (!changed.wait_for(lock, std::chrono::milliseconds(200), ready)) {
      const double now = now_s();
      if (const int64_t p = progress(); p != seen) {
        seen = p;
        moved_s = now;
      }
      if (now - said_s >= kSayWaitingEvery_s) {
        said_s = now;
        log_info("waiting for ", options.folder, "/", busy_with(), " to be written, for ",
                 static_cast<int64_t>(now - begin_s), " s");
      }
      if (options.hindered)
        if (std::string why = options.hindered(); !why.empty()) return why;
      if (now - moved_s > limit_s)
        return bora::detail::join("the disk has taken nothing of ", busy_with(), " for ", limit_s,
                                  " s");
    }
    return {};
  }
  std::vector<Saved> take(std::unique_lock<std::mutex>&) {
    if (has_error) {
      has_error = false;
      has_thrown = true;
      throw Error(std::exchange(error, {}));
    }
    return std::exchange(saved, {});
  }
};

void CheckpointSaver::Shared::write(Job& job) {
  for (const std::string& name : job.names) {
    {
      const std::lock_guard lock(mutex);
      writing_name = name;
    }
    const double begin_s = now_s();
    try {
      if (options.may_write) options.may_write();
      folder.write(*job.writer, name);
      const std::lock_guard lock(mutex);
      saved.push_back({.name = name,
                       .ticket = job.ticket,
                       .write_s = now_s() - begin_s,
                       .bytes = job.writer->bytes()});
    } catch (const std::exception& e) {
      note(e.what());
    } catch (...) {
      note("saving checkpoint '" + name + "': an exception of unknown type");
    }
    ++n_done;
  }
}

void CheckpointSaver::Shared::run() {
  std::unique_lock lock(mutex);
  while (true) {
    changed.wait(lock, [&] { return leave || waiting; });
    if (!waiting) return;  // told to leave, and nothing is left
    Job job = std::move(*waiting);
    waiting.reset();
    writing = job.writer.get();
    changed.notify_all();  // there is room again
    lock.unlock();
    write(job);
    job.writer->clear();
    lock.lock();
    writing = nullptr;
    if (!spare) spare = std::move(job.writer);
    ++n_done;
    changed.notify_all();
  }
}

CheckpointSaver::CheckpointSaver(Options options)
    : shared_(std::make_shared<Shared>(std::move(options))) {
  const Options& o = shared_->options;
  BORA_CHECK(!o.folder.empty() && o.keep >= 0 && o.patience_s > 0,
             "CheckpointSaver: wants a folder, keep >= 0 and patience_s > 0, got '", o.folder,
             "', ", o.keep, ", ", o.patience_s);
  shared_->folder.remove_rubbish();
}

CheckpointSaver::~CheckpointSaver() {
  Shared& s = *shared_;
  if (!s.thread.joinable()) return;
  std::unique_lock lock(s.mutex);
  s.leave = true;
  s.changed.notify_all();
  const std::string why = s.wait(lock, s.options.patience_s / 10, [&] { return s.idle(); });
  const bool done = why.empty();
  if (!done)
    log_error("giving up on ", s.options.folder, "/", s.busy_with(), ": ", why,
              "; the files before it remain");
  if (s.has_error) {  // of saves that waited behind the one whose error was thrown: no second cause
    if (s.has_thrown)
      log_warn("the next one, too: ", s.error);
    else
      log_error(s.error);
  }
  lock.unlock();
  // A thread that hangs in the file system keeps what it works on.
  done ? s.thread.join() : s.thread.detach();
}

int64_t CheckpointSaver::save(const std::vector<std::string>& names, const StateFunction& state) {
  BORA_CHECK(state && !names.empty(),
             "CheckpointSaver: wants names and a function that visits the state");
  for (const std::string& name : names) shared_->folder.check_name(name);
  Shared& s = *shared_;
  std::unique_ptr<CheckpointWriter> writer;
  {
    std::unique_lock lock(s.mutex);
    if (s.has_error) s.take(lock);
    s.has_thrown = false;  // the caller goes on
    const auto has_all = [&](const Shared::Job& old) {
      return std::all_of(old.names.begin(), old.names.end(), [&](const std::string& name) {
        return std::find(names.begin(), names.end(), name) != names.end();
      });
    };
    if (s.waiting && has_all(*s.waiting)) {
      for (const std::string& name : s.waiting->names)
        s.saved.push_back({.name = name, .ticket = s.waiting->ticket, .replaced = true});
      writer = std::move(s.waiting->writer);
      s.waiting.reset();
    }
    const std::string why = s.wait(lock, s.options.patience_s, [&] { return !s.waiting; });
    BORA_CHECK(why.empty(), "saving in ", s.options.folder, ": ", why);
    if (!writer) writer = std::move(s.spare);
  }
  if (!writer) writer = std::make_unique<CheckpointWriter>();
  writer->clear();
  state(*writer);
  const std::lock_guard lock(s.mutex);
  s.waiting = Shared::Job{std::move(writer), names, ++s.n_tickets};
  if (!s.thread.joinable()) {
    const NoSignals none;
    s.thread = std::thread([shared = shared_] { shared->run(); });
  }
  s.changed.notify_all();
  return s.n_tickets;
}

bool CheckpointSaver::failed() const noexcept { return shared_->has_error; }

bool CheckpointSaver::behind() const {
  const std::lock_guard lock(shared_->mutex);
  return shared_->waiting.has_value();
}

std::vector<CheckpointSaver::Saved> CheckpointSaver::poll() {
  std::unique_lock lock(shared_->mutex);
  return shared_->take(lock);
}

std::vector<CheckpointSaver::Saved> CheckpointSaver::finish() {
  Shared& s = *shared_;
  std::unique_lock lock(s.mutex);
  const std::string why = s.wait(lock, s.options.patience_s, [&] { return s.idle(); });
  BORA_CHECK(why.empty(), "saving in ", s.options.folder, ": ", why);
  return s.take(lock);
}

}  // namespace bora::data
