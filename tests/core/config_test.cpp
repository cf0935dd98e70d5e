// SPDX-License-Identifier: Apache-2.0
// Keys, files, text and round trips (features.md 148).  The command line is in
// config_args_test.cpp.
#include "core/config.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>

#include "tests/core/config_sample.hpp"

namespace bora {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::ThrowsMessage;

// The message of the UsageError that loading `text` gives.
std::string load_error(const std::string& text) {
  SampleConfig c;
  const std::string before = config_text(c);
  try {
    config_load_text(c, text, "run.toml");
  } catch (const UsageError& e) {
    EXPECT_EQ(config_text(c), before) << "a failed load changed the config";
    return e.what();
  }
  return "(no error)";
}

TEST(Config, KeysAreDottedInOrder) {
  EXPECT_THAT(config_keys(SampleConfig{}),
              ElementsAre("name", "optim.lr", "optim.kind", "optim.sched.warmup",
                          "optim.sched.shape", "optim.nesterov", "epochs", "steps", "seed", "eps",
                          "amp", "widths", "weights", "paths", "patch"));
}

TEST(Config, FileSetsWhatItNamesAndLeavesTheRest) {
  SampleConfig c;
  config_load_text(c, R"(
epochs = 7
seed = 0x10          # TOML's own number forms
steps = 1_000_000
eps = 1              # an integer is a number
amp = true
widths = [8, 16]
weights = [0.5, 1]
paths = ["a,b", "c"]
patch = [64, 32, 16]
[optim]
lr = 3e-4
kind = "sgd"
sched.warmup = 5
)",
                   "run.toml");
  EXPECT_EQ(c.epochs, 7);
  EXPECT_EQ(c.seed, 16u);
  EXPECT_EQ(c.steps, 1000000);
  EXPECT_EQ(c.eps, 1.0);
  EXPECT_TRUE(c.amp);
  EXPECT_THAT(c.widths, ElementsAre(8, 16));
  EXPECT_THAT(c.weights, ElementsAre(0.5, 1));
  EXPECT_THAT(c.paths, ElementsAre("a,b", "c"));
  EXPECT_EQ(c.patch, (Dims3{64, 32, 16}));
  EXPECT_EQ(c.optim.sched.warmup, 5);
  EXPECT_EQ(c.optim.lr, 3e-4f);
  EXPECT_EQ(c.optim.kind, "sgd");
  EXPECT_EQ(c.optim.sched.shape, SampleConfig{}.optim.sched.shape);
  config_load_text(c, "patch = \"8x9x10\"", "run.toml");
  EXPECT_EQ(c.patch, (Dims3{8, 9, 10}));
  config_load_text(c, "", "empty.toml");
}

TEST(Config, UnknownKeysNameFileLineAndTheNearest) {
  EXPECT_EQ(load_error("epochs = 1\nepoch = 3\n"),
            "run.toml:2: unknown key 'epoch' (did you mean 'epochs'?)");
  EXPECT_EQ(load_error("\n\n[optim]\nlearning = 1\n"), "run.toml:4: unknown key 'optim.learning'");
  EXPECT_EQ(load_error("lr = 1\n"), "run.toml:1: unknown key 'lr' (did you mean 'optim.lr'?)");
  EXPECT_EQ(load_error("[optin]\nlr = 1\n"),
            "run.toml:1: unknown section 'optin' (did you mean 'optim'?)");
  EXPECT_EQ(load_error("[optim.skhed]\nwarmup = 1\n"),
            "run.toml:1: unknown section 'optim.skhed' (did you mean 'optim.sched'?)");
  EXPECT_EQ(load_error("qqqqqqqq = 1\n"), "run.toml:1: unknown key 'qqqqqqqq'");
  // One name with a dot in it is not a section and a key.
  EXPECT_THAT(load_error("\"optim.lr\" = 1\n"), HasSubstr("unknown key '\"optim.lr\"'"));
}

