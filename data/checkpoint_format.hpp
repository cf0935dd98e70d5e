// SPDX-License-Identifier: Apache-2.0
// What the writer and the reader of checkpoints share; see checkpoint.hpp for the layout.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace bora::data::detail {

inline constexpr int64_t kHeaderBytes = 512;  // HDF5 allows user blocks of 512 bytes and up
inline constexpr const char* kStateGroup = "state";

/// The kind of an entry that holds a T, as the file spells it.
template <class T>
inline constexpr const char* kind_of = nullptr;
template <>
inline constexpr const char* kind_of<int64_t> = "i64";
template <>
inline constexpr const char* kind_of<uint64_t> = "u64";
template <>
inline constexpr const char* kind_of<double> = "f64";
template <>
inline constexpr const char* kind_of<bool> = "bool";
template <>
inline constexpr const char* kind_of<std::string> = "text";
template <>
inline constexpr const char* kind_of<std::vector<double>> = "list of f64";
template <>
inline constexpr const char* kind_of<std::vector<int64_t>> = "list of i64";
template <>
inline constexpr const char* kind_of<std::vector<std::string>> = "list of text";
inline constexpr const char* kTensorKind = "tensor";

/// The 512 bytes before the HDF5 part; `bytes` counts the whole file, header included.
std::string checkpoint_header(int64_t bytes, uint64_t checksum);

/// The checksum of two pieces one after the other, from those of each (the second from
/// kChecksumStart on) and the second one's bytes.
uint64_t joined_checksum(uint64_t first, uint64_t second, int64_t second_bytes);

/// Dotted names: the groups that are open now, joined.
class NamePrefix {
 public:
  void enter(std::string_view group) {
    lengths_.push_back(prefix_.size());
    prefix_.append(group).push_back('.');
  }
  /// Does nothing without an open group: destructors call it.
  void leave() noexcept {
    if (lengths_.empty()) return;
    prefix_.resize(lengths_.back());
    lengths_.pop_back();
  }
  std::string full(std::string_view name) const { return prefix_ + std::string(name); }

 private:
  std::string prefix_;
  std::vector<size_t> lengths_;
};

}  // namespace bora::data::detail
