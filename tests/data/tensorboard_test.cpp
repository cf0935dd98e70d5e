// SPDX-License-Identifier: Apache-2.0
// Event files for TensorBoard.  Feature row 147 (machine-readable log).
#include "data/tensorboard.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <limits>
#include <optional>

#include "data/image.hpp"
#include "tests/data/event_file.hpp"
#include "tests/data/pipeline_support.hpp"

namespace bora::data {
namespace {

using test::as_double;
using test::as_float;
using test::event_records;
using test::Message;
using test::message_of;
using test::read_file;
using test::TempFolder;
using test::write_file;
using testing::HasSubstr;

std::vector<Message> events_of(const std::string& file) {
  std::vector<Message> events;
  for (const std::string_view record : event_records(file)) events.emplace_back(record);
  return events;
}

TEST(Crc32c, GivesThePublishedValues) {
  EXPECT_EQ(crc32c(""), 0u);
  EXPECT_EQ(crc32c("123456789"), 0xe3069283u);
  // RFC 3720, B.4; bytes of the results in the order in which they are sent, lowest first.
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8a9136aau);
  EXPECT_EQ(crc32c(std::string(32, '\xff')), 0x62a8ab43u);
  std::string up, down;
  for (int i = 0; i < 32; ++i) {
    up += static_cast<char>(i);
    down += static_cast<char>(31 - i);
  }
  EXPECT_EQ(crc32c(up), 0x46dd794eu);
  EXPECT_EQ(crc32c(down), 0x113fdb5cu);
  EXPECT_EQ(test::slow_crc32c(up), 0x46dd794eu);
}

TEST(EventWriter, BeginsWithItsVersionAndWhereTheSessionStarts) {
  const TempFolder folder;
  const EventWriter writer(folder.path(), 17);
  EXPECT_TRUE(is_event_file(std::filesystem::path(writer.path()).filename().string()));
  const std::string file = read_file(writer.path());
  const std::vector<Message> events = events_of(file);
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[0].one(3).bytes, "brain.Event:2");
  EXPECT_EQ(events[1].one(2).number, 17u);
  EXPECT_EQ(events[1].message(7).one(1).number, 1u);  // SessionLog.START
}

TEST(EventWriter, WritesScalarsThatAreThereAtOnce) {
  const TempFolder folder;
  EventWriter writer(folder.path(), 0);
  const auto before = std::chrono::system_clock::now().time_since_epoch();
  writer.scalars(300, {{"train/loss", 0.1}, {"lr", std::numeric_limits<double>::quiet_NaN()}});
  const std::string file = read_file(writer.path());
  const std::vector<Message> events = events_of(file);
  ASSERT_EQ(events.size(), 3u);
  const Message& event = events.back();
  EXPECT_NEAR(as_double(event.one(1).number), std::chrono::duration<double>(before).count(), 60);
  EXPECT_EQ(event.one(2).number, 300u);  // two bytes as a varint
  const Message summary = event.message(5);
  ASSERT_EQ(summary.fields.at(1).size(), 2u);
  const Message loss(summary.fields.at(1)[0].bytes), lr(summary.fields.at(1)[1].bytes);
  EXPECT_EQ(loss.one(1).bytes, "train/loss");
  EXPECT_EQ(as_float(loss.one(2).number), 0.1f);
  EXPECT_EQ(lr.one(1).bytes, "lr");
  EXPECT_TRUE(std::isnan(as_float(lr.one(2).number)));
  writer.scalars(301, {});  // nothing to say
  EXPECT_EQ(read_file(writer.path()), file);
}

TEST(EventWriter, WritesPicturesAndText) {
  const TempFolder folder;
  const std::vector<uint8_t> pixels(3 * 300 * 2, 128);
  write_png(folder.file("p.png"), 300, 2, pixels);
  const std::string png = read_file(folder.file("p.png"));
  EventWriter writer(folder.path(), 0);
  writer.image(4, "slices", png);
  writer.text(5, "settings", "    lr = 1 <b>");
  const std::string file = read_file(writer.path());
  const std::vector<Message> events = events_of(file);
  ASSERT_EQ(events.size(), 4u);
  const Message value = events[2].message(5).message(1);
  EXPECT_EQ(value.one(1).bytes, "slices");
  const Message image = value.message(4);
  EXPECT_EQ(image.one(1).number, 2u);  // height
  EXPECT_EQ(image.one(2).number, 300u);
  EXPECT_EQ(image.one(3).number, 3u);
  EXPECT_EQ(image.one(4).bytes, png);
  const Message text = events[3].message(5).message(1);
  EXPECT_EQ(text.message(9).message(1).one(1).bytes, "text");
  EXPECT_EQ(text.message(8).one(1).number, 7u);  // DT_STRING
  EXPECT_EQ(text.message(8).message(2).message(2).one(1).number, 1u);
  EXPECT_EQ(text.message(8).one(8).bytes, "    lr = 1 <b>");
  EXPECT_THAT(message_of([&] { writer.image(6, "slices", "GIF89a"); }), HasSubstr("'slices'"));
}

// A killed run leaves at most a cut last record; what is before it can be read.
TEST(EventWriter, ACutFileIsReadableUpToTheCut) {
  const TempFolder folder;
  EventWriter writer(folder.path(), 0);
  for (int i = 0; i < 3; ++i) writer.scalars(i, {{"x", i}});
  const std::string file = read_file(writer.path());
  const size_t whole = event_records(file).size();
  for (size_t cut = 1; cut < 40; ++cut)
    EXPECT_EQ(event_records(file.substr(0, file.size() - cut)).size(), whole - 1) << cut;
}

TEST(EventWriter, ALaterFileSortsBehindTheEarlierOnes) {
  const TempFolder folder;
  const EventWriter first(folder.path(), 0);
  const EventWriter second(folder.path(), 9);
  EXPECT_LT(first.path(), second.path());
  // Of a host whose clock is ahead.
  const std::string ahead = folder.file("events.out.tfevents.9876543210.other.1.0");
  write_file(ahead, "");
  const EventWriter third(folder.path(), 20);
  EXPECT_LT(ahead, third.path());
}

TEST(EventWriter, NamesTheFolderOrFileThatIsWrong) {
  EXPECT_THAT(message_of([] { EventWriter("/nonexistent/run", 0); }),
              HasSubstr("/nonexistent/run"));
  const TempFolder folder;
  EXPECT_THAT(message_of([&] { EventWriter(folder.path(), -1); }), HasSubstr("-1"));
  EventWriter writer(folder.path(), 0);
  EXPECT_THAT(message_of([&] { writer.scalars(-3, {{"x", 1}}); }), HasSubstr("-3"));
}

}  // namespace
}  // namespace bora::data
