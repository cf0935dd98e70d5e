// SPDX-License-Identifier: Apache-2.0
#include "data/hdf5.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <thread>

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

TEST(Hdf5, ForeignFilesAreRefusedWithAReason) {
  TempFolder folder;
  const auto refusal = [&](const std::string& path) {
    return message_of([&] { File::open(path); });
  };
  EXPECT_THAT(refusal(folder.file("none.nc")),
              AllOf(HasSubstr("none.nc"), HasSubstr("No such file"), HasSubstr("errno 2")));
  write_file(folder.file("empty.nc"), "");
  EXPECT_THAT(refusal(folder.file("empty.nc")), AllOf(HasSubstr("empty.nc"), HasSubstr("0 bytes")));
  write_file(folder.file("text.nc"), "this is text, and a little longer than a signature");
  EXPECT_THAT(refusal(folder.file("text.nc")), HasSubstr("not an HDF5 or NetCDF-4 file"));
  write_file(folder.file("gz.nc"), "\x1f\x8b\x08 and more");
  EXPECT_THAT(refusal(folder.file("gz.nc")), HasSubstr("gunzip"));
  for (const char* name : {"classic1.nc", "classic2.nc", "classic5.nc"})
    EXPECT_THAT(refusal(kReference + name),
                AllOf(HasSubstr(name), HasSubstr("NetCDF-3"), HasSubstr("nccopy -k nc4")));
  EXPECT_THAT(refusal(folder.path()), HasSubstr(folder.path()));
}

TEST(Hdf5, TruncatedFilesAreRefusedWithAReason) {
  TempFolder folder;
  {
    File file = File::create(folder.file("a.h5"));
    file.write_dataset("t", Tensor::zeros(Shape{1000}, DType::f64));
    file.close();
  }
  const std::string whole = read_file(folder.file("a.h5"));
  for (size_t n : {whole.size() - 1, whole.size() / 2, size_t{100}, size_t{9}, size_t{4}}) {
    write_file(folder.file("cut.h5"), whole.substr(0, n));
    EXPECT_THAT(message_of([&] { File::open(folder.file("cut.h5")); }), HasSubstr("cut.h5")) << n;
  }
  write_file(folder.file("cut.h5"), whole.substr(0, whole.size() / 2));
  EXPECT_THAT(message_of([&] { File::open(folder.file("cut.h5")); }), HasSubstr("truncated"));
  EXPECT_EQ(hdf5::open_objects(), 0);
}

TEST(Hdf5, ADamagedChunkIsFoundByItsChecksum) {
  TempFolder folder;
  {
    File file = File::create(folder.file("a.h5"));
    hdf5::Storage storage;
    storage.fletcher32 = true;
    file.write_dataset("t", Tensor::full(Shape{1000}, 1.25, DType::f64), storage);
    file.close();
  }
  std::string bytes = read_file(folder.file("a.h5"));
  const double value = 1.25;
  const size_t at = bytes.find(std::string(reinterpret_cast<const char*>(&value), 8)) + 4000;
  bytes[at] = static_cast<char>(bytes[at] ^ 1);
  write_file(folder.file("b.h5"), bytes);
  const File file = File::open(folder.file("b.h5"));
  EXPECT_THAT(message_of([&] { file.open_dataset("t").read(); }),
              AllOf(HasSubstr("b.h5:/t"), HasSubstr("checksum")));
}

TEST(Hdf5, AMissingFolderAndAFullNameAreNamed) {
  EXPECT_THAT(message_of([] { File::create("/nowhere/at/all.h5"); }),
              AllOf(HasSubstr("/nowhere/at/all.h5"), HasSubstr("No such file")));
  TempFolder folder;
  File file = File::create(folder.file("a.h5"));
  file.write_dataset("t", Tensor::scalar(1.0f));
  EXPECT_THAT(message_of([&] { file.write_dataset("t", Tensor::scalar(1.0f)); }),
              AllOf(HasSubstr("a.h5:/t"), HasSubstr("already exists")));
}

TEST(Hdf5, NoHandleStaysOpenAfterUseOrFailure) {
  TempFolder folder;
  ASSERT_EQ(hdf5::open_objects(), 0);
  {
    File file = File::create(folder.file("a.h5"));
    file.create_group("g").set_attribute("a", 1);
    file.write_dataset("g/t", Tensor::zeros(Shape{3}, DType::f32));
    EXPECT_GT(hdf5::open_objects(), 0);
    EXPECT_THROW(file.open_dataset("none"), Error);
    EXPECT_THROW(file.open_group("g").attribute<std::string>("a"), Error);
    File moved = std::move(file);
    moved.close();
    EXPECT_EQ(hdf5::open_objects(), 0);
    moved.close();  // again: nothing
  }
  { const Tensor t = File::open(folder.file("a.h5")).open_dataset("g/t").read(); }
  EXPECT_EQ(hdf5::open_objects(), 0);
  const File closed;
  EXPECT_THAT(message_of([&] { closed.names(); }), HasSubstr("not open"));
}

