// SPDX-License-Identifier: Apache-2.0
// What ends a run, or keeps it from going on, on 1, 2 and 4 ranks: NaN and inf (features 127, 184),
// a case that fails, another number of samples an update (142).
#include "apps/train/global_batch.hpp"
#include "tests/apps/loop_fixture.hpp"

namespace bora::train {
namespace {

TEST_F(Loop, AnotherNumberOfSamplesAnUpdateIsRefused) {
  const int n = ranks->size();
  train(config("kept", "train.max_updates = 1\ntrain.accumulate = 2\n"), *ranks);
  // As many updates an epoch (13 samples), but others.
  RunConfig other = config("kept", n == 4 ? "train.accumulate = 3\n" : "train.accumulate = 1\n");
  other.resume = true;
  EXPECT_THAT(message_of([&] { train(other, *ranks); }),
              HasSubstr(detail::join("--train.global_batch=", 2 * n,
                                     " instead of train.accumulate keeps it (1, 2")));
  RunConfig same = config("kept", detail::join("train.global_batch = ", 2 * n, "\n"));
  same.resume = true;
  EXPECT_TRUE(train(same, *ranks).done);
}

TEST(GlobalBatch, SaysWhichNumbersOfRanksFit) {
  TrainConfig c;
  c.batch = 2;
  c.global_batch = 24;
  EXPECT_EQ(12, accumulate_of(c, 1));
  EXPECT_EQ(3, accumulate_of(c, 4));
  EXPECT_EQ(24, samples_of_an_update(c, 4));
  EXPECT_THAT(message_of([&] { accumulate_of(c, 5); }),
              HasSubstr("24 is no multiple of 2 x 5 = 10; with this batch it can be shared by "
                        "1, 2, 3, 4, 6, 12 ranks"));
  c.global_batch = 25;
  EXPECT_THAT(message_of([&] { accumulate_of(c, 1); }), HasSubstr("a multiple of train.batch"));
  c = {.accumulate = 2, .global_batch = 4};
  EXPECT_THAT(message_of([&] { accumulate_of(c, 1); }), HasSubstr("leave train.accumulate out"));
}

// Feature 184: a NaN that one rank alone meets, behind statistics that all ranks share.  All ranks
// look for the cause together, and say the same.
TEST_F(Loop, ANanOfOneRankIsFoundByAllWithSharedStatistics) {
  for (const nn::NormKind norm : {nn::NormKind::sync_batch, nn::NormKind::group}) {
    const double begin_s = now_s();
    const std::string text = message_of([&] {
      train(config(norm == nn::NormKind::group ? "group" : "sync", "train.batch = 2\n"), *ranks,
            {.norm = norm, .bad_training = 3});
    });
    EXPECT_LT(now_s() - begin_s, 10.0);
    EXPECT_THAT(text, HasSubstr("gradient values are NaN or inf"));
    EXPECT_THAT(text, HasSubstr("the first in the gradient of '"));
    EXPECT_THAT(text, HasSubstr("in the forward pass the first was op "));
    EXPECT_EQ(ranks->size() > 1, text.find(" on rank ") != std::string::npos) << text;
    const std::vector<std::string> all = ranks->all_gather_text(text, "messages");
    for (const std::string& other : all) EXPECT_EQ(text, other);
  }
}

// The advice is true: it names a checkpoint only where there is one.
TEST_F(Loop, AdviceAfterANanKnowsWhetherThereIsACheckpoint) {
  const auto text_of = [&](const std::string& name, const std::string& more, bool resume,
                           const ToyOptions& options) {
    RunConfig run = config(name, more);
    run.resume = resume;
    return message_of([&] { train(run, *ranks, options); });
  };
  EXPECT_THAT(text_of("none", "", false, {.bad_training = 3}),
              HasSubstr("No checkpoint was written yet"));
  EXPECT_EQ("no error", text_of("some", "train.max_updates = 1\n", false, {}));
  EXPECT_THAT(text_of("some", "", true, {.bad_training = 3}),
              HasSubstr("Resume from the last checkpoint (" + folder + "/some, after update 1)"));
  // In f16, where no smaller loss scale is left.
  EXPECT_THAT(
      text_of("half", "precision = 'fp16'\nscaler.initial = 1\n", false, {.bad_training = 3}),
      HasSubstr("at the lowest loss scale"));
  // A validation names the case.
  const std::string text = text_of("validation", "", false, {.bad_validation = 1});
  EXPECT_THAT(text, HasSubstr("validation case 'v1': its loss is nan"));
  EXPECT_THAT(text, HasSubstr("in the forward pass the first was op "));
}

// A validation case that cannot be read ends all ranks at once, with its name.
TEST_F(Loop, AFailedValidationCaseEndsAllRanksSoon) {
  ToyOptions options;
  options.n_training = 4;
  options.n_validation = 40 * ranks->size();
  int calls = 0;
  options.hook = [&](Moment moment) {
    if (moment != Moment::validate) return;
    if (ranks->rank() == ranks->size() - 1 && ++calls == 2) BORA_FAIL("this case is damaged");
    ::usleep(100'000);
  };
  const double begin_s = now_s();
  EXPECT_THAT(message_of([&] { train(config("damaged"), *ranks, options); }),
              HasSubstr("this case is damaged"));
  EXPECT_LT(now_s() - begin_s, 2.5);
}

}  // namespace
}  // namespace bora::train
