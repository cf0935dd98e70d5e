// SPDX-License-Identifier: Apache-2.0
#include "apps/train/run_saves.hpp"

#include <algorithm>
#include <limits>

#include "apps/common/text.hpp"
#include "core/profile.hpp"
#include "data/hdf5_lock.hpp"
#include "data/run_checkpoints.hpp"

namespace bora::train {

namespace {

constexpr double kLookEvery_s = 10;

/// What went wrong, and that it is not the end of the world where files came before.
template <class Body>
decltype(auto) with_consolation(const std::string& folder, Body&& body) {
  try {
    return body();
  } catch (const Error& e) {
    throw Error(std::string(e.what()) +
                (data::checkpoints_in(folder).empty()
                     ? "; no checkpoint was written before it"
                     : "; the files before it remain, and the same command with --resume goes on "
                       "from them"));
  }
}

/// Names a file whose read has HDF5's lock for longer than limit_s (0: never); else nothing.
std::string hanging_read(double limit_s) {
  if (limit_s <= 0) return {};
  const data::hdf5::LockHeld held = data::hdf5::lock_held();
  if (held.seconds < limit_s) return {};
  return detail::join("HDF5 is kept from writing by a read of '", held.file, "' that has taken ",
                      apps::brief(held.seconds), " s, longer than loader.timeout_s = ", limit_s,
                      ". Is the file system that it lies on still there?");
}

}  // namespace

RunSaves::RunSaves(const OutputConfig& output, std::function<void()> may_write, double read_limit_s)
    : every_s_(output.checkpoint_minutes > 0 ? 60 * output.checkpoint_minutes
                                             : std::numeric_limits<double>::infinity()),
      may_write_(std::move(may_write)),
      looked_s_(now_s()),
      last_s_(now_s()),
      folder_(output.dir),
      saver_({.folder = output.dir,
              .keep = output.keep,
              .may_write = may_write_,
              .hindered = [read_limit_s] { return hanging_read(read_limit_s); }}) {}

void RunSaves::save(const std::vector<std::string>& names, const data::StateFunction& state,
                    Point point, double begin_s) {
  const int64_t ticket = with_consolation(folder_, [&] { return saver_.save(names, state); });
  const double end_s = now_s();
  // best.h5 is no file to go on from: the clock of those goes on.
  if (std::find(names.begin(), names.end(), data::kLastCheckpoint) != names.end()) last_s_ = end_s;
  saves_[ticket] = {point, end_s - begin_s, names.size()};
  wait_s_ += end_s - begin_s;
  ++n_saves_;
}

bool RunSaves::needs_meeting() const {
  return saver_.failed() || now_s() - last_s_ >= every_s_ || would_fail();
}

// Rows of the log are written between saves, too: not for long into another run's.
bool RunSaves::would_fail() const {
  if (!may_write_ || now_s() - looked_s_ < kLookEvery_s) return false;
  looked_s_ = now_s();
  try {
    may_write_();
  } catch (const Error&) {
    return true;  // the save says why
  }
  return false;
}

void RunSaves::report(data::JsonlWriter& log, double run_begin_s) {
  write_rows(with_consolation(folder_, [&] { return saver_.poll(); }), log, run_begin_s);
}

void RunSaves::finish(data::JsonlWriter& log, double run_begin_s) {
  const double begin_s = now_s();
  const auto saved = with_consolation(folder_, [&] { return saver_.finish(); });
  wait_s_ += now_s() - begin_s;
  write_rows(saved, log, run_begin_s);
}

void RunSaves::write_rows(const std::vector<data::CheckpointSaver::Saved>& saved,
                          data::JsonlWriter& log, double run_begin_s) {
  for (const data::CheckpointSaver::Saved& file : saved) {
    Save& save = saves_.at(file.ticket);
    log.write({{"kind", std::string("checkpoint")},
               {"update", save.point.update},
               {"epoch", save.point.epoch},
               {"file", file.name},
               {"save_s", save.wait_s},
               {"write_s", file.write_s},
               {"bytes", file.bytes},
               {"skipped", file.replaced},
               {"seconds", now_s() - run_begin_s}});
    if (--save.n_files == 0) saves_.erase(file.ticket);
    write_s_ += file.write_s;
    ++(file.replaced ? n_skipped_ : n_files_);
  }
}

std::string RunSaves::summary(double run_s) const {
  if (n_saves_ == 0) return {};
  return detail::join(n_saves_, n_saves_ == 1 ? " save: " : " saves: ", "training waited ",
                      apps::brief(wait_s_), " s for them, ", apps::brief(100 * wait_s_ / run_s),
                      " % of the run; their ", n_files_, n_files_ == 1 ? " file" : " files",
                      " took a thread ", apps::brief(write_s_), " s",
                      n_skipped_ > 0 ? detail::join("; ", n_skipped_,
                                                    " came too soon after others "
                                                    "and were left out")
                                     : std::string());
}

}  // namespace bora::train
