// SPDX-License-Identifier: Apache-2.0
// The live line on a terminal (a pseudo-terminal with an emulated screen) and the lines of a batch
// log.  Feature row 147.
#include "apps/common/progress.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pty.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>

#include "apps/train/epoch_summary.hpp"
#include "core/log.hpp"

namespace bora::apps {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

/// Sets an environment variable (nullptr: takes it away) and puts the old value back.
class Environment {
 public:
  Environment(const char* name, const char* value) : name_(name) {
    if (const char* old = std::getenv(name)) old_ = old, had_ = true;
    if (value != nullptr) ::setenv(name, value, 1);
    if (value == nullptr) ::unsetenv(name);
  }
  ~Environment() {
    if (had_) ::setenv(name_, old_.c_str(), 1);
    if (!had_) ::unsetenv(name_);
  }
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;

 private:
  const char* name_;
  std::string old_;
  bool had_ = false;
};

/// stderr as a terminal, and what a person would see on it.
class Terminal {
 public:
  explicit Terminal(int columns) {
    winsize size{24, static_cast<unsigned short>(columns), 0, 0};
    if (::openpty(&outer_, &inner_, nullptr, nullptr, &size) != 0) std::abort();
    ::fcntl(outer_, F_SETFL, O_NONBLOCK);
    saved_ = ::dup(STDERR_FILENO);
    ::dup2(inner_, STDERR_FILENO);
  }
  ~Terminal() {
    ::dup2(saved_, STDERR_FILENO);
    for (const int fd : {saved_, inner_, outer_}) ::close(fd);
  }
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  void resize(int columns) const {
    winsize size{24, static_cast<unsigned short>(columns), 0, 0};
    ASSERT_EQ(::ioctl(inner_, TIOCSWINSZ, &size), 0);
  }
  /// The lines on the screen; fails on anything but text, line ends, \r and "erase to the end".
  std::vector<std::string> screen() {
    char buffer[4096];
    for (ssize_t n; (n = ::read(outer_, buffer, sizeof buffer)) > 0;)
      raw_.append(buffer, static_cast<size_t>(n));
    std::vector<std::string> lines(1);
    size_t column = 0;
    for (size_t i = 0; i < raw_.size(); ++i) {
      std::string& line = lines.back();
      if (raw_[i] == '\n') {
        lines.emplace_back();
      } else if (raw_[i] == '\r') {
        column = 0;
      } else if (raw_.compare(i, 3, "\033[K") == 0) {
        line.resize(std::min(column, line.size()));
        i += 2;
      } else {
        EXPECT_GE(static_cast<unsigned char>(raw_[i]), 0x20) << "a control character";
        line.resize(std::max(line.size(), column + 1), ' ');
        line[column++] = raw_[i];
      }
    }
    return lines;
  }