TEST(Config, WrongTypesSayWhatWasFoundAndWanted) {
  EXPECT_EQ(load_error("\nepochs = 3.5\n"),
            "run.toml:2: epochs: found a float (3.5), wanted an integer (32 bits) >= 1");
  EXPECT_EQ(load_error("epochs = \"3\"\n"),
            "run.toml:1: epochs: found a string ('3'), wanted an integer (32 bits) >= 1");
  EXPECT_EQ(load_error("optim.lr = \"big\"\n"),
            "run.toml:1: optim.lr: found a string ('big'), wanted a number > 0");
  EXPECT_EQ(load_error("amp = 1\n"), "run.toml:1: amp: found an integer (1), wanted true or false");
  EXPECT_EQ(load_error("name = 3\n"), "run.toml:1: name: found an integer (3), wanted text");
  EXPECT_EQ(load_error("name = true\n"), "run.toml:1: name: found a boolean (true), wanted text");
  EXPECT_THAT(load_error("name = 2020-01-01\n"), HasSubstr("found a date or time"));
  EXPECT_EQ(load_error("optim = 3\n"),
            "run.toml:1: optim: found an integer (3), wanted the table [optim]");
  EXPECT_THAT(load_error("[epochs]\nx = 1\n"), HasSubstr("epochs: found a table, wanted"));
  EXPECT_THAT(load_error("[[optim]]\nlr = 1\n"), HasSubstr("optim: found an array"));
  EXPECT_THAT(load_error("widths = 3\n"), HasSubstr("wanted a list of integers, each > 0"));
  EXPECT_THAT(load_error("widths = [3, 4.5]\n"), HasSubstr("found a float (4.5), wanted a list"));
  EXPECT_THAT(load_error("paths = [1]\n"), HasSubstr("wanted a list of texts"));
  EXPECT_THAT(
      load_error("patch = [1, 2]\n"),
      AllOf(HasSubstr("([ 1, 2 ])"), HasSubstr("wanted three integers as 64x64x32 or [64")));
  EXPECT_THAT(load_error("patch = \"1x2\"\n"), HasSubstr("wanted three integers"));
}

TEST(Config, ChecksHoldForEveryNumber) {
  EXPECT_EQ(load_error("optim.lr = 0.0\n"),
            "run.toml:1: optim.lr: found a float (0.0), wanted a number > 0");
  EXPECT_THAT(load_error("optim.lr = nan\n"), HasSubstr("wanted a number > 0"));
  EXPECT_THAT(load_error("epochs = 0\n"), HasSubstr("wanted an integer (32 bits) >= 1"));
  EXPECT_THAT(load_error("eps = 1.5\n"), HasSubstr("wanted a number from 0 to 1"));
  EXPECT_EQ(load_error("eps = 1.0\n"), "(no error)");  // the bounds belong to it
  EXPECT_EQ(load_error("eps = 0\n"), "(no error)");
  EXPECT_THAT(load_error("optim.kind = \"adam\"\n"), HasSubstr("wanted one of adamw, sgd"));
  EXPECT_THAT(load_error("widths = [1, 0]\n"), HasSubstr("each > 0"));
  EXPECT_THAT(load_error("patch = [1, 1, 0]\n"), HasSubstr(", each > 0"));
}

TEST(Config, NumbersThatDoNotFitAreRefused) {
  EXPECT_THAT(load_error("epochs = 2147483648\n"), HasSubstr("wanted an integer (32 bits)"));
  EXPECT_THAT(load_error("epochs = 4294967297\n"), HasSubstr("found an integer (4294967297)"));
  EXPECT_THAT(load_error("seed = -1\n"), HasSubstr("wanted a non-negative integer"));
  EXPECT_THAT(load_error("optim.lr = 1e39\n"), HasSubstr("outside the range of a 32-bit float"));
  EXPECT_THAT(load_error("optim.lr = 1e-60\n"), HasSubstr("outside the range of a 32-bit float"));
  EXPECT_THAT(load_error("seed = \"18446744073709551616\"\n"), HasSubstr("seed: found a string"));
}

TEST(Config, TextThatIsNotTomlNamesThePlace) {
  EXPECT_THAT(load_error("epochs = 1\nname = \n"), HasSubstr("run.toml:2:"));
  EXPECT_THAT(load_error("epochs = 1\nepochs = 2\n"), HasSubstr("run.toml:2:"));
  EXPECT_THAT(load_error("lr : 3\n"), HasSubstr("not TOML"));
}

TEST(Config, FilesThatCannotBeReadSayWhy) {
  SampleConfig c;
  EXPECT_THAT([&] { config_load_file(c, "/nonexistent/run.toml"); },
              ThrowsMessage<UsageError>(
                  std::string("config file /nonexistent/run.toml: cannot open: No such file or "
                              "directory")));
  EXPECT_THAT([&] { config_load_file(c, "/"); },
              ThrowsMessage<UsageError>(HasSubstr("is a directory")));
}

