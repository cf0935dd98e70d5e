// SPDX-License-Identifier: Apache-2.0
// safetensors: what is written is read, what is wrong is told (feature 145: a foreign or damaged
// file gives a clear error).
#include "data/safetensors.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "core/rng.hpp"
#include "tests/data/pipeline_support.hpp"
#include "tests/support/random.hpp"

namespace bora::data {
namespace {

using test::message_of;
using test::read_file;
using test::TempFolder;
using test::write_file;
using ::testing::AllOf;
using ::testing::HasSubstr;

std::string bytes_of(const Tensor& t) {
  return t.bytes() == 0
             ? std::string()
             : std::string(static_cast<const char*>(t.raw()), static_cast<size_t>(t.bytes()));
}

/// A file of this header and so many bytes of data.
std::string file_of(const std::string& header, int64_t data_bytes) {
  const uint64_t length = header.size();
  std::string file(sizeof length, '\0');
  std::memcpy(file.data(), &length, sizeof length);
  return file + header + std::string(static_cast<size_t>(data_bytes), '\x3f');
}

std::string one(const std::string& dtype, const std::string& shape, const std::string& offsets) {
  return R"({"a":{"dtype":)" + dtype + R"(,"shape":)" + shape + R"(,"data_offsets":)" + offsets +
         "}}";
}

/// What opening such a file says; every message begins with the file's path.
std::string refusal(const std::string& content) {
  const TempFolder folder;
  const std::string path = folder.file("w.safetensors");
  write_file(path, content);
  const std::string message = message_of([&] { SafetensorsReader reader(path); });
  EXPECT_THAT(message, HasSubstr("w.safetensors"));
  return message;
}
std::string refusal(const std::string& header, int64_t data_bytes) {
  return refusal(file_of(header, data_bytes));
}

TEST(Safetensors, EveryTypeComesBackBitForBit) {
  const TempFolder folder;
  const std::string path = folder.file("all.safetensors");
  std::vector<NamedTensor> tensors;
  for (const DType type :
       {DType::u8, DType::f16, DType::bf16, DType::i32, DType::f32, DType::i64, DType::f64}) {
    const std::string name = "of." + std::string(name_of(type));
    tensors.push_back(
        {name, bora::test::make_tensor({3, 1, 5}, bora::test::integer_values(15, 100, 1), type)});
    tensors.push_back({name + ".empty", Tensor::zeros({2, 0, 3}, type)});
    tensors.push_back({name + ".scalar", Tensor::full({}, 7, type)});
  }
  const TextMap texts{{"a", "plain"}, {"b", "\"quoted\"\n\xc3\xa4"}, {"", ""}};
  write_safetensors(path, tensors, texts);

  const SafetensorsReader reader(path);
  EXPECT_EQ(reader.metadata(), texts);
  EXPECT_EQ(reader.entries().size(), tensors.size());
  for (const NamedTensor& t : tensors) {
    const Tensor back = reader.read(t.name);
    EXPECT_EQ(back.shape(), t.tensor.shape()) << t.name;
    EXPECT_EQ(back.dtype(), t.tensor.dtype()) << t.name;
    EXPECT_EQ(bytes_of(back), bytes_of(t.tensor)) << t.name;
    EXPECT_EQ(reader.entries().at(t.name).begin % size_of(t.tensor.dtype()), 0) << t.name;
  }
  EXPECT_THAT(message_of([&] { reader.read("of"); }),
              AllOf(HasSubstr("all.safetensors"), HasSubstr("no tensor 'of'")));
}

TEST(Safetensors, TheFileIsAsTheFormatSays) {
  const TempFolder folder;
  const std::string path = folder.file("a.safetensors");
  write_safetensors(path, {{"x", Tensor::from<float>({2}, std::vector<float>{1.0f, -2.0f})}},
                    {{"k", "v"}});
  const std::string header =
      R"({"__metadata__":{"k":"v"},"x":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";
  const std::string padded = header + std::string((8 - header.size() % 8) % 8, ' ');
  EXPECT_EQ(read_file(path), file_of(padded, 0) + std::string("\0\0\x80\x3f\0\0\0\xc0", 8));
  write_safetensors(path, {});
  EXPECT_EQ(read_file(path), file_of("{}      ", 0)) << "a file without tensors";
  EXPECT_EQ(SafetensorsReader(path).entries().size(), 0u);
}

TEST(Safetensors, WriterRefusesWhatTheFormatHasNot) {
  const TempFolder folder;
  const std::string path = folder.file("a.safetensors");
  const Tensor x = Tensor::zeros({1}, DType::f32);
  const auto says = [&](const std::vector<NamedTensor>& tensors, const TextMap& texts = {}) {
    return message_of([&] { write_safetensors(path, tensors, texts); });
  };
  EXPECT_THAT(says({{"x", x}, {"x", x}}), AllOf(HasSubstr(path), HasSubstr("named 'x'")));
  EXPECT_THAT(says({{"", x}}), HasSubstr("cannot be named ''"));
  EXPECT_THAT(says({{"__metadata__", x}}), HasSubstr("cannot be named '__metadata__'"));
  EXPECT_THAT(says({{"x", Tensor()}}), HasSubstr("'x' is undefined"));
  EXPECT_THAT(says({{"\xff", x}}), HasSubstr("not UTF-8"));
  EXPECT_THAT(says({{"x", x}}, {{"k", "\xff"}}), HasSubstr("not UTF-8"));
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST(Safetensors, RefusesWhatIsNoHeader) {
  const TempFolder folder;
  EXPECT_THAT(message_of([&] { SafetensorsReader r(folder.file("none")); }),
              AllOf(HasSubstr("none"), HasSubstr("No such file")));
  EXPECT_THAT(message_of([&] { SafetensorsReader r(folder.file(".")); }), HasSubstr("a folder"));
  EXPECT_THAT(refusal(""), HasSubstr("0 bytes"));
  EXPECT_THAT(refusal("\x89HDF"), HasSubstr("4 bytes"));
  EXPECT_THAT(refusal("\x89HDF\r\n\x1a\n and so on"), HasSubstr("wanted at most 100000000"));
  EXPECT_THAT(refusal(file_of("{}", 0).replace(0, 1, "\x03")),
              HasSubstr("a header of 3 bytes in a file of 10"));
  EXPECT_THAT(refusal("", 0), HasSubstr("does not begin with '{'"));
  EXPECT_THAT(refusal("  {}", 0), HasSubstr("does not begin with '{'"));
  EXPECT_THAT(refusal(R"({"a":)", 0), HasSubstr("not JSON"));
  EXPECT_THAT(refusal("{} x", 0), HasSubstr("not JSON"));
  EXPECT_THAT(refusal("{\"\xff\":1}", 0), HasSubstr("not JSON"));
  EXPECT_THAT(refusal(R"({"a":)" + std::string(1'000'000, '['), 0), HasSubstr("nests deeper"));
}

TEST(Safetensors, RefusesKeysThatDoNotFit) {
  const std::string good = R"({"dtype":"F32","shape":[1],"data_offsets":[0,4]})";
  EXPECT_THAT(refusal("{\"a\":" + good + ",\"a\":" + good + "}", 4), HasSubstr("key 'a' twice"));
  EXPECT_THAT(refusal(R"({"a":{"dtype":"F32","dtype":"F32","shape":[1],"data_offsets":[0,4]}})", 4),
              HasSubstr("key 'dtype' twice in 'a'"));
  EXPECT_THAT(refusal(R"({"__metadata__":{"k":"1","k":"2"}})", 0),
              HasSubstr("key 'k' twice in '__metadata__'"));
  EXPECT_THAT(refusal(R"({"a":{"dtype":"F32","shape":[1]}})", 4),
              HasSubstr("tensor 'a': no key 'data_offsets'"));
  EXPECT_THAT(refusal(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4],"order":"F"}})", 4),
              HasSubstr("tensor 'a': unknown key 'order'"));
  EXPECT_THAT(refusal(R"({"a":[1]})", 4), HasSubstr("tensor 'a': [1], wanted an object"));
  EXPECT_THAT(refusal(R"({"__metadata__":[]})", 0), HasSubstr("__metadata__ is []"));
  EXPECT_THAT(refusal(R"({"__metadata__":{"k":1}})", 0), HasSubstr("'k' is 1, wanted text"));
}

