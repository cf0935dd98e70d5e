// SPDX-License-Identifier: Apache-2.0
// run(): the whole main() of a program that trains.
#pragma once

#include <concepts>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "apps/train/config.hpp"
#include "apps/train/task.hpp"
#include "comm/session.hpp"
#include "core/collective.hpp"
#include "core/config.hpp"

namespace bora::train {

/// Makes the task of this rank: called on all ranks, which may work together in it (a collective
/// reading of files, say); most tasks need no `ranks`.
using MakeTaskForRanks = std::function<std::unique_ptr<Task>(Collective& ranks)>;

/// What run_task() does: a run, or a look at it (dry_run.hpp): checks, the plan and a forecast of
/// memory, printed; nothing is written.
enum class RunMode { train, dry };

/// Takes the switch "--dry-run" out of the arguments, up to "--"; whether it was there.  It is no
/// setting: no part of the run that the settings describe.
RunMode take_dry_run(std::vector<std::string>& args);

/// One training run in a session: threads, the group of ranks (settings that differ between them
/// are an error), the device, then a Trainer.  `settings`: all of them as text, for the comparison.
/// Returns the program's exit code: 0, or train.stop_code after a signal or train.max_hours; of a
/// dry run 0, or 2 where the run does not fit into memory.
/// Collective; throws what Trainer does.
int run_task(Session& session, const RunConfig& config, const std::string& settings,
             const MakeTaskForRanks& make_task, RunMode mode = RunMode::train);

namespace impl {
/// parse(program, args): reads the settings, returns --help's text or nothing; train: the rest.
int run_program(
    int argc, char** argv,
    const std::function<std::string(const std::string&, const std::vector<std::string>&)>& parse,
    const std::function<int(Session&, RunMode)>& train);
}  // namespace impl

/// The main() of a program that trains: on one rank when started alone, on N under mpirun, srun or
/// bora_launch.  C: its settings, a struct derived from RunConfig with fields() of its own; each is
/// a flag, a key of the file that --config names, and a line of --help.  `about`: a sentence or two
/// for --help.  make_task(const C&) or make_task(const C&, Collective& ranks) gives this rank's
/// task.  Signals that a batch system sends before it ends a job are caught from here on.
///
/// Returns the exit code, the same on all ranks: 0; train.stop_code where the run saved and left
/// early; 2 for a mistake of the user; 1 for any other error, which is printed once.
template <std::derived_from<RunConfig> C, class MakeTask>
int run(int argc, char** argv, const std::string& about, MakeTask&& make_task) {
  C config;
  return impl::run_program(
      argc, argv,
      [&](const std::string& program, const std::vector<std::string>& args) {
        return config_parse_args(config, program, args, {.about = about, .positionals = {}}).help;
      },
      [&](Session& session, RunMode mode) {
        return run_task(
            session, config, config_text(config),
            [&](Collective& ranks) -> std::unique_ptr<Task> {
              if constexpr (std::invocable<MakeTask&, const C&, Collective&>)
                return make_task(config, ranks);
              else
                return static_cast<void>(ranks), make_task(config);
            },
            mode);
      });
}

}  // namespace bora::train