 private:
  int outer_ = -1, inner_ = -1, saved_ = -1;
  std::string raw_;
};

class ProgressTest : public testing::Test {
 protected:
  double now_ = 1000;
  Progress::Clock clock_ = [this] { return now_; };
  Environment term_{"TERM", "xterm"};
  Environment plain_{"NO_COLOR", nullptr};
};

TEST_F(ProgressTest, RedrawsOneLineAtMostTenTimesASecond) {
  Terminal terminal(60);
  Progress progress(true, clock_);
  EXPECT_TRUE(progress.terminal());
  EXPECT_TRUE(progress.due());
  progress.update(0.25, {"epoch 1/4", "loss 0.5"});
  EXPECT_THAT(terminal.screen(), ElementsAre(HasSubstr(" 25 %  epoch 1/4  loss 0.5")));
  now_ += 0.05;
  EXPECT_FALSE(progress.due());
  progress.update(0.3, {"epoch 1/4", "loss 0.4"});
  EXPECT_THAT(terminal.screen(), ElementsAre(HasSubstr("loss 0.5")));
  now_ += 0.06;
  progress.update(0.5);  // the texts of the last call, drawn or not
  const std::vector<std::string> screen = terminal.screen();
  // 0.25 of the work took 0.11 s: the half that is left takes 0.22 s.
  EXPECT_THAT(screen, ElementsAre(HasSubstr(" 50 %  epoch 1/4  loss 0.4  0 s left")));
  EXPECT_THAT(screen[0], StartsWith("[======      ]"));
  progress.clear();
  EXPECT_THAT(terminal.screen(), ElementsAre(""));
}

TEST_F(ProgressTest, LogLinesOfOthersStandAboveTheLiveLine) {
  Terminal terminal(60);
  {
    Progress progress(true, clock_);
    progress.update(0.25, {"a", "b"});
    log_warn("the disk is nearly full");
    EXPECT_THAT(terminal.screen(),
                ElementsAre("warn: the disk is nearly full", HasSubstr(" 25 %  a  b")));
    progress.line("epoch 1 is over");
    EXPECT_THAT(terminal.screen(), ElementsAre("warn: the disk is nearly full", "epoch 1 is over",
                                               HasSubstr(" 25 %  a  b")));
  }
  log_info("after it");
  EXPECT_THAT(terminal.screen(),
              ElementsAre("warn: the disk is nearly full", "epoch 1 is over", "after it", ""));
}

// Ranks of one job on one terminal: the line of another rank takes the live line's place whole.
TEST_F(ProgressTest, LinesOfOtherRanksDoNotMixWithTheLiveLine) {
  Terminal terminal(60);
  int go[2];
  ASSERT_EQ(::pipe(go), 0);
  const pid_t other = ::fork();
  if (other == 0) {
    log_set_rank(1, 2);
    char drawn = 0;
    if (::read(go[0], &drawn, 1) != 1) ::_exit(1);
    log_info("late");
    ::_exit(0);
  }
  Progress progress(true, clock_);
  progress.update(0.25, {"epoch 1/4", "loss 0.5"});
  ASSERT_EQ(::write(go[1], "x", 1), 1);
  int status = 1;
  ASSERT_EQ(::waitpid(other, &status, 0), other);
  ASSERT_EQ(status, 0);
  for (const int fd : go) ::close(fd);
  EXPECT_EQ(terminal.screen()[0], "[1/2] late");
}

TEST_F(ProgressTest, FitsTheWidthThatTheTerminalHasNow) {
  Terminal terminal(200);
  Progress progress(true, clock_);
  const std::vector<std::string> parts{"epoch 12/50", "loss 0.1234", "update 600/2500", "lr 1e-3"};
  for (const int columns : {200, 72, 40, 20, 10, 5, 2, 1}) {
    terminal.resize(columns);
    now_ += 1;
    progress.update(0.5, parts);
    const std::string line = terminal.screen().back();
    EXPECT_LT(static_cast<int>(line.size()), columns) << line;
  }
  ASSERT_EQ(terminal.screen().size(), 1u);
}

TEST(LiveLine, DropsTheLeastImportantFirst) {
  const std::vector<std::string> parts{"epoch 3/9", "loss 0.12", "lr 1e-3"};
  EXPECT_EQ(live_line(0.5, parts, 80), "[========        ]  50 %  epoch 3/9  loss 0.12  lr 1e-3");
  EXPECT_EQ(live_line(0.5, parts, 60), "[======      ]  50 %  epoch 3/9  loss 0.12  lr 1e-3");
  EXPECT_EQ(live_line(0.5, parts, 59), " 50 %  epoch 3/9  loss 0.12  lr 1e-3");
  EXPECT_EQ(live_line(0.5, parts, 36), " 50 %  epoch 3/9  loss 0.12");
  EXPECT_EQ(live_line(0.5, parts, 17), " 50 %  epoch 3/9");
  EXPECT_EQ(live_line(0.5, parts, 16), " 50 %");
  EXPECT_EQ(live_line(0.5, parts, 3), " 5");
  EXPECT_EQ(live_line(0.5, parts, 0), "");
  EXPECT_EQ(live_line(2, {}, 300), "[==============================] 100 %");
  EXPECT_EQ(live_line(-1, {}, 150), "[                              ]   0 %");
  EXPECT_EQ(live_line(0, {"caf\u00e9"}, 12), "  0 %  caf\u00e9");  // 11 characters, 12 bytes
  EXPECT_EQ(live_line(0, {"caf\u00e9"}, 11), "  0 %");
}

/// What is logged in `body`.
template <class Body>
std::string logged(Body&& body) {
  testing::internal::CaptureStderr();
  body();
  return testing::internal::GetCapturedStderr();
}

TEST_F(ProgressTest, ABatchLogGetsPlainLinesAtASensibleRate) {
  int64_t lines = 0, in_first_minute = 0, in_first_hour = 0;
  double longest_silence = 0, last = now_;
  const double begin = now_;
  const std::string text = logged([&] {
    Progress progress(true, clock_);
    EXPECT_FALSE(progress.terminal());
    for (; now_ < begin + 86400; now_ += 0.5) {  // a day of updates of half a second
      if (progress.due()) {
        ++lines;
        if (now_ < begin + 60) ++in_first_minute;
        if (now_ < begin + 3600) ++in_first_hour;
        longest_silence = std::max(longest_silence, now_ - last);
        last = now_;
      }
      progress.update((now_ - begin) / 86400, {"epoch 1/4", "loss 0.5"});
    }
  });
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), lines);
  EXPECT_THAT(text, Not(HasSubstr("\r")));
  EXPECT_THAT(text, Not(HasSubstr("\033")));
  EXPECT_THAT(text, StartsWith("epoch 1/4  loss 0.5\nepoch 1/4  loss 0.5  23 h 59 min left\n"));
  EXPECT_EQ(in_first_minute, 6);
  EXPECT_GT(in_first_hour, 30);
  EXPECT_LT(in_first_hour, 70);
  EXPECT_LT(lines, 250);
  EXPECT_LE(longest_silence, 600.5);
}

