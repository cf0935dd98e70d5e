// SPDX-License-Identifier: Apache-2.0
#include "data/netcdf_unpacking.hpp"

#include <hdf5.h>

#include <cmath>
#include <limits>
#include <utility>

#include "core/error.hpp"
#include "data/block_pieces.hpp"
#include "data/hdf5_check.hpp"
#include "data/hdf5_reader_driver.hpp"

namespace bora::data {

namespace {

/// NetCDF's fill of each type (netcdf.h); bytes have none that counts as missing.
struct DefaultFill {
  bool exists = false, is_integer = false;
  uint64_t bits = 0;
  double value = 0;
};
DefaultFill default_fill(const hdf5::TypeInfo& type) {
  const auto whole = [](int64_t value) {
    return DefaultFill{true, true, static_cast<uint64_t>(value), static_cast<double>(value)};
  };
  if (type.name == "f32" || type.name == "f64") return {true, false, 0, 9.9692099683868690e+36};
  if (type.name == "i16") return whole(-32767);
  if (type.name == "u16") return whole(65535);
  if (type.name == "i32") return whole(-2147483647);
  if (type.name == "u32") return whole(4294967295);
  if (type.name == "i64") return whole(-9223372036854775806);
  if (type.name == "u64") return {true, true, 18446744073709551614u, 18446744073709551614.0};
  return {};
}

/// 64-bit unsigned elements, which none of our types holds, as the bits of i64.
Tensor read_u64(const hdf5::Dataset& d, std::span<const int64_t> begin,
                std::span<const int64_t> count) {
  // A block without cells: checks the filters.
  if (!count.empty()) d.read(begin, std::vector<int64_t>(count.size(), 0), DType::i64);
  Shape shape;
  std::vector<hsize_t> b, c;
  for (size_t i = 0; i < count.size(); ++i) {
    shape = shape.append(count[i]);
    b.push_back(static_cast<hsize_t>(begin[i]));
    c.push_back(static_cast<hsize_t>(count[i]));
    BORA_CHECK(begin[i] + count[i] <= d.extents()[i], "'", d.label(), "': block outside");
  }
  Tensor out = Tensor::empty(shape, DType::i64);
  if (out.numel() == 0) return out;
  const hdf5::Id file(BORA_HDF5(H5Dget_space(d.id())));
  hdf5::Id memory(BORA_HDF5(H5Screate(H5S_SCALAR)));
  if (!c.empty()) {
    memory = hdf5::Id(BORA_HDF5(H5Screate_simple(static_cast<int>(c.size()), c.data(), nullptr)));
    BORA_HDF5(
        H5Sselect_hyperslab(file.get(), H5S_SELECT_SET, b.data(), nullptr, c.data(), nullptr));
  }
  return with_context("reading '" + d.label() + "'", [&] {
    const hdf5::detail::ChunkGuard guard(d, begin, count);
    BORA_HDF5(H5Dread(d.id(), H5T_NATIVE_UINT64, memory.get(), file.get(), H5P_DEFAULT, out.raw()));
    return out;
  });
}

}  // namespace

/// What is compared with each stored value, in its type.
template <class T>
struct Unpacking::Rules {
  std::vector<T> missing;
  bool has_low = false, has_high = false, none_is_valid = false;
  T low{}, high{};

