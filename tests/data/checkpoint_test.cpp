// SPDX-License-Identifier: Apache-2.0
// Feature rows 139 (content), 141 (exact resume, the file's part), 144 (names), 145 (bad files).
#include "data/checkpoint.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "data/hdf5.hpp"
#include "tests/data/checkpoint_state.hpp"
#include "tests/data/pipeline_support.hpp"

namespace bora::data {
namespace {

using test::Everything;
using test::message_of;
using test::read_file;
using test::TempFolder;
using test::write_file;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

void save(const std::string& path, Everything& e) {
  save_checkpoint(path, [&](StateVisitor& v) { e.state(v); });
}

void expect_same_bits(const Tensor& a, const Tensor& b, const char* what) {
  ASSERT_EQ(a.bytes(), b.bytes()) << what;
  if (a.bytes() > 0) {
    EXPECT_EQ(std::memcmp(a.raw(), b.raw(), static_cast<size_t>(a.bytes())), 0) << what;
  }
}

TEST(Checkpoint, BringsEveryKindOfEntryBackBitForBit) {
  const TempFolder folder;
  Everything saved = Everything::filled(), back;
  save(folder.file("a.h5"), saved);
  const void* memory = back.f32.raw();
  load_checkpoint(folder.file("a.h5"), [&](StateVisitor& v) { back.state(v); });
  EXPECT_EQ(back.f32.raw(), memory);  // into the bytes that others share
  expect_same_bits(back.f16, saved.f16, "f16");
  expect_same_bits(back.bf16, saved.bf16, "bf16");
  expect_same_bits(back.f32, saved.f32, "f32");
  expect_same_bits(back.f64, saved.f64, "f64");
  expect_same_bits(back.u8, saved.u8, "u8");
  expect_same_bits(back.i32, saved.i32, "i32");
  expect_same_bits(back.i64, saved.i64, "i64");
  expect_same_bits(back.scalar, saved.scalar, "scalar");
  EXPECT_EQ(back.i, saved.i);
  EXPECT_EQ(back.u, saved.u);
  EXPECT_EQ(std::bit_cast<uint64_t>(back.d), std::bit_cast<uint64_t>(saved.d));
  EXPECT_EQ(back.yes, true);
  EXPECT_EQ(back.no, false);
  EXPECT_EQ(back.text, saved.text);
  EXPECT_EQ(back.no_text, "");
  EXPECT_EQ(back.unicode, saved.unicode);
  ASSERT_EQ(back.doubles.size(), 3u);
  EXPECT_EQ(std::memcmp(back.doubles.data(), saved.doubles.data(), 24), 0);
  EXPECT_TRUE(back.no_doubles.empty());
  EXPECT_EQ(back.integers, saved.integers);
  EXPECT_EQ(back.names, saved.names);
  EXPECT_TRUE(back.no_names.empty());
}

TEST(Checkpoint, EqualStatesGiveEqualFiles) {
  const TempFolder folder;
  Everything e = Everything::filled();
  save(folder.file("a.h5"), e);
  save(folder.file("b.h5"), e);
  EXPECT_EQ(read_file(folder.file("a.h5")), read_file(folder.file("b.h5")));
}

TEST(Checkpoint, IsAnHdf5FileWithOneDataSetPerEntry) {
  const TempFolder folder;
  Everything e = Everything::filled();
  save(folder.file("a.h5"), e);
  const auto file = hdf5::File::open(folder.file("a.h5"));
  const auto state = file.open_group("state");
  const auto f32 = state.open_dataset("outer.inner.0.f32");
  EXPECT_EQ(f32.shape(), Shape({2, 3, 4}));
  EXPECT_EQ(f32.attribute<std::string>("axes"), "O,kD,I");
  EXPECT_EQ(f32.attribute<std::string>("kind"), "tensor");
  expect_same_bits(f32.read(), e.f32, "read as plain HDF5");
  EXPECT_EQ(state.attribute<int64_t>("n_entries"), static_cast<int64_t>(state.names().size()));
  EXPECT_THAT(state.attribute<std::string>("created_by"), HasSubstr("bora"));
}

TEST(Checkpoint, NamesWhatIsMissingUnexpectedAndNotFitting) {
  const TempFolder folder;
  const std::string path = folder.file("a.h5");
  Tensor w = Tensor::zeros({16, 3, 3, 3, 2}, DType::f32), b = Tensor::zeros({16}, DType::f32);
  int64_t update = 3;
  save_checkpoint(path, [&](StateVisitor& v) {
    v.tensor("enc.w", w, "O,kD,kH,kW,I");
    v.tensor("enc.b", b);
    v.value("old.name", update);
    v.value("update", update);
  });
  Tensor wide = Tensor::zeros({32, 3, 3, 3, 2}, DType::f32), b64 = Tensor::zeros({16}, DType::f64);
  double as_double = 0;
  const std::string message = message_of([&] {
    load_checkpoint(path, [&](StateVisitor& v) {
      v.tensor("enc.w", wide, "O,kD,kH,kW,I");
      v.tensor("enc.b", b64);
      v.value("new.name", update);
      v.value("update", as_double);
    });
  });
  EXPECT_THAT(message, AllOf(HasSubstr(path), HasSubstr("missing in the file (1): new.name"),
                             HasSubstr("unexpected in the file (1): old.name"),
                             HasSubstr("enc.w is (16, 3, 3, 3, 2) f32 in the file, wanted "
                                       "(32, 3, 3, 3, 2) f32"),
                             HasSubstr("enc.b is (16) f32 in the file, wanted (16) f64"),
                             HasSubstr("update is a i64 in the file, wanted a f64")));
}

TEST(Checkpoint, RefusesOtherAxesOfTheSameShape) {
  const TempFolder folder;
  Tensor w = Tensor::zeros({4, 4}, DType::f32);
  save_checkpoint(folder.file("a.h5"), [&](StateVisitor& v) { v.tensor("w", w, "O,I"); });
  EXPECT_THAT(message_of([&] {
                load_checkpoint(folder.file("a.h5"),
                                [&](StateVisitor& v) { v.tensor("w", w, "I,O"); });
              }),
              HasSubstr("w has the axes 'O,I' in the file, wanted 'I,O'"));
}

TEST(Checkpoint, GivesAModelWithoutTheRestWhenAllowed) {
  const TempFolder folder;
  const std::string path = folder.file("a.h5");
  Everything saved = Everything::filled();
  save(path, saved);
  int64_t i = 0;
  const auto part = [&](StateVisitor& v) { v.value("outer.i", i); };
  load_checkpoint(path, part, Unread::allow);
  EXPECT_EQ(i, saved.i);
  EXPECT_THAT(message_of([&] { load_checkpoint(path, part); }),
              AllOf(HasSubstr("unexpected in the file (21)"), HasSubstr("and 11 more")));
  EXPECT_THAT(message_of([&] {
                load_checkpoint(
                    path, [](StateVisitor&) {}, Unread::allow);
              }),
              HasSubstr("nothing was loaded"));
  CheckpointReader reader(path);
  EXPECT_EQ(reader.peek<std::string>("outer.text"), saved.text);
  EXPECT_EQ(reader.peek<std::vector<std::string>>("outer.names"), saved.names);
  EXPECT_EQ(reader.describe("outer.inner.0.f32"), "(2, 3, 4) f32");
  EXPECT_EQ(reader.describe("outer.names"), "list of text");
  EXPECT_FALSE(reader.has("outer.nothing"));
  EXPECT_THAT(message_of([&] { reader.peek<double>("outer.text"); }), HasSubstr("is a text"));
  EXPECT_THAT(message_of([&] { reader.peek<double>("x"); }), HasSubstr("has no entry 'x'"));
}

TEST(Checkpoint, RefusesBadNamesAndText) {
  Tensor t = Tensor::zeros({1}, DType::f32);
  CheckpointWriter writer;
  writer.tensor("w", t);
  EXPECT_THAT(message_of([&] { writer.tensor("w", t); }), HasSubstr("two entries are called 'w'"));
  EXPECT_THROW(writer.tensor("a/b", t), Error);
  EXPECT_THROW(writer.tensor("", t), Error);
  EXPECT_THROW(writer.tensor(".", t), Error);
  std::string zero("a\0b", 3);
  EXPECT_THAT(message_of([&] { writer.value("s", zero); }), HasSubstr("zero byte"));
  Tensor undefined;
  EXPECT_THROW(writer.tensor("u", undefined), Error);
}

TEST(Checkpoint, RefusesEveryTruncation) {
  const TempFolder folder;
  Everything e = Everything::filled();
  save(folder.file("a.h5"), e);
  const std::string whole = read_file(folder.file("a.h5"));
  for (const size_t length :
       {size_t{1}, size_t{15}, size_t{16}, size_t{100}, size_t{511}, size_t{512}, size_t{513},
        size_t{600}, whole.size() / 2, whole.size() - 1}) {
    write_file(folder.file("cut.h5"), whole.substr(0, length));
    EXPECT_THAT(message_of([&] { CheckpointReader reader(folder.file("cut.h5")); }),
                AllOf(HasSubstr("cut.h5"), HasSubstr("truncated")))
        << length;
  }
  write_file(folder.file("cut.h5"), "");
  EXPECT_THAT(message_of([&] { verify_checkpoint(folder.file("cut.h5")); }), HasSubstr("empty"));
  write_file(folder.file("cut.h5"), whole + "x");
  EXPECT_THAT(message_of([&] { verify_checkpoint(folder.file("cut.h5")); }), HasSubstr("corrupt"));
}

TEST(Checkpoint, FindsEveryFlippedBit) {
  const TempFolder folder;
  int64_t i = 5;
  const std::string path = folder.file("a.h5"), bad = folder.file("bad.h5");
  save_checkpoint(path, [&](StateVisitor& v) { v.value("i", i); });
  const std::string whole = read_file(path);
  int n = 0;
  // 37 is prime to 8 and to the header's size: all bit positions, header and body.
  for (size_t bit = 0; bit < 8 * whole.size(); bit += 37, ++n) {
    std::string flipped = whole;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << bit % 8));
    write_file(bad, flipped);
    ASSERT_THROW(CheckpointReader reader(bad), Error) << "bit " << bit;
  }
  EXPECT_GT(n, 300);
}