TEST_F(ProgressTest, PlainTextWhereItIsAskedForOrNothingElseIsPossible) {
  for (const auto& [name, value] : std::vector<std::pair<const char*, const char*>>{
           {"TERM", "dumb"}, {"TERM", nullptr}, {"NO_COLOR", "1"}}) {
    const Environment environment(name, value);
    Terminal terminal(60);
    Progress progress(true, clock_);
    EXPECT_FALSE(progress.terminal());
    progress.update(0.25, {"a"});
    EXPECT_THAT(terminal.screen(), ElementsAre("a", "")) << name;
  }
}

TEST_F(ProgressTest, OtherRanksAndQuietRunsAreSilent) {
  EXPECT_EQ(logged([&] {
              Progress progress(false, clock_);
              EXPECT_FALSE(progress.due());
              progress.update(0.5, {"a"});
              progress.line("b");
            }),
            "");
  log_set_level(LogLevel::warn);
  Terminal terminal(60);
  Progress progress(true, clock_);
  progress.update(0.5, {"a"});
  progress.line("b");
  EXPECT_THAT(terminal.screen(), ElementsAre(""));
  log_set_level(LogLevel::info);
}

// A validation has words of its own; they must not stand over the next epoch's training.
TEST_F(ProgressTest, WordsThatStoodForAWhileCanBePutBack) {
  Terminal terminal(80);
  Progress progress(true, clock_);
  progress.update(0.25, {"training"});
  const std::vector<std::string> told = progress.parts();
  now_ += 1;
  progress.update(0.25, {"validating"});
  EXPECT_THAT(terminal.screen().front(), HasSubstr("validating"));
  progress.put_back(told);
  now_ += 1;
  progress.update(0.3);
  EXPECT_THAT(terminal.screen().front(), HasSubstr("training"));
}

// The pace is this process's: what an earlier run of the same training did costs no time now.
TEST_F(ProgressTest, TheTimeLeftOfAResumedRunCountsFromWhereItBegan) {
  const std::string text = logged([&] {
    Progress progress(true, clock_);
    progress.update(0.5, {"a"});
    now_ += 100;
    progress.update(0.6, {"a"});
  });
  EXPECT_EQ(text, "a\na  6 min 40 s left\n");
}

TEST(DurationText, HasTwoUnits) {
  EXPECT_EQ(duration_text(0.4), "0 s");
  EXPECT_EQ(duration_text(59.6), "1 min 00 s");
  EXPECT_EQ(duration_text(3725), "1 h 02 min");
  EXPECT_EQ(duration_text(93600), "1 d 02 h");
  EXPECT_EQ(duration_text(-1), "?");
}

// Hours of a batch log are read later: a loss of an earlier update is not told as of this one.
TEST(Progress, ALossSaysWhichUpdateItIsOf) {
  const train::LastRow row{.update = 40, .loss = 0.25, .samples_per_s = 12, .lr = 1e-3};
  EXPECT_THAT(
      train::progress_parts(1.25, 12, 40, 480, row),
      ElementsAre("epoch 1.2/12", "loss 0.2500", "12.0 samples/s", "update 40/480", "lr 0.001"));
  EXPECT_THAT(train::progress_parts(3.5, 12, 140, 480, row),
              ElementsAre("epoch 3.5/12", "loss 0.2500 at 40", "12.0 samples/s", "update 140/480",
                          "lr 0.001"));
}

}  // namespace
}  // namespace bora::apps
