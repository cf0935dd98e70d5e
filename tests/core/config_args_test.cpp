// SPDX-License-Identifier: Apache-2.0
// The command line of a described config (features.md 148).
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <fstream>

#include "core/config.hpp"
#include "tests/core/config_sample.hpp"

namespace bora {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

using Args = std::vector<std::string>;

const ConfigUsage kTakesFiles{"Trains.", "FILE..."};

SampleConfig parsed(const Args& args, ConfigArgs* out = nullptr) {
  SampleConfig c;
  const ConfigArgs a = config_parse_args(c, "bora_train", args, kTakesFiles);
  if (out != nullptr) *out = a;
  return c;
}

std::string args_error(const Args& args, const ConfigUsage& usage = kTakesFiles) {
  SampleConfig c;
  try {
    config_parse_args(c, "bora_train", args, usage);
  } catch (const UsageError& e) {
    EXPECT_EQ(config_text(c), config_text(SampleConfig{})) << "a failed parse changed the config";
    return e.what();
  }
  return "(no error)";
}

// A file in the temporary folder, removed at the end.
class TempFile {
 public:
  explicit TempFile(const std::string& text) : path_(testing::TempDir() + "config_XXXXXX") {
    ::close(::mkstemp(path_.data()));
    std::ofstream(path_) << text;
  }
  ~TempFile() { ::unlink(path_.c_str()); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

TEST(ConfigArgs, TakesBothFormsOfEachFlag) {
  const SampleConfig c = parsed({"--optim.lr=3e-4", "--epochs", "7", "--steps", "-3", "--seed=9",
                                 "--widths=1,2,3", "--weights", "0.5,-1", "--paths=a,b", "--patch",
                                 "64x32x16", "--name=a=b c", "--optim.kind", "sgd"});
  EXPECT_EQ(c.optim.lr, 3e-4f);
  EXPECT_EQ(c.epochs, 7);
  EXPECT_EQ(c.steps, -3);
  EXPECT_EQ(c.seed, 9u);
  EXPECT_THAT(c.widths, ElementsAre(1, 2, 3));
  EXPECT_THAT(c.weights, ElementsAre(0.5, -1));
  EXPECT_THAT(c.paths, ElementsAre("a", "b"));
  EXPECT_EQ(c.patch, (Dims3{64, 32, 16}));
  EXPECT_EQ(c.name, "a=b c");
  EXPECT_EQ(c.optim.kind, "sgd");
}

TEST(ConfigArgs, ListsMayBeTomlArraysAndEmpty) {
  EXPECT_THAT(parsed({"--paths", "[\"a,b\", \"c\"]"}).paths, ElementsAre("a,b", "c"));
  EXPECT_THAT(parsed({"--paths=[]"}).paths, IsEmpty());
  EXPECT_THAT(parsed({"--widths="}).widths, IsEmpty());
  EXPECT_EQ(parsed({"--patch=[1, 2, 3]"}).patch, (Dims3{1, 2, 3}));
}

TEST(ConfigArgs, SwitchesGoBothWays) {
  EXPECT_TRUE(parsed({"--amp"}).amp);
  EXPECT_TRUE(parsed({"--amp=true"}).amp);
  EXPECT_FALSE(parsed({"--amp=false"}).amp);
  EXPECT_FALSE(parsed({"--no-amp"}).amp);
  SampleConfig c;
  c.amp = c.optim.nesterov = true;
  config_parse_args(c, "p", {"--no-amp", "--no-optim.nesterov"});
  EXPECT_FALSE(c.amp);
  EXPECT_FALSE(c.optim.nesterov);
}

TEST(ConfigArgs, EmptyValueDoesNotTakeTheNextArgument) {
  ConfigArgs a;
  EXPECT_EQ(parsed({"--name=", "file"}, &a).name, "");
  EXPECT_THAT(a.positionals, ElementsAre("file"));
  EXPECT_EQ(parsed({"--name", ""}).name, "");
}

TEST(ConfigArgs, PositionalsKeepTheirOrder) {
  ConfigArgs a;
  parsed({"one", "--epochs", "3", "two", "-", "--amp", "[x,y]", "--", "--epochs", "--", "-z"}, &a);
  EXPECT_THAT(a.positionals, ElementsAre("one", "two", "-", "[x,y]", "--epochs", "--", "-z"));
  EXPECT_EQ(args_error({"stray"}, {}), "unexpected argument 'stray'");
}

TEST(ConfigArgs, FileComesBeforeFlagsWhereverItStands) {
  const TempFile file("epochs = 3\nsteps = 4\n[optim]\nlr = 0.5\n");
  for (const Args& args : {Args{"--epochs=9", "--config", file.path()},
                           Args{"--config=" + file.path(), "--epochs=9"}}) {
    ConfigArgs a;
    const SampleConfig c = parsed(args, &a);
    EXPECT_EQ(c.epochs, 9);
    EXPECT_EQ(c.steps, 4);
    EXPECT_EQ(c.optim.lr, 0.5f);
    EXPECT_EQ(c.seed, SampleConfig{}.seed);
    EXPECT_EQ(a.config_file, file.path());
  }
  const TempFile bad("epochs = 3\nepoks = 4\n");
  EXPECT_EQ(args_error({"--config", bad.path(), "--epochs=9"}),
            bad.path() + ":2: unknown key 'epoks' (did you mean 'epochs'?)");
}

TEST(ConfigArgs, UnknownFlagsOfferTheNearest) {
  EXPECT_EQ(args_error({"--epoch=3"}), "unknown flag '--epoch' (did you mean '--epochs'?)");
  EXPECT_EQ(args_error({"--lr", "3"}), "unknown flag '--lr' (did you mean '--optim.lr'?)");
  EXPECT_EQ(args_error({"--no-amq"}), "unknown flag '--no-amq' (did you mean '--no-amp'?)");
  EXPECT_EQ(args_error({"--confg", "x"}), "unknown flag '--confg' (did you mean '--config'?)");
  EXPECT_EQ(args_error({"--zzzzzzzzzz"}), "unknown flag '--zzzzzzzzzz' (--help lists all)");
  EXPECT_THAT(args_error({"-e", "3"}), HasSubstr("unknown flag '-e'"));
  EXPECT_THAT(args_error({"--no-epochs"}), HasSubstr("unknown flag '--no-epochs'"));
  EXPECT_THAT(args_error({"--optim=3"}), HasSubstr("unknown flag '--optim'"));
}

TEST(ConfigArgs, BadValuesNameKeyValueAndWanted) {
  EXPECT_EQ(args_error({"--optim.lr=fast"}),
            "command line: optim.lr: found 'fast', wanted a number > 0");
  EXPECT_EQ(args_error({"--optim.lr", "-1"}),
            "command line: optim.lr: found '-1', wanted a number > 0");
  EXPECT_EQ(args_error({"--optim.kind=adam"}),
            "command line: optim.kind: found 'adam', wanted one of adamw, sgd (did you mean "
            "'adamw'?)");
  EXPECT_EQ(args_error({"--optim.kind=lion"}),
            "command line: optim.kind: found 'lion', wanted one of adamw, sgd");
  EXPECT_EQ(args_error({"--epochs=3.0"}),
            "command line: epochs: found '3.0', wanted an integer (32 bits) >= 1");
  EXPECT_EQ(args_error({"--amp=maybe"}), "command line: amp: found 'maybe', wanted true or false");
  EXPECT_EQ(args_error({"--patch=64x64"}),
            "command line: patch: found '64x64', wanted three integers as 64x64x32 or [64, 64, "
            "32], each > 0");
}

TEST(ConfigArgs, SameFlagTwiceIsAnError) {
  EXPECT_EQ(args_error({"--epochs=3", "--epochs", "3"}),
            "--epochs is given 2 times: which one is meant?");
  EXPECT_THAT(args_error({"--amp", "--no-amp"}), HasSubstr("--amp is given 2 times"));
  EXPECT_THAT(args_error({"--paths=a", "--paths=b"}), HasSubstr("--paths is given 2 times"));
  EXPECT_THAT(args_error({"--config=a", "--config=b"}), HasSubstr("--config is given 2 times"));
}

TEST(ConfigArgs, ValuesAreNotMistakenForFlags) {
  EXPECT_THAT(args_error({"--name"}), HasSubstr("--name"));
  EXPECT_EQ(args_error({"--name", "--amp"}),
            "--name wants a value, but '--amp' follows (if that is the value, write --name=--amp)");
  EXPECT_EQ(parsed({"--name=--amp"}).name, "--amp");
  EXPECT_THAT(args_error({"--config", "--amp"}), HasSubstr("--config wants a value"));
  EXPECT_THAT(args_error({"--amp", "false"}),
              HasSubstr("--amp is a switch and takes no separate value: write --amp=false"));
}

TEST(ConfigArgs, HelpWinsAndChangesNothing) {
  SampleConfig c;
  const ConfigArgs a =
      config_parse_args(c, "bora_train", {"--epochs=3", "--optim.lr=bad", "--help"}, kTakesFiles);
  EXPECT_THAT(a.help,
              AllOf(HasSubstr("usage: bora_train "), HasSubstr("FILE..."), HasSubstr("Trains."),
                    HasSubstr("--config FILE"), HasSubstr(config_help(SampleConfig{}))));
  EXPECT_EQ(c.epochs, SampleConfig{}.epochs);
  ConfigArgs none;
  parsed({"--epochs=3"}, &none);
  EXPECT_EQ(none.help, "");
}

TEST(ConfigArgs, EnvironmentIsNotRead) {
  ::setenv("EPOCHS", "99", 1);
  ::setenv("BORA_EPOCHS", "99", 1);
  EXPECT_EQ(parsed({}).epochs, SampleConfig{}.epochs);
  ::unsetenv("EPOCHS");
  ::unsetenv("BORA_EPOCHS");
}

}  // namespace
}  // namespace bora