  bool is_missing(T v) const {
    if (none_is_valid || (has_low && v < low) || (has_high && v > high)) return true;
    for (const T m : missing)
      if (v == m) return true;
    return false;
  }
};

std::vector<Unpacking::Number> Unpacking::numbers(const char* name) const {
  std::vector<Number> out;
  if (!dataset_->has_attribute(name)) return out;
  const hdf5::TypeInfo type = dataset_->attribute_type(name);
  if (type.kind != hdf5::TypeInfo::Kind::integer) {
    for (const double v : dataset_->attribute<std::vector<double>>(name))
      out.push_back({false, v < 0, 0, v});
  } else if (type.is_signed) {
    for (const int64_t v : dataset_->attribute<std::vector<int64_t>>(name))
      out.push_back({true, v < 0, static_cast<uint64_t>(v), static_cast<double>(v)});
  } else {
    for (const uint64_t v : dataset_->attribute<std::vector<uint64_t>>(name))
      out.push_back({true, false, v, static_cast<double>(v)});
  }
  return out;
}

Unpacking::Unpacking(const hdf5::Dataset& dataset) : dataset_(&dataset), stored_(dataset.type()) {
  using Kind = hdf5::TypeInfo::Kind;
  const auto number = [&](const char* name, double& value) {
    if (dataset.has_attribute(name)) value = dataset.attribute<double>(name);
  };
  number("scale_factor", scale_);
  number("add_offset", offset_);
  BORA_CHECK(std::isfinite(scale_) && std::isfinite(offset_), "'", dataset.label(),
             "': scale_factor ", scale_, " and add_offset ", offset_, ", wanted finite numbers");
  low_ = numbers("valid_min");
  high_ = numbers("valid_max");
  for (const auto& [name, list] : {std::pair{"valid_min", &low_}, {"valid_max", &high_}})
    BORA_CHECK(list->size() <= 1, "'", dataset.label(), "': ", name, " holds ", list->size(),
               " values, wanted 1");
  if (const auto range = numbers("valid_range"); !range.empty()) {
    BORA_CHECK(range.size() == 2, "'", dataset.label(), "': valid_range holds ", range.size(),
               " values, wanted 2");
    low_.assign(1, range[0]);
    high_.assign(1, range[1]);
  }
  missing_ = numbers("missing_value");
  for (const Number& n : numbers("_FillValue")) missing_.push_back(n);
  if (!dataset.has_attribute("_FillValue"))
    if (const DefaultFill fill = default_fill(stored_); fill.exists)
      missing_.push_back({fill.is_integer, fill.value < 0, fill.bits, fill.value});

  if (stored_.kind == Kind::integer) {
    BORA_CHECK(stored_.bytes <= 8, "'", dataset.label(), "': integers of ", stored_.bytes,
               " bytes, wanted at most 8");
    is_unsigned_ = !stored_.is_signed;
    if (dataset.has_attribute("_Unsigned")) {
      const auto text = dataset.attribute<std::string>("_Unsigned");
      if (text == "true" || text == "True" || text == "TRUE") is_unsigned_ = true;
      if (text == "false" || text == "False" || text == "FALSE") is_unsigned_ = false;
    }
    const int64_t bytes = stored_.bytes;
    carrier_ = bytes <= 2 || (bytes <= 4 && !is_unsigned_) ? Carrier::i32
               : bytes <= 4 || !is_unsigned_               ? Carrier::i64
                                                           : Carrier::u64;
  } else {
    carrier_ = stored_.bytes <= 4 ? Carrier::f32 : Carrier::f64;
  }
}

DType Unpacking::type() const {
  if (stored_.kind != hdf5::TypeInfo::Kind::integer)
    return carrier_ == Carrier::f32 && !is_scaled() ? DType::f32 : DType::f64;
  if (is_scaled()) return DType::f64;
  if (stored_.bytes == 1 && is_unsigned_) return DType::u8;
  return carrier_ == Carrier::i32 ? DType::i32 : DType::i64;
}

/// An attribute's number as a stored value is taken.  `fits`: whether T holds it.
template <class T>
T Unpacking::cast(const Number& n, bool& fits) const {
  fits = true;
  if constexpr (std::is_floating_point_v<T>) {
    return static_cast<T>(n.value);
  } else {
    // The range of the stored type, seen as _Unsigned says.
    const int bits = static_cast<int>(8 * stored_.bytes);
    const double size = std::ldexp(1.0, bits);
    double value = n.value;
    uint64_t whole = n.bits;
    if (!n.is_integer) {
      fits = value == std::floor(value) && value >= -size / 2 && value < size;
      if (!fits) return T{};
      whole = value < 0 ? static_cast<uint64_t>(static_cast<int64_t>(value))
                        : static_cast<uint64_t>(value);
    }
    // The same bits in the other sense: -1 stands for 255 where i8 is unsigned, and 255 for -1
    // where u8 is signed.
    const uint64_t mask = bits == 64 ? ~uint64_t{0} : (uint64_t{1} << bits) - 1;
    const uint64_t top = uint64_t{1} << (bits - 1);
    if (is_unsigned_) {
      fits = n.is_negative ? stored_.is_signed && whole >= ~uint64_t{0} - top + 1 : whole <= mask;
      return static_cast<T>(whole & mask);
    }
    if (n.is_negative) {
      fits = whole >= ~uint64_t{0} - top + 1;
      return static_cast<T>(static_cast<int64_t>(whole));
    }
    fits = whole < top || (!stored_.is_signed && whole <= mask);
    return static_cast<T>(static_cast<int64_t>(whole < top ? whole : whole | ~mask));
  }
}

template <class T>
Unpacking::Rules<T> Unpacking::rules() const {
  Rules<T> rules;
  bool fits = false;
  for (const Number& n : missing_)
    if (const T value = cast<T>(n, fits); fits) rules.missing.push_back(value);
  // A bound that the type does not hold is beyond all of its values, or between two of them.
  const auto bound = [&](Number n, bool is_low, bool& has, T& value) {
    if constexpr (!std::is_floating_point_v<T>)
      if (!n.is_integer) {
        n.value = is_low ? std::ceil(n.value) : std::floor(n.value);
        n.is_negative = n.value < 0;
      }
    value = cast<T>(n, fits);
    has = fits;
    if (!fits && std::isnan(n.value)) return;  // no bound
    if (!fits && is_low != n.is_negative) rules.none_is_valid = true;
  };
  if (!low_.empty()) bound(low_[0], true, rules.has_low, rules.low);
  if (!high_.empty()) bound(high_[0], false, rules.has_high, rules.high);
  return rules;
}

/// The block as it is stored, in the carrier's type (u64: the bits of i64).
Tensor Unpacking::carried(std::span<const int64_t> begin, std::span<const int64_t> count) const {
  if (carrier_ == Carrier::f32) return dataset_->read(begin, count, DType::f32);
  if (carrier_ == Carrier::f64) return dataset_->read(begin, count, DType::f64);
  const bool flips = stored_.is_signed == is_unsigned_;  // _Unsigned says otherwise
  Tensor out =
      stored_.bytes > 4 && !stored_.is_signed
          ? read_u64(*dataset_, begin, count)
          : dataset_->read(begin, count,
                           carrier_ == Carrier::i32 && !(flips && stored_.bytes == 4) ? DType::i32
                                                                                      : DType::i64);
  const int bits = static_cast<int>(8 * stored_.bytes);
  if (!flips || bits == 64) return out;
  const int64_t size = int64_t{1} << bits, top = size / 2;
  const auto turn = [&](auto* v) {
    for (int64_t i = 0; i < out.numel(); ++i) {
      if (is_unsigned_ && v[i] < 0)
        v[i] = static_cast<std::remove_reference_t<decltype(*v)>>(v[i] + size);
      if (!is_unsigned_ && v[i] >= top)
        v[i] = static_cast<std::remove_reference_t<decltype(*v)>>(v[i] - size);
    }
  };
  if (out.dtype() == DType::i32)
    turn(out.data<int32_t>());
  else
    turn(out.data<int64_t>());
  return carrier_ == Carrier::i32 ? out.to(DType::i32) : out;
}

template <class T>
Tensor Unpacking::unpack(const Tensor& stored, DType type) const {
  const Rules<T> rules = this->rules<T>();
  const T* in = static_cast<const T*>(stored.raw());
  const auto run = [&](auto* out) {
    using Out = std::remove_reference_t<decltype(*out)>;
    for (int64_t i = 0; i < stored.numel(); ++i)
      out[i] = rules.is_missing(in[i]) ? std::numeric_limits<Out>::quiet_NaN()
               : is_scaled() ? static_cast<Out>(static_cast<double>(in[i]) * scale_ + offset_)
                             : static_cast<Out>(in[i]);
  };
  // In place where the types are the same: an element is read before it is written.
  Tensor out = stored.dtype() == type ? stored : Tensor::empty(stored.shape(), type);
  if (type == DType::f32)
    run(out.data<float>());
  else
    run(out.data<double>());
  return out;
}

template <class T>
Tensor Unpacking::whole(const Tensor& stored) const {
  if constexpr (std::is_integral_v<T>) {
    const Rules<T> rules = this->rules<T>();
    const T* in = static_cast<const T*>(stored.raw());
    Tensor out = Tensor::empty(stored.shape(), DType::i64);
    int64_t i = 0;
    if (!is_scaled())
      for (; i < stored.numel(); ++i) {
        if (rules.is_missing(in[i]) || !std::in_range<int64_t>(in[i])) break;
        out.data<int64_t>()[i] = static_cast<int64_t>(in[i]);
      }
    if (!is_scaled() && i == stored.numel()) return out;
  }
  return unpack<T>(stored, DType::f64);
}

DType Unpacking::carrier_type() const {
  switch (carrier_) {
    case Carrier::f32:
      return DType::f32;
    case Carrier::f64:
      return DType::f64;
    case Carrier::i32:
      return DType::i32;
    case Carrier::i64:
    case Carrier::u64:
      return DType::i64;
  }
  BORA_FAIL("unpacking: unknown carrier");
}

Tensor Unpacking::read(std::span<const int64_t> begin, std::span<const int64_t> count,
                       DType type) const {
  BORA_CHECK(type == DType::f32 || type == DType::f64, "'", dataset_->label(), "': read as ", type,
             ", wanted f32 or f64");
  constexpr int64_t kAtOnce = int64_t{2} << 20;  // bytes, as stored
  const int64_t most = kAtOnce / size_of(carrier_type());
  Shape shape;
  double n = 1;
  for (const int64_t c : count) n *= static_cast<double>(c);
  if (carrier_type() == type || !(n > static_cast<double>(most)))
    return read_at_once(begin, count, type);
  hdf5::detail::check_block(*dataset_, begin, count);  // before memory is taken for it
  for (const int64_t c : count) shape = shape.append(c);
  Tensor out = Tensor::empty(shape, type);
  each_piece(begin, count, dataset_->chunk(), most,
             [&](std::span<const int64_t> at, std::span<const int64_t> size) {
               std::vector<int64_t> place(at.begin(), at.end());
               for (size_t i = 0; i < place.size(); ++i) place[i] -= begin[i];
               put_piece(read_at_once(at, size, type), place, out);
             });
  return out;
}

Tensor Unpacking::read_at_once(std::span<const int64_t> begin, std::span<const int64_t> count,
                               DType type) const {
  const Tensor stored = carried(begin, count);
  switch (carrier_) {
    case Carrier::f32:
      return unpack<float>(stored, type);
    case Carrier::f64:
      return unpack<double>(stored, type);
    case Carrier::i32:
      return unpack<int32_t>(stored, type);
    case Carrier::i64:
      return unpack<int64_t>(stored, type);
    case Carrier::u64:
      return unpack<uint64_t>(stored, type);
  }
  BORA_FAIL("unpacking: unknown carrier");
}

Tensor Unpacking::read_whole(std::span<const int64_t> begin, std::span<const int64_t> count) const {
  const Tensor stored = carried(begin, count);
  switch (carrier_) {
    case Carrier::f32:
      return whole<float>(stored);
    case Carrier::f64:
      return whole<double>(stored);
    case Carrier::i32:
      return whole<int32_t>(stored);
    case Carrier::i64:
      return whole<int64_t>(stored);
    case Carrier::u64:
      return whole<uint64_t>(stored);
  }
  BORA_FAIL("unpacking: unknown carrier");
}

}  // namespace bora::data