TEST(Checkpoint, FindsADataSetThatDoesNotFitItsOwnChecksum) {
  const TempFolder folder;
  const std::string path = folder.file("a.h5");
  Tensor t = Tensor::full({4}, 1.5, DType::f32);
  save_checkpoint(path, [&](StateVisitor& v) { v.tensor("w", t); });
  // A file whose outer checksum is right but whose tensor was altered: only the inner one can tell.
  std::string bytes = read_file(path);
  const float wanted = 1.5f;
  const size_t at = bytes.find(std::string(reinterpret_cast<const char*>(&wanted), 4), 512);
  ASSERT_NE(at, std::string::npos);
  bytes[at] = 1;
  const uint64_t sum = checksum(bytes.data() + 512, static_cast<int64_t>(bytes.size()) - 512);
  char header[513] = {};
  std::snprintf(header, sizeof header, "Bora checkpoint\nformat 1\nbytes %zu\nchecksum %016llx\n",
                bytes.size(), static_cast<unsigned long long>(sum));
  bytes.replace(0, 512, header, 512);
  write_file(path, bytes);
  verify_checkpoint(path);
  EXPECT_THAT(
      message_of([&] { load_checkpoint(path, [&](StateVisitor& v) { v.tensor("w", t); }); }),
      AllOf(HasSubstr("w is corrupt"), HasSubstr("checksum")));
}