TEST(Safetensors, RefusesTypesAndShapes) {
  EXPECT_THAT(refusal(one(R"("F8_E4M3")", "[4]", "[0,4]"), 4),
              HasSubstr(R"(dtype "F8_E4M3", wanted one of F32, F16, BF16, F64, I64, I32, U8)"));
  EXPECT_THAT(refusal(one("1", "[4]", "[0,4]"), 4), HasSubstr("dtype 1, wanted"));
  const std::string f32 = R"("F32")";
  EXPECT_THAT(refusal(one(f32, "4", "[0,4]"), 4), HasSubstr("shape 4, wanted a list"));
  EXPECT_THAT(refusal(one(f32, "[1,1,1,1,1,1,1]", "[0,4]"), 4), HasSubstr("at most 6"));
  for (const char* extent : {"-1", "1.0", "\"1\"", "null", "18446744073709551616"})
    EXPECT_THAT(refusal(one(f32, "[" + std::string(extent) + "]", "[0,4]"), 4),
                HasSubstr("whole numbers from 0"))
        << extent;
}

TEST(Safetensors, RefusesOffsetsThatDoNotFit) {
  const std::string f32 = R"("F32")";
  for (const char* offsets : {"4", "[0]", "[0,4,8]", "[4,0]", "[-4,0]", "[0,4.0]", "[0,\"4\"]"})
    EXPECT_THAT(refusal(one(f32, "[1]", offsets), 4), HasSubstr("wanted [begin, end]")) << offsets;
  EXPECT_THAT(refusal(one(f32, "[2]", "[0,4]"), 4),
              HasSubstr("data_offsets [0,4] are 4 bytes, shape (2) of f32 wants 8"));
  EXPECT_THAT(refusal(one(f32, "[4611686018427387905]", "[0,4]"), 4), HasSubstr("than any file"));
  EXPECT_THAT(refusal(one(f32, "[4611686018427387905,4,0]", "[0,0]"), 0),
              HasSubstr("than any file"));
  EXPECT_THAT(refusal(one(f32, "[1]", "[4,8]"), 8),
              AllOf(HasSubstr("'a' begins at byte 4, wanted 0"), HasSubstr("hole")));
  EXPECT_THAT(refusal(one(f32, "[2]", "[0,8]"), 4), HasSubstr("ends at byte 8 of the data"));
  EXPECT_THAT(refusal(one(f32, "[1]", "[0,4]"), 7), HasSubstr("3 bytes belong to none"));
  const auto two = [&](const std::string& a, const std::string& b) {
    return R"({"a":{"dtype":"U8","shape":[4],"data_offsets":)" + a +
           R"(},"b":{"dtype":"U8","shape":[4],"data_offsets":)" + b + "}}";
  };
  EXPECT_THAT(refusal(two("[0,4]", "[2,6]"), 6),
              AllOf(HasSubstr("'b' begins at byte 2, wanted 4"), HasSubstr("overlaps tensor 'a'")));
  EXPECT_THAT(refusal(two("[0,4]", "[0,4]"), 4), HasSubstr("overlaps"));
  EXPECT_THAT(refusal(two("[0,4]", "[6,10]"), 10), HasSubstr("a hole after tensor 'a'"));
  // Another order in the header than in the data is fine.
  const TempFolder folder;
  write_file(folder.file("w"), file_of(two("[4,8]", "[0,4]"), 8));
  EXPECT_EQ(SafetensorsReader(folder.file("w")).entries().at("b").begin, 0);
}