TEST(Config, TextRoundTripsAwkwardValues) {
  SampleConfig c;
  c.name = std::string("quote \" back \\ tab \t line \n bell \a del \x7f nul ") + '\0' +
           " \xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80 # = [x]";
  for (char control = 1; control < 0x20; ++control) c.name += control;
  c.seed = std::numeric_limits<uint64_t>::max();
  c.steps = std::numeric_limits<int64_t>::min();
  c.epochs = std::numeric_limits<int>::max();
  c.eps = 0.1 + 0.2;
  c.weights = {-0.0,  std::numeric_limits<double>::infinity(),
               1e300, std::numeric_limits<double>::denorm_min(),
               -1.0,  1e22};
  c.paths = {"", "a,b", "[c]", "'"};
  c.widths = {};
  c.patch = {1, 2, int64_t{1} << 40};
  c.optim.nesterov = true;
  SampleConfig d;
  config_load_text(d, config_text(c), "text");
  EXPECT_EQ(config_text(d), config_text(c));
  EXPECT_EQ(d.name, c.name);
  EXPECT_EQ(d.seed, c.seed);
  EXPECT_EQ(d.steps, c.steps);
  EXPECT_EQ(d.epochs, c.epochs);
  EXPECT_EQ(d.paths, c.paths);
  EXPECT_TRUE(d.widths.empty());
  EXPECT_EQ(d.patch, c.patch);
  EXPECT_TRUE(d.optim.nesterov);
  ASSERT_EQ(d.weights.size(), c.weights.size());
  for (size_t i = 0; i < c.weights.size(); ++i)
    EXPECT_EQ(std::bit_cast<uint64_t>(d.weights[i]), std::bit_cast<uint64_t>(c.weights[i]));
  EXPECT_THAT(config_diff(c, d), IsEmpty());
}

struct Floats {
  float f = 0;
  double d = 0;
  static constexpr auto fields() {
    return std::tuple{field("f", &Floats::f, ""), field("d", &Floats::d, "")};
  }
};

TEST(Config, FloatsRoundTripBitForBit) {
  std::mt19937_64 random(1);
  // The last one's shortest text, 7.038531e-26, is another float when it is read as a double first.
  std::vector<uint32_t> edges{0,          0x80000000, 1,          0x007fffff, 0x00800000,
                              0x7f7fffff, 0x7f800000, 0xff800000, 0x3f800000, 0x15ae43fd};
  for (int i = 0; i < 3000; ++i) {
    Floats a;
    a.f = std::bit_cast<float>(i < 10 ? edges[static_cast<size_t>(i)]
                                      : static_cast<uint32_t>(random()));
    a.d = std::bit_cast<double>(random());
    Floats b;
    config_load_text(b, config_text(a), "text");
    if (std::isnan(a.f)) {
      EXPECT_TRUE(std::isnan(b.f));
    } else {
      ASSERT_EQ(std::bit_cast<uint32_t>(a.f), std::bit_cast<uint32_t>(b.f)) << config_text(a);
    }
    if (!std::isnan(a.d)) {
      ASSERT_EQ(std::bit_cast<uint64_t>(a.d), std::bit_cast<uint64_t>(b.d)) << config_text(a);
    }
    // And through the command line's text.
    Floats c;
    config_set(c, "f", config_get(a, "f"));
    if (!std::isnan(a.f)) {
      ASSERT_EQ(std::bit_cast<uint32_t>(a.f), std::bit_cast<uint32_t>(c.f));
    }
  }
}

TEST(Config, FloatsArePrintedShort) {
  Floats a{0.1f, 0.1};
  EXPECT_EQ(config_text(a), "f = 0.1\nd = 0.1\n");
  EXPECT_EQ(config_text(Floats{3e-4f, 1}), "f = 3e-04\nd = 1.0\n");
}

TEST(Config, TextPutsOwnKeysBeforeSubsections) {
  // The nested section stands before optim.nesterov in the struct; TOML wants it after.
  const std::string text = config_text(SampleConfig{});
  EXPECT_LT(text.find("nesterov"), text.find("[optim.sched]"));
  EXPECT_LT(text.find("epochs"), text.find("[optim]"));
}

TEST(Config, GetAndSetAreInverse) {
  SampleConfig c;
  c.paths = {"a,b", "c"};
  c.weights = {1, 0.5};
  c.name = "x \"y\"";
  SampleConfig d;
  for (const std::string& key : config_keys(c)) config_set(d, key, config_get(c, key));
  EXPECT_THAT(config_diff(c, d), IsEmpty());
  EXPECT_EQ(config_get(c, "patch"), "128x128x128");
  EXPECT_EQ(config_get(c, "name"), "x \"y\"");
  EXPECT_THAT([&] { config_get(c, "optim.l"); },
              ThrowsMessage<UsageError>(std::string("unknown key 'optim.l' (did you mean "
                                                    "'optim.lr'?)")));
  EXPECT_THAT([&] { config_set(c, "epochs", "x"); },
              ThrowsMessage<UsageError>(HasSubstr("epochs: found 'x', wanted an integer")));
}

