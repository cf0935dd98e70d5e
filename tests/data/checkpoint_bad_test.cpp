// SPDX-License-Identifier: Apache-2.0
// Row 145: what is said of a checkpoint whose header or entries are not as they were written.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <hdf5.h>

#include <string>
#include <vector>

#include "data/checkpoint.hpp"
#include "data/checkpoint_format.hpp"
#include "data/hdf5.hpp"
#include "tests/data/pipeline_support.hpp"

namespace bora::data::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class BadCheckpoint : public ::testing::Test {
 protected:
  BadCheckpoint() { save(); }
  void save() {
    save_checkpoint(path, [&](StateVisitor& v) { visit(v); });
  }
  void visit(StateVisitor& v) {
    v.value("number", number);
    v.value("list", list);
    v.value("text", text);
  }
  std::string told() {
    const std::string out =
        message_of([&] { load_checkpoint(path, [&](StateVisitor& v) { visit(v); }); });
    EXPECT_THAT(out, HasSubstr(path));
    return out;
  }
  std::string told_of(const std::string& content) {
    write_file(path, content);
    return told();
  }
  /// Puts a data set of zeros in the place of an entry, with its kind and checksums that fit.
  void replace(const std::string& entry, const char* kind, hid_t type,
               const std::vector<hsize_t>& extents) {
    save();
    {
      const hdf5::Lock lock;
      const hdf5::Id file(H5Fopen(path.c_str(), H5F_ACC_RDWR, H5P_DEFAULT));
      const std::string name = "state/" + entry;
      ASSERT_GE(H5Ldelete(file.get(), name.c_str(), H5P_DEFAULT), 0);
      const hdf5::Id space(
          H5Screate_simple(static_cast<int>(extents.size()), extents.data(), nullptr));
      const hdf5::Id one(H5Screate(H5S_SCALAR)), letters(H5Tcopy(H5T_C_S1));
      H5Tset_size(letters.get(), std::string(kind).size());
      const hdf5::Id set(H5Dcreate2(file.get(), name.c_str(), type, space.get(), H5P_DEFAULT,
                                    H5P_DEFAULT, H5P_DEFAULT));
      const hdf5::Id a(
          H5Acreate2(set.get(), "kind", letters.get(), one.get(), H5P_DEFAULT, H5P_DEFAULT));
      ASSERT_GE(H5Awrite(a.get(), letters.get(), kind), 0);
      const std::string zeros(H5Tget_size(type) * (extents[0] < 10 ? extents[0] : 0), '\0');
      const uint64_t sum = checksum(zeros.data(), std::ssize(zeros));
      const hdf5::Id b(H5Acreate2(set.get(), "checksum", H5T_NATIVE_UINT64, one.get(), H5P_DEFAULT,
                                  H5P_DEFAULT));
      ASSERT_GE(H5Awrite(b.get(), H5T_NATIVE_UINT64, &sum), 0);
    }
    const std::string content = read_file(path);
    const auto bytes = static_cast<int64_t>(content.size());
    const uint64_t sum =
        checksum(content.data() + detail::kHeaderBytes, bytes - detail::kHeaderBytes);
    write_file(path, detail::checkpoint_header(bytes, sum) +
                         content.substr(static_cast<size_t>(detail::kHeaderBytes)));
    ASSERT_NO_THROW(verify_checkpoint(path));
  }

  TempFolder folder;
  const std::string path = folder.file("last.h5");
  int64_t number = 7;
  std::vector<int64_t> list = {1, 2, 3};
  std::string text = "a text";
};

TEST_F(BadCheckpoint, FilesThatAreCutOrGoOnAreTold) {
  const std::string whole = read_file(path), size = std::to_string(whole.size());
  EXPECT_THAT(told_of(whole.substr(0, 10)), HasSubstr("truncated: only 10 bytes are left"));
  EXPECT_THAT(told_of(whole.substr(0, 100)), HasSubstr("truncated: only 100 bytes are left"));
  EXPECT_THAT(told_of(whole.substr(0, 600)), HasSubstr("truncated: 600 bytes of " + size));
  EXPECT_THAT(told_of(whole + "x"), HasSubstr("corrupt: bytes follow after its end at " + size));
}

TEST_F(BadCheckpoint, DamageIsToldByItsPlace) {
  const std::string whole = read_file(path);
  std::string bad = whole;
  bad[511] = 'x';
  EXPECT_THAT(told_of(bad), HasSubstr("corrupt: its header (the first 512 bytes) is damaged"));
  bad = whole;
  bad[700] = static_cast<char>(bad[700] ^ 1);
  EXPECT_THAT(told_of(bad),
              AllOf(HasSubstr("corrupt: its checksum is "), HasSubstr(", the header says ")));
}

TEST_F(BadCheckpoint, EntriesThatAreNotOfTheirKindAreTold) {
  const hdf5::Lock lock;  // opens the library, whose types are no constants
  replace("number", "i64", H5T_STD_I32LE, {1});
  EXPECT_THAT(told(), HasSubstr("/state/number has elements of another size than its kind says"));
  replace("number", "i64", H5T_STD_I64LE, {2});
  EXPECT_THAT(told(), HasSubstr("/state/number has 2 elements, more or fewer than its kind says"));
  replace("list", "list of i64", H5T_STD_I64LE, {hsize_t{1} << 30});
  EXPECT_THAT(told(),
              HasSubstr("/state/list has 1073741824 elements of 8 bytes, more than the file "
                        "can hold"));
  replace("text", "text", H5T_STD_I64LE, {1});
  EXPECT_THAT(told(), HasSubstr("/state/text is not text of fixed length"));
  const hdf5::Id letter(H5Tcopy(H5T_C_S1));
  replace("text", "text", letter.get(), {2});
  EXPECT_THAT(told(), HasSubstr("/state/text has 2 texts, wanted one"));
  replace("text", "f64", H5T_STD_I64LE, {1});
  EXPECT_THAT(told(), HasSubstr("text is a f64 in the file, wanted a text"));
}

}  // namespace
}  // namespace bora::data::test