TEST(Safetensors, TellsWhenTheFileShrankAfterItWasOpened) {
  const TempFolder folder;
  const std::string path = folder.file("w");
  write_safetensors(path, {{"x", Tensor::zeros({100}, DType::f32)}});
  const SafetensorsReader reader(path);
  std::filesystem::resize_file(path, 200);
  EXPECT_THAT(message_of([&] { reader.read("x"); }), HasSubstr(path));
}

// Every truncation is refused; a changed byte is refused or changes a name, a text or a value, and
// never does harm.
TEST(Safetensors, DamagedFilesNeverDoHarm) {
  const TempFolder folder;
  const std::string path = folder.file("w");
  write_safetensors(path,
                    {{"x", Tensor::zeros({2, 3}, DType::f32)},
                     {"y", Tensor::zeros({0}, DType::f16)},
                     {"z", Tensor::zeros({5}, DType::u8)}},
                    {{"key", "text"}});
  const std::string good = read_file(path);
  for (size_t length = 0; length < good.size(); ++length) {
    write_file(path, good.substr(0, length));
    EXPECT_THROW(SafetensorsReader{path}, Error) << length << " bytes";
  }
  const RngKey key{2026, rng_stream("damage")};
  int refused = 0;
  constexpr uint64_t kTries = 1000;
  for (uint64_t i = 0; i < kTries; ++i) {
    std::string bad = good;
    const auto n_changes = 1 + key.below(3, 10 * i);
    for (uint64_t k = 0; k < n_changes; ++k)
      bad[key.below(bad.size(), 10 * i + 2 * k + 1)] =
          static_cast<char>(key.below(256, 10 * i + 2 * k + 2));
    write_file(path, bad);
    try {
      const SafetensorsReader reader(path);
      for (const auto& [name, entry] : reader.entries())
        EXPECT_EQ(reader.read(name).bytes(), entry.end - entry.begin);
    } catch (const Error& e) {
      ++refused;
      EXPECT_THAT(e.what(), HasSubstr(path));
    }
  }
  EXPECT_GT(refused, static_cast<int>(kTries / 2)) << "most of the file is its header";
}

}  // namespace
}  // namespace bora::data