TEST(Config, SetRefusesHalfNumbersAndBadText) {
  SampleConfig c;
  for (const char* bad : {"", "1.5", "1e3", " 1", "1 ", "0x10", "+1", "2147483648", "1,2"})
    EXPECT_THROW(config_set(c, "epochs", bad), UsageError) << bad;
  for (const char* bad : {"", "1e", "1,5", "abc", "1e400", "1f", "--1"})
    EXPECT_THROW(config_set(c, "eps", bad), UsageError) << bad;
  for (const char* bad : {"1,,2", "1,", "a", "[1, 2", "[1]\nepochs = 4", "[1.5]"})
    EXPECT_THROW(config_set(c, "widths", bad), UsageError) << bad;
  for (const char* bad : {"64", "64x64", "1x2x3x4", "1x2x", "axbxc", "1X2X3"})
    EXPECT_THROW(config_set(c, "patch", bad), UsageError) << bad;
  for (const char* bad : {"", "yes", "1", "True"})
    EXPECT_THROW(config_set(c, "amp", bad), UsageError) << bad;
  for (const char* bad : {"\xff", "\xc0\x80", "\xe2\x82", "\xed\xa0\x80", "\xf4\x90\x80\x80"})
    EXPECT_THAT([&] { config_set(c, "name", bad); },
                ThrowsMessage<UsageError>(HasSubstr("name: the text is not UTF-8")));
  EXPECT_EQ(config_text(c), config_text(SampleConfig{}));
}

TEST(Config, DiffNamesOldAndNew) {
  SampleConfig a, b;
  EXPECT_THAT(config_diff(a, b), IsEmpty());
  b.optim.lr = 0.5f;
  b.name = "other";
  b.patch.w = 7;
  EXPECT_THAT(config_diff(a, b), ElementsAre("name: \"run\" -> \"other\"", "optim.lr: 0.001 -> 0.5",
                                             "patch: [128, 128, 128] -> [128, 128, 7]"));
}

TEST(Config, CheckFindsValuesSetByCode) {
  SampleConfig c;
  config_check(c);
  c.epochs = 0;
  EXPECT_THAT(
      [&] { config_check(c); },
      ThrowsMessage<UsageError>(std::string("epochs: found 0, wanted an integer (32 bits) >= 1")));
}

TEST(Config, HelpHasSectionsTypesValuesAndHelp) {
  const std::string help = config_help(SampleConfig{});
  for (const char* part :
       {"--epochs INT >= 1", "passes over the data [10]", "[optim]  the optimizer",
        "--optim.lr FLOAT > 0", "[0.001]", "--optim.kind adamw|sgd", "[optim.sched]  the schedule",
        "--widths INT,... > 0", "--patch DxHxW > 0", "--amp BOOL", "[\"run\"]"})
    EXPECT_THAT(help, HasSubstr(part));
  for (const std::string& key : config_keys(SampleConfig{}))
    EXPECT_THAT(help, HasSubstr("--" + key + " "));
}

struct Twice {
  int a = 0;
  static constexpr auto fields() {
    return std::tuple{field("a", &Twice::a, ""), field("a", &Twice::a, "")};
  }
};
struct Reserved {
  int a = 0;
  static constexpr auto fields() { return std::tuple{field("config", &Reserved::a, "")}; }
};
struct Upper {
  int a = 0;
  static constexpr auto fields() { return std::tuple{field("aB", &Upper::a, "")}; }
};
struct Dotted {
  bool a = false;
  int b = 0;
  static constexpr auto fields() {
    return std::tuple{field("a", &Dotted::a, ""), field("a.b", &Dotted::b, "")};
  }
};

TEST(Config, DescriptionsThatCannotWorkAreErrors) {
  EXPECT_THAT([] { config_keys(Twice{}); },
              ThrowsMessage<Error>(HasSubstr("'a' is described twice, or reserved")));
  EXPECT_THROW(config_keys(Reserved{}), Error);
  EXPECT_THAT([] { config_keys(Upper{}); }, ThrowsMessage<Error>(HasSubstr("'aB' wants lower")));
  EXPECT_THROW(config_keys(Dotted{}), Error);
}

}  // namespace
}  // namespace bora