TEST(Checkpoint, RefusesForeignFilesAndLaterFormats) {
  const TempFolder folder;
  const std::string path = folder.file("x");
  const auto refusal = [&] { return message_of([&] { CheckpointReader reader(path); }); };
  EXPECT_THAT(refusal(), AllOf(HasSubstr(path), HasSubstr("No such file")));
  EXPECT_THAT(
      message_of([&] { CheckpointReader reader(folder.path()); }),
      AllOf(HasSubstr(folder.path()), HasSubstr("a directory; wanted a file in it, best.h5")));
  write_file(path, "PK\x03\x04 a pickle in a zip archive, as another framework writes");
  EXPECT_THAT(refusal(), HasSubstr("not a Bora checkpoint"));
  {
    auto file = hdf5::File::create(path);
    file.write_dataset("state/w", Tensor::zeros({2}, DType::f32));
    file.close();
  }
  EXPECT_THAT(refusal(), HasSubstr("an HDF5 file, but not a Bora checkpoint"));
  std::string later = "Bora checkpoint\nformat 2\nbytes 1000\nchecksum 0000000000000001\n";
  later.resize(1000);
  write_file(path, later);
  EXPECT_THAT(refusal(), HasSubstr("format version 2, but this program reads up to version 1"));
  std::filesystem::remove(path);
  std::filesystem::create_directory(path);
  EXPECT_THAT(refusal(), HasSubstr("directory"));
}

// The check values that zlib's documentation and RFC 1950 / RFC 3720 give for "123456789".
TEST(Checksum, MatchesThePublishedValuesAndCanBeContinued) {
  EXPECT_EQ(checksum("123456789", 9), 0xcbf43926'091e01deull);
  EXPECT_EQ(checksum("6789", 4, checksum("12345", 5)), checksum("123456789", 9));
  EXPECT_EQ(checksum(nullptr, 0), kChecksumStart);
}

}  // namespace
}  // namespace bora::data
