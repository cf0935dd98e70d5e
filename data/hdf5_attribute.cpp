// SPDX-License-Identifier: Apache-2.0
#include <hdf5.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <type_traits>
#include <utility>

#include "core/crash_note.hpp"
#include "core/error.hpp"
#include "data/hdf5.hpp"

namespace bora::data::hdf5 {

namespace {

/// The old file format keeps an attribute inside the object's header.
constexpr int64_t kMaxAttributeBytes = 64 * 1024 - 512;

herr_t append_name(hid_t, const char* name, const H5A_info_t*, void* out) {
  static_cast<std::vector<std::string>*>(out)->emplace_back(name);
  return 0;
}

constexpr int64_t kMostRead = int64_t{64} << 20;

struct OpenAttribute {
  Id id, type, space;
  TypeInfo info;
  int64_t n = 0;  ///< elements
};

OpenAttribute open(const Object& object, const std::string& name) {
  BORA_CHECK(object.has_attribute(name), "there is no such attribute; attributes here: ",
             detail::list_of(object.attribute_names()));
  OpenAttribute a;
  a.id = Id(BORA_HDF5(H5Aopen(object.id(), name.c_str(), H5P_DEFAULT)));
  a.type = Id(BORA_HDF5(H5Aget_type(a.id.get())));
  a.space = Id(BORA_HDF5(H5Aget_space(a.id.get())));
  a.info = detail::describe_type(a.type.get());
  a.n = H5Sget_simple_extent_type(a.space.get()) == H5S_NULL
            ? 0
            : static_cast<int64_t>(BORA_HDF5(H5Sget_simple_extent_npoints(a.space.get())));
  // Beyond 64 KiB an attribute is a rarity; a damaged one can be of any size.
  BORA_CHECK(a.n <= kMostRead && a.info.bytes <= kMostRead && a.n * a.info.bytes <= kMostRead,
             "it holds ", a.n, " elements of ", a.info.bytes, " bytes: more than ", kMostRead,
             " bytes are not read");
  return a;
}

/// Numbers as T (int64_t, uint64_t or double), exactly, or an error.
template <class T>
std::vector<T> numbers(const OpenAttribute& a) {
  using Kind = TypeInfo::Kind;
  BORA_CHECK(a.info.kind == Kind::integer || a.info.kind == Kind::floating, "it holds '",
             a.info.name, "', wanted numbers");
  const size_t n = static_cast<size_t>(a.n);
  const auto read = [&](hid_t memory, void* out) {
    if (n > 0) BORA_HDF5(H5Aread(a.id.get(), memory, out));
  };
  std::vector<T> out(n);
  if constexpr (std::is_same_v<T, double>) {
    read(H5T_NATIVE_DOUBLE, out.data());
  } else if (a.info.kind == Kind::floating) {
    std::vector<double> values(n);
    read(H5T_NATIVE_DOUBLE, values.data());
    // 2^63 and 2^64 are the first doubles that are too big.
    const double low = std::is_signed_v<T> ? -9223372036854775808.0 : 0.0;
    const double high = std::is_signed_v<T> ? 9223372036854775808.0 : 18446744073709551616.0;
    for (size_t i = 0; i < n; ++i) {
      BORA_CHECK(values[i] == std::floor(values[i]) && values[i] >= low && values[i] < high,
                 "it holds ", values[i], ", wanted an integer");
      out[i] = static_cast<T>(values[i]);
    }
  } else if (a.info.is_signed) {
    std::vector<int64_t> values(n);
    read(H5T_NATIVE_INT64, values.data());
    for (size_t i = 0; i < n; ++i) {
      BORA_CHECK(std::in_range<T>(values[i]), "it holds ", values[i], ", wanted at least 0");
      out[i] = static_cast<T>(values[i]);
    }
  } else {
    std::vector<uint64_t> values(n);
    read(H5T_NATIVE_UINT64, values.data());
    for (size_t i = 0; i < n; ++i) {
      BORA_CHECK(std::in_range<T>(values[i]), "it holds ", values[i], ", wanted below 2^63");
      out[i] = static_cast<T>(values[i]);
    }
  }
  return out;
}

/// Frees what the library allocated for variable-length elements.
class Reclaim {
 public:
  Reclaim(int64_t type, int64_t space, void* data) : type_(type), space_(space), data_(data) {}
  ~Reclaim() { BORA_HDF5_WARN(H5Dvlen_reclaim(type_, space_, H5P_DEFAULT, data_)); }
  Reclaim(const Reclaim&) = delete;
  Reclaim& operator=(const Reclaim&) = delete;

