// SPDX-License-Identifier: Apache-2.0
// The trainer's loop on 1, 2 and 4 ranks, with a task whose every call the test sees: stops at each
// kind of moment (features 141, 167), other numbers of ranks (142), validation with fewer cases
// than ranks (136, 178), early stopping (146), the sums of an epoch.
#include <fstream>
#include <map>
#include <sstream>

#include "apps/train/parallel.hpp"
#include "tests/apps/loop_fixture.hpp"

namespace bora::train {
namespace {

// A signal to one rank at each kind of moment: all ranks save and leave, and the resumed run ends
// with the bits of the one that was never stopped.
TEST_F(Loop, AStopAtAnyMomentLosesNothing) {
  const std::string settings = "train.accumulate = 2\n";
  int losses = 0;
  const Result straight =
      train(config("straight", settings), *ranks,
            {.n_validation = 5, .hook = [&](Moment moment) { losses += moment == Moment::loss; }});
  ASSERT_TRUE(straight.done);
  struct Case {
    const char* name;
    Moment moment;
    int call;
  };
  // Calls are counted on the signalled rank, the last; `call` 0: while the task is made.
  for (const Case& c :
       {Case{"set-up", Moment::loss, 0}, Case{"first micro-step", Moment::loss, 1},
        Case{"between micro-steps", Moment::loss, 4}, Case{"validation", Moment::validate, 1},
        Case{"save", Moment::save, 2}, Case{"last update", Moment::loss, losses}}) {
    const RunConfig run = config(std::string("run ") + c.name, settings);
    int calls = 0;
    ToyOptions options;
    const bool signalled = ranks->rank() == (c.moment == Moment::save ? 0 : ranks->size() - 1);
    // Few cases: with four ranks the last has none to validate.
    options.n_validation = 5;
    options.hook = [&](Moment moment) {
      if (moment == Moment::loss) ::usleep(10'000);  // steps of a usual length
      if (signalled && moment == c.moment && ++calls == c.call) ::raise(SIGUSR1);
    };
    Result first;
    {
      Trainer trainer(
          [&] {
            if (signalled && c.call == 0) ::raise(SIGUSR1);
            return std::make_unique<ToyTask>(run, options);
          },
          run, *ranks);
      first.done = trainer.run();
      first.updates = trainer.updates();
    }
    EXPECT_EQ(signalled ? SIGUSR1 : 0, apps::stop_signal()) << c.name;
    apps::forget_stop_signal();
    EXPECT_FALSE(first.done) << c.name;
    EXPECT_GE(first.updates, 1) << c.name;  // a start always gets on
    if (ranks->size() == 1 && c.moment == Moment::loss && c.call <= 1) {
      EXPECT_EQ(1, first.updates) << c.name;
    }
    RunConfig again = run;
    again.resume = true;
    options.hook = {};
    const Result end = train(again, *ranks, options);
    EXPECT_TRUE(end.done) << c.name;
    EXPECT_EQ(straight.updates, end.updates) << c.name;
    EXPECT_EQ(straight.weights, end.weights) << c.name;
  }
}

// A signal on a rank whose part of the validation is short does not wait for the others' long part.
TEST_F(Loop, ALongValidationIsLeftByAllRanks) {
  ToyOptions options;
  options.n_training = 4;
  options.n_validation = 40 * ranks->size();
  int calls = 0;
  options.hook = [&](Moment moment) {
    if (moment != Moment::validate) return;
    if (ranks->rank() == ranks->size() - 1 && calls++ == 1) ::raise(SIGTERM);
    ::usleep(100'000);  // all of it: 4 s
  };
  const double begin_s = now_s();
  const Result r = train(config("long"), *ranks, options);
  EXPECT_FALSE(r.done);
  EXPECT_TRUE(r.position.validation_due);
  EXPECT_LT(now_s() - begin_s, 2.5);
}

// Long work before the first update is left too, by all ranks; and a resumed run does not repeat
// it.
TEST_F(Loop, ALongSetUpIsLeftByAllRanks) {
  int calls = 0;
  ToyOptions options;
  options.prepare = [&](Collective& group) {
    group.agree("statistics", [&] {
      for (int i = 0; i < 40; ++i, ++calls) {
        apps::leave_if_told("reading", 0.2);
        if (group.rank() == group.size() - 1 && i == 1) ::raise(SIGUSR1);
        if (group.rank() == group.size() - 1) ::usleep(100'000);
      }
    });
  };
  bool told = false;
  try {
    train(config("setup"), *ranks, options);
  } catch (const Error& e) {
    told = apps::left_when_told(e);
    EXPECT_THAT(e.what(), HasSubstr("still reading: no update was made"));
  }
  EXPECT_TRUE(told);
  EXPECT_FALSE(apps::left_when_told(Error("conv3d: something else")));
  if (ranks->rank() == ranks->size() - 1) {
    EXPECT_LT(calls, 20);
  }
  apps::forget_stop_signal();
  calls = 0;
  options.prepare = [&](Collective&) { ++calls; };
  train(config("begun", "train.max_updates = 1\n"), *ranks, options);
  EXPECT_EQ(1, calls);
  RunConfig again = config("begun", "train.max_updates = 2\n");
  again.resume = true;
  EXPECT_EQ(2, train(again, *ranks, options).updates);
  EXPECT_EQ(1, calls);
}

// The run's own time limit counts in a validation, too.
TEST_F(Loop, TheTimeLimitEndsAValidation) {
  ToyOptions options;
  options.n_training = 1;
  options.n_validation = 40 * ranks->size();
  options.hook = [&](Moment moment) {
    if (moment == Moment::validate) ::usleep(100'000);
  };
  const double begin_s = now_s();
  const Result r = train(config("limit", "train.max_hours = 0.0002\n"), *ranks, options);  // 0.7 s
  EXPECT_FALSE(r.done);
  EXPECT_LT(now_s() - begin_s, 3.0);
}

// An epoch that was saved long ago: told to stop between two epochs, the run saves where it is.
TEST_F(Loop, AStopBetweenSparseSavesIsSaved) {
  ToyOptions options;
  int validations = 0;
  options.n_validation = ranks->size();
  options.hook = [&](Moment moment) {
    if (moment == Moment::validate && ++validations == 2 && ranks->rank() == 0) ::raise(SIGUSR1);
  };
  const std::string settings = "output.checkpoint_epochs = 100\ntrain.epochs = 100\n";
  const Result first = train(config("sparse", settings), *ranks, options);
  ASSERT_FALSE(first.done);
  apps::forget_stop_signal();
  RunConfig again = config(
      "sparse", settings + "train.max_updates = " + std::to_string(first.updates + 1) + "\n");
  again.resume = true;
  Trainer trainer(task(again, {.n_validation = ranks->size()}), again, *ranks);
  EXPECT_EQ(first.updates, trainer.updates());
}

// Feature 142: a run goes on with 4, 2 and 1 ranks under the same settings; each sample of each
// epoch is used exactly once, and reproducible sums give the bits of the straight run.
TEST_F(Loop, OtherRanksGoOnWithTheSameGlobalBatch) {
  const std::string settings =
      "train.global_batch = 4\ncomm.all_reduce = 'reproducible'\ntrain.epochs = 3\n";
  const auto self = make_self_communicator();
  const std::string own = "straight" + std::to_string(ranks->rank());
  const Result straight = train(config(own, settings), *self, {.n_training = 13});
  const auto all_ranks = make_communicator(bora::testing::session(),
                                           communicator_options({.all_reduce = "reproducible"}));

  std::vector<std::string> used;
  const ToyOptions options{.n_training = 13, .used = &used};
  Result end;
  int64_t stop = 2;  // in the first epoch, of 4 updates
  for (int n = ranks->size(); n >= 1; n /= 2, stop += 3) {
    const auto group = all_ranks->split(ranks->rank() < n ? 0 : 1, ranks->rank());
    RunConfig run = config("moved", settings);
    run.resume = true;
    if (n > 1) run.train.max_updates = stop;
    if (ranks->rank() < n) end = train(run, *group, options);
    ranks->barrier("next number of ranks");
  }
  if (ranks->rank() == 0) {
    EXPECT_EQ(straight.weights, end.weights);
  }
  std::string mine;
  for (const std::string& name : used) mine += name + " ";
  std::map<std::string, int> times;
  for (const std::string& text : ranks->all_gather_text(mine, "names")) {
    std::istringstream in(text);
    for (std::string name; in >> name;) ++times[name];
  }
  EXPECT_EQ(13u, times.size());
  for (const auto& [name, n] : times) EXPECT_EQ(3, n) << name;
}

// Features 136, 178: the same loss for any number of ranks, threads and cases, bit for bit.
TEST_F(Loop, ValidationHasTheSameBitsWithMoreRanksThanCases) {
  const auto self = make_self_communicator();
  const auto all_ranks = make_communicator(bora::testing::session(),
                                           communicator_options({.all_reduce = "reproducible"}));
  const std::string settings =
      "train.global_batch = 4\ncomm.all_reduce = 'reproducible'\ntrain.epochs = 1\n";
  for (const int64_t n : {0, 1, 2, 3, 7}) {
    const std::string own = detail::join("own", n, "_", ranks->rank());
    const Result one =
        train(config(own, settings + "loader.threads = 0\n"), *self, {.n_validation = n});
    const Result all = train(config(detail::join("all", n), settings + "loader.threads = 3\n"),
                             *all_ranks, {.n_validation = n});
    EXPECT_EQ(one.position.best, all.position.best) << n;
    EXPECT_EQ(1, all.position.best_epoch);
  }
}

// Feature 50: the gradient of an epoch's smaller last window is the mean over the samples it
// holds: one sample in windows of four is one sample in windows of one.
TEST_F(Loop, ASmallerLastWindowIsTheMeanOverItsSamples) {
  const std::string settings =
      "optim.kind = 'sgd'\noptim.schedule = 'constant'\noptim.momentum = 0.0\noptim.clip = 0.0\n"
      "train.epochs = 2\n";
  const auto self = make_self_communicator();
  const Result one = train(config(detail::join("one", ranks->rank()), settings), *self,
                           {.n_training = 1}),
               four = train(config("four", settings + "train.accumulate = 4\n"), *ranks,
                            {.n_training = 1});
  ASSERT_EQ(2, one.updates);
  ASSERT_EQ(2, four.updates);
  ASSERT_EQ(one.weights.size(), four.weights.size());
  for (size_t i = 0; i < one.weights.size(); ++i)
    EXPECT_NEAR(one.weights[i], four.weights[i], 1e-6) << i;  // some roundings of weights below 1
}

// Feature 146: a run that early stopping has ended goes on with a longer patience, and only then.
TEST_F(Loop, AnEndedRunGoesOnWithMorePatience) {
  const auto run = [&](const std::string& patience, bool resume) {
    RunConfig c = config("early", "optim.lr = 0\ntrain.epochs = 50\ntrain.patience = " + patience);
    c.resume = resume;
    return train(c, *ranks);
  };
  EXPECT_EQ(3, run("2", false).position.data.epoch);
  EXPECT_EQ(3, run("2", true).position.data.epoch);
  EXPECT_EQ(6, run("5", true).position.data.epoch);
}

// Each epoch has one row in the log that says where its time went.
TEST_F(Loop, EachEpochIsSummedUp) {
  train(config("summed"), *ranks);
  ranks->barrier("written");
  std::ifstream in(folder + "/summed/metrics.jsonl");
  int rows = 0;
  for (std::string line; std::getline(in, line);) {
    if (line.find("\"kind\":\"epoch\"") == std::string::npos) continue;
    ++rows;
    for (const char* key : {"update", "epoch", "seconds", "compute_s", "data_wait_s", "comm_wait_s",
                            "validation_s", "save_s", "samples_per_s", "peak_memory_mb"})
      EXPECT_THAT(line, HasSubstr("\"" + std::string(key) + "\":"));
    EXPECT_THAT(line, HasSubstr("\"samples\":13,"));
  }
  EXPECT_EQ(4, rows);
}

TEST_F(Loop, AnEpochsSummaryJoinsTheRanks) {
  const double r = ranks->rank(), n = ranks->size();
  const EpochSummary s = join_epoch({.begin_s = now_s() - 100 - r,
                                     .steps_s = 50 + r,
                                     .data_wait_s = 3 + r,
                                     .train_data_wait_s = 2,
                                     .comm_wait_s = 1 + r,
                                     .validation_s = 20 - r,
                                     .save_s = 5,
                                     .samples = 7},
                                    cpu(), *ranks);
  EXPECT_NEAR(100 + n - 1, s.seconds, 2.0);
  EXPECT_DOUBLE_EQ(47, s.compute_s);
  EXPECT_DOUBLE_EQ(3 + n - 1, s.data_wait_s);
  EXPECT_DOUBLE_EQ(1 + (n - 1) / 2, s.comm_wait_s);
  EXPECT_DOUBLE_EQ(20, s.validation_s);
  EXPECT_DOUBLE_EQ(5, s.save_s);
  EXPECT_EQ(7 * ranks->size(), s.samples);
  EXPECT_DOUBLE_EQ(7 * n / (50 + n - 1), s.samples_per_s);
  EXPECT_GT(s.peak_memory_mb, 5);
  EXPECT_LT(s.peak_memory_mb, 1e5);
}

}  // namespace
}  // namespace bora::train