/// Holds the lock that HDF5 would take, as another process would.
class LockedFile {
 public:
  explicit LockedFile(const std::string& path) : fd_(::open(path.c_str(), O_RDWR)) {
    BORA_CHECK(fd_ >= 0 && ::flock(fd_, LOCK_EX | LOCK_NB) == 0, "cannot lock ", path);
  }
  ~LockedFile() { ::close(fd_); }

 private:
  int fd_;
};

void write_scalar(const std::string& path) {
  File file = File::create(path);
  file.write_dataset("t", Tensor::scalar(3.0f));
  file.close();
}

TEST(Hdf5, AFileThatIsLockedElsewhereCanBeReadAndReplaced) {
  TempFolder folder;
  write_scalar(folder.file("a.h5"));
  const LockedFile other(folder.file("a.h5"));
  EXPECT_EQ(File::open(folder.file("a.h5")).open_dataset("t").read().item(), 3.0);
  write_scalar(folder.file("a.h5"));
}

TEST(Hdf5, AFailingLockNamesFileReasonAndSwitch) {
  // In a new process, since the library reads the variable once.
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        {
          ::setenv("HDF5_USE_FILE_LOCKING", "TRUE", 1);
          TempFolder folder;
          write_scalar(folder.file("a.h5"));
          const LockedFile other(folder.file("a.h5"));
          const std::string text = message_of([&] { File::open(folder.file("a.h5")); });
          std::fprintf(stderr, "%s\n", text.c_str());
        }
        ::_exit(0);
      },
      ::testing::ExitedWithCode(0), "a.h5.*errno = 11.*HDF5_USE_FILE_LOCKING=FALSE");
}

TEST(Hdf5, AHandleFromBeforeForkIsRefusedInTheChild) {
  TempFolder folder;
  File file = File::create(folder.file("a.h5"));
  file.write_dataset("t", Tensor::scalar(3.0f));
  file.flush();
  const pid_t child = ::fork();
  if (child == 0) {
    int code = 1;
    try {
      file.open_dataset("t");
    } catch (const Error& e) {
      code = std::strstr(e.what(), "fork()") != nullptr ? 0 : 2;
    }
    ::_exit(code);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

// The lock is ours, so this holds with a library that is not thread-safe too.
TEST(Hdf5, FourThreadsReadAndFailAtWill) {
  TempFolder folder;
  for (int i = 0; i < 4; ++i) {
    File file = File::create(folder.file(std::to_string(i)));
    hdf5::Storage storage;
    storage.deflate = 1;
    file.write_dataset("t", Tensor::full(Shape{64, 5}, i, DType::f32), storage);
    file.set_attribute("i", i);
    file.close();
  }
  std::vector<std::thread> threads;
  std::array<int, 4> wrong{};
  for (size_t t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (size_t k = 0; k < 250; ++k) {
        const size_t i = (t + k) % 4;
        const File file = File::open(folder.file(std::to_string(i)));
        const Tensor x = file.open_dataset("t").read();
        wrong[t] += x.data<float>()[319] != static_cast<float>(i);
        wrong[t] += file.attribute<int64_t>("i") != static_cast<int64_t>(i);
        try {
          file.open_dataset("none");
          ++wrong[t];
        } catch (const Error&) {
        }
      }
    });
  for (std::thread& t : threads) t.join();
  EXPECT_THAT(wrong, ElementsAre(0, 0, 0, 0));
  EXPECT_EQ(hdf5::open_objects(), 0);
}

TEST(Hdf5, EqualContentsGiveEqualBytes) {
  TempFolder folder;
  for (const char* name : {"a", "b"}) {
    File file = File::create(folder.file(name));
    file.write_dataset("g/t", Tensor::full(Shape{100}, 2, DType::f32), {{10}, 4, true, true});
    file.set_attribute("a", "text");
    file.close();
    if (*name == 'a') ::usleep(1100000);  // time stamps count seconds
  }
  EXPECT_EQ(read_file(folder.file("a")), read_file(folder.file("b")));
}

}  // namespace
}  // namespace bora::data::test
