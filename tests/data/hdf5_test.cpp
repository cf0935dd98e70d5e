// SPDX-License-Identifier: Apache-2.0
#include "data/hdf5.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "data/hdf5_lock.hpp"
#include "tests/data/pipeline_support.hpp"
#include "tests/data/reference_values.hpp"

namespace bora::data::test {
namespace {

using hdf5::File;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

template <class T>
std::vector<T> counted(size_t n) {
  std::vector<T> v(n);
  for (size_t i = 0; i < n; ++i) v[i] = static_cast<T>(static_cast<float>(i % 100));
  return v;
}

bool same_bytes(const Tensor& a, const Tensor& b) {
  return a.shape() == b.shape() && a.dtype() == b.dtype() &&
         (a.numel() == 0 || std::memcmp(a.raw(), b.raw(), static_cast<size_t>(a.bytes())) == 0);
}

TEST(Hdf5, AllTypesAndRanksComeBackBitForBit) {
  TempFolder folder;
  const std::string path = folder.file("a.h5");
  std::vector<std::pair<std::string, Tensor>> written;
  for (const Shape& shape : {Shape{}, Shape{0}, Shape{1}, Shape{3, 0, 2}, Shape{7}, Shape{2, 3, 5},
                             Shape{2, 1, 3, 1, 2, 2}})
    dispatch_any(DType::f32, [&]<class>() {
      const size_t n = static_cast<size_t>(shape.numel());
      const auto add = [&](const Tensor& t) {
        written.emplace_back("group/t" + std::to_string(written.size()), t);
      };
      add(Tensor::from(shape, counted<Half>(n)));
      add(Tensor::from(shape, counted<BFloat16>(n)));
      add(Tensor::from(shape, counted<float>(n)));
      add(Tensor::from(shape, counted<double>(n)));
      add(Tensor::from(shape, counted<uint8_t>(n)));
      add(Tensor::from(shape, counted<int32_t>(n)));
      add(Tensor::from(shape, counted<int64_t>(n)));
    });
  {
    File file = File::create(path);
    hdf5::Storage packed;
    packed.deflate = 5;
    packed.shuffle = packed.fletcher32 = true;
    for (size_t i = 0; i < written.size(); ++i)
      file.write_dataset(written[i].first, written[i].second, i % 2 ? packed : hdf5::Storage{});
    file.close();
  }
  const File file = File::open(path);
  EXPECT_EQ(file.open_group("group").dataset_names().size(), written.size());
  for (const auto& [name, tensor] : written) {
    const hdf5::Dataset d = file.open_dataset(name);
    EXPECT_EQ(d.type().name, name_of(tensor.dtype())) << name;
    EXPECT_TRUE(same_bytes(d.read(), tensor)) << name << " " << tensor.shape() << tensor.dtype();
  }
}

TEST(Hdf5, SpecialFloatsKeepTheirBits) {
  TempFolder folder;
  std::vector<Half> half(65536);
  for (size_t i = 0; i < half.size(); ++i) half[i].bits = static_cast<uint16_t>(i);
  const Tensor t = Tensor::from(Shape{65536}, half);
  File file = File::create(folder.file("a.h5"));
  file.write_dataset("half", t);
  file.close();
  const File in = File::open(folder.file("a.h5"));
  EXPECT_TRUE(same_bytes(in.open_dataset("half").read(), t));
  // Read wider: the conversion of the library against ours, NaN payloads aside.
  const std::vector<float> wide = in.open_dataset("half").read(DType::f32).to_vector<float>();
  for (size_t i = 0; i < half.size(); ++i) {
    const float wanted = static_cast<float>(half[i]);
    if (std::isnan(wanted))
      EXPECT_TRUE(std::isnan(wide[i])) << i;
    else
      EXPECT_EQ(wide[i], wanted) << i;
  }
}

TEST(Hdf5, TellsWhoHasItsLock) {
  TempFolder folder;
  const std::string path = folder.file("a.h5");
  File::create(path).close();
  EXPECT_EQ(hdf5::lock_held().seconds, 0);
  {
    const hdf5::Lock lock;
    const File file = File::open(path);
    const hdf5::LockHeld held = hdf5::lock_held();
    EXPECT_GT(held.seconds, 0);
    EXPECT_EQ(held.file, path);
  }
  EXPECT_EQ(hdf5::lock_held().seconds, 0);
}

TEST(Hdf5, ReadsBlocksAndCountsTheirBytes) {
  TempFolder folder;
  File file = File::create(folder.file("a.h5"));
  const Tensor t = Tensor::from(Shape{4, 5, 6}, counted<float>(120));
  hdf5::Storage storage;
  storage.chunk = {2, 2, 2};
  file.write_dataset("t", t, storage);
  const hdf5::Dataset d = file.open_dataset("t");
  EXPECT_THAT(d.chunk(), ElementsAre(2, 2, 2));
  const int64_t before = hdf5::bytes_read();
  const Tensor block =
      d.read(std::vector<int64_t>{1, 2, 3}, std::vector<int64_t>{2, 3, 2}, DType::f64);
  EXPECT_EQ(hdf5::bytes_read() - before, 2 * 3 * 2 * 4);
  for (int64_t x = 0; x < 2; ++x)
    for (int64_t y = 0; y < 3; ++y)
      for (int64_t z = 0; z < 2; ++z)
        EXPECT_EQ(block.data<double>()[(x * 3 + y) * 2 + z],
                  ((x + 1) * 5 + y + 2) * 6 + z + 3 -
                      (((x + 1) * 5 + y + 2) * 6 + z + 3 >= 100 ? 100 : 0));
  EXPECT_EQ(
      d.read(std::vector<int64_t>{4, 0, 0}, std::vector<int64_t>{0, 5, 6}, DType::f32).numel(), 0);
  EXPECT_THAT(message_of([&] {
                d.read(std::vector<int64_t>{3, 0, 0}, std::vector<int64_t>{2, 5, 6}, DType::f32);
              }),
              AllOf(HasSubstr("a.h5:/t"), HasSubstr("from (3, 0, 0) of (2, 5, 6)"),
                    HasSubstr("(4, 5, 6)")));
  EXPECT_THAT(
      message_of([&] { d.read(std::vector<int64_t>{0}, std::vector<int64_t>{2}, DType::f32); }),
      HasSubstr("does not fit the rank"));
}

TEST(Hdf5, WritesBlocks) {
  TempFolder folder;
  File file = File::create(folder.file("a.h5"));
  hdf5::Dataset d = file.create_dataset("t", Shape{2, 4}, DType::i32);
  d.write(std::vector<int64_t>{1, 1}, Tensor::from(Shape{1, 2}, std::vector<int32_t>{7, 8}));
  EXPECT_THAT(d.read().to_vector<int32_t>(), ElementsAre(0, 0, 0, 0, 0, 7, 8, 0));
  EXPECT_THAT(message_of([&] {
                d.write(Tensor::zeros(Shape{4, 2}, DType::i32));
              }),
              AllOf(HasSubstr("(2, 4)"), HasSubstr("(4, 2)")));
}

TEST(Hdf5, IntegersOutOfRangeAreRefusedNotClipped) {
  TempFolder folder;
  File file = File::create(folder.file("a.h5"));
  file.write_dataset("i", Tensor::from(Shape{2}, std::vector<int32_t>{255, 256}));
  file.write_dataset(
      "n", Tensor::from(Shape{1}, std::vector<float>{std::numeric_limits<float>::quiet_NaN()}));
  file.write_dataset("d", Tensor::from(Shape{2}, std::vector<double>{1e300, 0.1}));
  EXPECT_THAT(message_of([&] { file.open_dataset("i").read(DType::u8); }),
              AllOf(HasSubstr("i32"), HasSubstr("out of the range of u8")));
  EXPECT_THAT(message_of([&] { file.open_dataset("n").read(DType::i64); }),
              HasSubstr("out of the range of i64"));
  EXPECT_THAT(file.open_dataset("d").read(DType::f32).to_vector<float>(),
              ElementsAre(std::numeric_limits<float>::infinity(), 0.1f));
  EXPECT_EQ(file.open_dataset("d").read(DType::f16).to_vector<Half>()[1].bits, Half(0.1f).bits);
}

TEST(Hdf5, AttributesOfAllKindsComeBack) {
  TempFolder folder;
  File file = File::create(folder.file("a.h5"));
  hdf5::Group g = file.create_group("a/b");
  g.set_attribute("i", std::numeric_limits<int64_t>::min());
  g.set_attribute("u", std::numeric_limits<uint64_t>::max());
  g.set_attribute("d", 0.1);
  g.set_attribute("f", 0.5f);
  g.set_attribute("b", true);
  g.set_attribute("s",
                  "gr\xc3\xbc\xc3\x9f"
                  "e");
  g.set_attribute("empty", "");
  g.set_attribute("vi", std::vector<int64_t>{1, -2});
  g.set_attribute("vd", std::vector<double>{});
  g.set_attribute("vs", std::vector<std::string>{"a", "", "ccc"});
  g.set_attribute("s2", std::string("first"));
  g.set_attribute("s2", 5);  // replaces, with another type
  g = hdf5::Group();
  file.close();
  const File in = File::open(folder.file("a.h5"));
  const hdf5::Group r = in.open_group("a").open_group("b");
  EXPECT_EQ(r.attribute<int64_t>("i"), std::numeric_limits<int64_t>::min());
  EXPECT_EQ(r.attribute<uint64_t>("u"), std::numeric_limits<uint64_t>::max());
  EXPECT_EQ(r.attribute<double>("d"), 0.1);
  EXPECT_EQ(r.attribute<double>("f"), 0.5);
  EXPECT_TRUE(r.attribute<bool>("b"));
  EXPECT_EQ(r.attribute<std::string>("s"),
            "gr\xc3\xbc\xc3\x9f"
            "e");
  EXPECT_EQ(r.attribute<std::string>("empty"), "");
  EXPECT_THAT(r.attribute<std::vector<int64_t>>("vi"), ElementsAre(1, -2));
  EXPECT_TRUE(r.attribute<std::vector<double>>("vd").empty());
  EXPECT_THAT(r.attribute<std::vector<std::string>>("vs"), ElementsAre("a", "", "ccc"));
  EXPECT_EQ(r.attribute<int64_t>("s2"), 5);
  EXPECT_EQ(r.attribute_names().size(), 11u);
  // What does not fit.
  EXPECT_THAT(message_of([&] { r.attribute<int64_t>("nothing"); }),
              AllOf(HasSubstr("'nothing'"), HasSubstr("a.h5:/a/b"), HasSubstr("'vd'")));
  EXPECT_THAT(message_of([&] { r.attribute<int64_t>("d"); }), HasSubstr("wanted an integer"));
  EXPECT_THAT(message_of([&] { r.attribute<int64_t>("u"); }), HasSubstr("below 2^63"));
  EXPECT_THAT(message_of([&] { r.attribute<uint64_t>("i"); }), HasSubstr("at least 0"));
  EXPECT_THAT(message_of([&] { r.attribute<int64_t>("vi"); }), HasSubstr("2 values, wanted one"));
  EXPECT_THAT(message_of([&] { r.attribute<double>("s"); }), HasSubstr("wanted numbers"));
  EXPECT_THAT(message_of([&] { r.attribute<std::string>("i"); }), HasSubstr("wanted text"));
  EXPECT_THAT(message_of([&] { r.attribute<bool>("s2"); }), HasSubstr("wanted 0 or 1"));
}

TEST(Hdf5, TooBigAnAttributeIsRefused) {
  TempFolder folder;
  File file = File::create(folder.file("a.h5"));
  EXPECT_THAT(message_of([&] { file.set_attribute("big", std::string(70000, 'x')); }),
              AllOf(HasSubstr("70000 bytes"), HasSubstr("use a data set")));
  file.set_attribute("fits", std::string(64000, 'x'));
  EXPECT_EQ(file.attribute<std::string>("fits").size(), 64000u);
}

TEST(Hdf5, ReadsWhatH5pyWrote) {
  const File file = File::open(kReference + "plain.h5");
  const ReferenceValues half = reference_values("plain.h5", "half");
  EXPECT_EQ(file.open_dataset("half").type().name, "f16");
  EXPECT_EQ(file.open_dataset("half").read(DType::f64).to_vector<double>(), half.values);
  EXPECT_EQ(file.open_dataset("group/inner").read(DType::f64).to_vector<double>(),
            reference_values("plain.h5", "group/inner").values);
  EXPECT_EQ(file.open_dataset("group/inner").read().dtype(), DType::i32);
  EXPECT_EQ(file.open_dataset("scalar").read().item(), 2.5);
  EXPECT_EQ(file.open_dataset("empty").read().shape(), Shape({0, 3}));
  EXPECT_EQ(file.open_dataset("u64").read().to_vector<int64_t>()[1],
            std::numeric_limits<int64_t>::max());
  EXPECT_EQ(file.attribute<std::string>("variable"),
            "gr\xc3\xbc\xc3\x9f"
            "e");
  EXPECT_EQ(file.attribute<std::string>("fixed"), "fixed   ");
  EXPECT_THAT(file.attribute<std::vector<std::string>>("list"), ElementsAre("a", "", "ccc"));
  EXPECT_EQ(file.attribute<int64_t>("one"), 7);
  EXPECT_THAT(file.attribute<std::vector<double>>("numbers"), ElementsAre(1.5, 2.5));
}

TEST(Hdf5, OtherTypesAreRefusedByName) {
  const File file = File::open(kReference + "plain.h5");
  const auto refusal = [&](const char* name) {
    return message_of([&] { file.open_dataset(name).read(); });
  };
  EXPECT_THAT(refusal("flags"), AllOf(HasSubstr("plain.h5:/flags"), HasSubstr("'enum'")));
  EXPECT_THAT(refusal("text"), HasSubstr("'variable text'"));
  EXPECT_THAT(refusal("table"), HasSubstr("'compound'"));
  EXPECT_THAT(refusal("null"), HasSubstr("no elements"));
  EXPECT_THAT(refusal("too_big"), HasSubstr("out of the range of i64"));
  EXPECT_THAT(message_of([&] { file.open_dataset("group"); }),
              AllOf(HasSubstr("wanted a data set 'group'"), HasSubstr("found a group")));
  EXPECT_THAT(message_of([&] { file.open_dataset("nothing/here"); }),
              AllOf(HasSubstr("found nothing"), HasSubstr("'half'")));
  EXPECT_THAT(message_of([&] { file.open_group("half"); }), HasSubstr("found a data set"));
}

}  // namespace
}  // namespace bora::data::test