 private:
  int64_t type_, space_;
  void* data_;
};

std::vector<std::string> texts(const OpenAttribute& a) {
  BORA_CHECK(a.info.kind == TypeInfo::Kind::text, "it holds '", a.info.name, "', wanted text");
  const size_t n = static_cast<size_t>(a.n);
  std::vector<std::string> out(n);
  if (n == 0) return out;
  if (a.info.name == "variable text") {
    std::vector<char*> pointers(n, nullptr);
    const Id memory(BORA_HDF5(H5Tcopy(a.type.get())));
    BORA_HDF5(H5Aread(a.id.get(), memory.get(), pointers.data()));
    const Reclaim reclaim(memory.get(), a.space.get(), pointers.data());
    for (size_t i = 0; i < n; ++i) out[i] = pointers[i] == nullptr ? "" : pointers[i];
    return out;
  }
  const size_t width = static_cast<size_t>(a.info.bytes);
  std::vector<char> bytes(n * width);
  BORA_HDF5(H5Aread(a.id.get(), a.type.get(), bytes.data()));
  const bool spaces = H5Tget_strpad(a.type.get()) == H5T_STR_SPACEPAD;
  for (size_t i = 0; i < n; ++i) {
    const char* begin = bytes.data() + i * width;
    out[i].assign(begin, strnlen(begin, width));
    while (spaces && !out[i].empty() && out[i].back() == ' ') out[i].pop_back();
  }
  return out;
}

template <class V>
V only(const std::vector<V>& values) {
  BORA_CHECK(values.size() == 1, "it holds ", values.size(), " values, wanted one");
  return values[0];
}

template <class T>
T value_of(const OpenAttribute& a) {
  if constexpr (std::is_same_v<T, std::string>) {
    // NetCDF writes an empty text as an array without elements.
    return a.n == 0 && a.info.kind == TypeInfo::Kind::text ? std::string() : only(texts(a));
  } else if constexpr (std::is_same_v<T, bool>) {
    const int64_t value = only(numbers<int64_t>(a));
    BORA_CHECK(value == 0 || value == 1, "it holds ", value, ", wanted 0 or 1");
    return value == 1;
  } else if constexpr (std::is_same_v<T, std::vector<std::string>>) {
    return texts(a);
  } else if constexpr (std::is_arithmetic_v<T>) {
    return only(numbers<T>(a));
  } else {
    return numbers<typename T::value_type>(a);
  }
}

/// Creates (replacing) an attribute and writes it.  n < 0: a scalar.
void put(Object& object, const std::string& name, int64_t type, int64_t n, const void* data) {
  Lock lock;
  with_context("writing attribute '" + name + "' of '" + object.label() + "'", [&] {
    const int64_t bytes = std::max<int64_t>(n, 1) * static_cast<int64_t>(H5Tget_size(type));
    BORA_CHECK(!name.empty(), "the name is empty");
    BORA_CHECK(bytes <= kMaxAttributeBytes, bytes, " bytes, at most ", kMaxAttributeBytes,
               " fit in an attribute; use a data set");
    if (object.has_attribute(name)) BORA_HDF5(H5Adelete(object.id(), name.c_str()));
    const hsize_t extent = n < 0 ? 1 : static_cast<hsize_t>(n);
    const Id space(n < 0 ? BORA_HDF5(H5Screate(H5S_SCALAR))
                         : BORA_HDF5(H5Screate_simple(1, &extent, nullptr)));
    const Id attribute(BORA_HDF5(
        H5Acreate2(object.id(), name.c_str(), type, space.get(), H5P_DEFAULT, H5P_DEFAULT)));
    if (extent > 0) BORA_HDF5(H5Awrite(attribute.get(), type, data));
  });
}

}  // namespace

bool Object::has_attribute(const std::string& name) const {
  Lock lock;
  return with_context("looking for attribute '" + name + "' of '" + label_ + "'",
                      [&] { return BORA_HDF5(H5Aexists(id(), name.c_str())) > 0; });
}

std::vector<std::string> Object::attribute_names() const {
  const CrashNote note(label_);
  Lock lock;
  std::vector<std::string> names;
  with_context("listing the attributes of '" + label_ + "'", [&] {
    BORA_HDF5(H5Aiterate2(id(), H5_INDEX_NAME, H5_ITER_NATIVE, nullptr, &append_name, &names));
  });
  std::sort(names.begin(), names.end());
  return names;
}

TypeInfo Object::attribute_type(const std::string& name) const {
  const CrashNote note(label_);
  Lock lock;
  return with_context("attribute '" + name + "' of '" + label_ + "'",
                      [&] { return open(*this, name).info; });
}

template <class T>
T Object::attribute(const std::string& name) const {
  const CrashNote note(label_);
  Lock lock;
  return with_context("reading attribute '" + name + "' of '" + label_ + "'",
                      [&] { return value_of<T>(open(*this, name)); });
}
template int64_t Object::attribute(const std::string&) const;
template uint64_t Object::attribute(const std::string&) const;
template double Object::attribute(const std::string&) const;
template bool Object::attribute(const std::string&) const;
template std::string Object::attribute(const std::string&) const;
template std::vector<int64_t> Object::attribute(const std::string&) const;
template std::vector<uint64_t> Object::attribute(const std::string&) const;
template std::vector<double> Object::attribute(const std::string&) const;
template std::vector<std::string> Object::attribute(const std::string&) const;

void Object::set_attribute(const std::string& name, int64_t value) {
  Lock lock;
  put(*this, name, H5T_NATIVE_INT64, -1, &value);
}
void Object::set_attribute(const std::string& name, uint64_t value) {
  Lock lock;
  put(*this, name, H5T_NATIVE_UINT64, -1, &value);
}
void Object::set_attribute(const std::string& name, double value) {
  Lock lock;
  put(*this, name, H5T_NATIVE_DOUBLE, -1, &value);
}
void Object::set_attribute(const std::string& name, float value) {
  Lock lock;
  put(*this, name, H5T_NATIVE_FLOAT, -1, &value);
}
void Object::set_attribute(const std::string& name, bool value) {
  Lock lock;
  const uint8_t byte = value ? 1 : 0;
  put(*this, name, H5T_NATIVE_UINT8, -1, &byte);
}
void Object::set_attribute(const std::string& name, std::string_view value) {
  Lock lock;
  BORA_CHECK(value.find('\0') == std::string_view::npos, "writing attribute '", name, "' of '",
             label_, "': the text holds a zero byte");
  const Id type(BORA_HDF5(H5Tcopy(H5T_C_S1)));
  BORA_HDF5(H5Tset_size(type.get(), std::max<size_t>(value.size(), 1)));
  BORA_HDF5(H5Tset_cset(type.get(), H5T_CSET_UTF8));
  const std::string bytes = value.empty() ? std::string(1, '\0') : std::string(value);
  put(*this, name, type.get(), -1, bytes.data());
}
void Object::set_attribute(const std::string& name, const std::vector<int64_t>& values) {
  Lock lock;
  put(*this, name, H5T_NATIVE_INT64, static_cast<int64_t>(values.size()), values.data());
}
void Object::set_attribute(const std::string& name, const std::vector<double>& values) {
  Lock lock;
  put(*this, name, H5T_NATIVE_DOUBLE, static_cast<int64_t>(values.size()), values.data());
}
void Object::set_attribute(const std::string& name, const std::vector<std::string>& values) {
  Lock lock;
  const Id type(BORA_HDF5(H5Tcopy(H5T_C_S1)));
  BORA_HDF5(H5Tset_size(type.get(), H5T_VARIABLE));
  BORA_HDF5(H5Tset_cset(type.get(), H5T_CSET_UTF8));
  std::vector<const char*> pointers;
  for (const std::string& value : values) {
    BORA_CHECK(value.find('\0') == std::string::npos, "writing attribute '", name, "' of '", label_,
               "': a text holds a zero byte");
    pointers.push_back(value.c_str());
  }
  put(*this, name, type.get(), static_cast<int64_t>(values.size()), pointers.data());
}

void Object::copy_attribute(const std::string& name, Object& to) const {
  Lock lock;
  with_context("copying attribute '" + name + "' of '" + label_ + "' to '" + to.label() + "'", [&] {
    const OpenAttribute from = open(*this, name);
    BORA_CHECK(H5Tdetect_class(from.type.get(), H5T_REFERENCE) == 0,
               "it holds references into its own file");
    const bool variable =
        H5Tdetect_class(from.type.get(), H5T_VLEN) > 0 || H5Tis_variable_str(from.type.get()) > 0;
    BORA_CHECK(!variable || from.info.name == "variable text", "it holds '", from.info.name, "'");
    if (to.has_attribute(name)) BORA_HDF5(H5Adelete(to.id(), name.c_str()));
    const Id attribute(BORA_HDF5(H5Acreate2(to.id(), name.c_str(), from.type.get(),
                                            from.space.get(), H5P_DEFAULT, H5P_DEFAULT)));
    if (from.n == 0) return;
    const size_t bytes = static_cast<size_t>(from.n) * H5Tget_size(from.type.get());
    std::vector<std::max_align_t> buffer(bytes / sizeof(std::max_align_t) + 1);
    BORA_HDF5(H5Aread(from.id.get(), from.type.get(), buffer.data()));
    if (variable) {
      const Reclaim reclaim(from.type.get(), from.space.get(), buffer.data());
      BORA_HDF5(H5Awrite(attribute.get(), from.type.get(), buffer.data()));
    } else {
      BORA_HDF5(H5Awrite(attribute.get(), from.type.get(), buffer.data()));
    }
  });
}

}  // namespace bora::data::hdf5
