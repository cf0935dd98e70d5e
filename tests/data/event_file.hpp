// SPDX-License-Identifier: Apache-2.0
// A reader of TensorBoard's event files, written from the description of the format and apart from
// the writer.  (tests/e2e/tensorboard.sh reads them with TensorBoard itself.)
#pragma once

#include <bit>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.hpp"

namespace bora::data::test {

/// A message of a protocol buffer: per field number its values, whatever they are.
struct Message {
  struct Value {
    uint64_t number = 0;     ///< varint, fixed64 or fixed32
    std::string_view bytes;  ///< length-delimited
  };
  std::map<uint64_t, std::vector<Value>> fields;

  explicit Message(std::string_view in) {
    while (!in.empty()) {
      const uint64_t key = varint(in);
      Value value;
      switch (key & 7) {
        case 0:
          value.number = varint(in);
          break;
        case 1:
          value.number = fixed(in, 8);
          break;
        case 2:
          value.bytes = take(in, varint(in));
          break;
        case 5:
          value.number = fixed(in, 4);
          break;
        default:
          BORA_FAIL("wire type ", key & 7);
      }
      fields[key >> 3].push_back(value);
    }
  }
  bool has(uint64_t field) const { return fields.contains(field); }
  const Value& one(uint64_t field) const {
    BORA_CHECK(has(field) && fields.at(field).size() == 1, "field ", field, " is not there once");
    return fields.at(field).front();
  }
  Message message(uint64_t field) const { return Message(one(field).bytes); }

  static std::string_view take(std::string_view& in, uint64_t n) {
    BORA_CHECK(n <= in.size(), "wanted ", n, " bytes, ", in.size(), " are left");
    const std::string_view out = in.substr(0, n);
    in.remove_prefix(n);
    return out;
  }
  static uint64_t fixed(std::string_view& in, size_t n) {
    uint64_t value = 0;
    const std::string_view bytes = take(in, n);
    for (size_t i = n; i-- > 0;) value = value << 8 | static_cast<uint8_t>(bytes[i]);
    return value;
  }
  static uint64_t varint(std::string_view& in) {
    uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      const auto byte = static_cast<uint8_t>(take(in, 1)[0]);
      value |= static_cast<uint64_t>(byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
    BORA_FAIL("a varint of more than ten bytes");
  }
};

/// CRC-32C bit by bit: polynomial division, no table.
inline uint32_t slow_crc32c(std::string_view bytes) {
  uint32_t crc = 0xffffffffu;
  for (const char c : bytes)
    for (int bit = 0; bit < 8; ++bit) {
      const bool out = ((crc ^ static_cast<uint32_t>(static_cast<uint8_t>(c) >> bit)) & 1) != 0;
      crc >>= 1;
      if (out) crc ^= 0x82f63b78u;
    }
  return crc ^ 0xffffffffu;
}

/// The records of a file, checksums verified; a cut last one is left out, anything else throws.
inline std::vector<std::string_view> event_records(std::string_view file) {
  const auto verify = [](std::string_view bytes, uint64_t stored) {
    const auto masked = static_cast<uint32_t>(stored);
    const uint32_t rotated = masked - 0xa282ead8u;
    const uint32_t crc = rotated >> 17 | rotated << 15;
    BORA_CHECK(crc == slow_crc32c(bytes), "a record's checksum is wrong");
  };
  std::vector<std::string_view> records;
  while (file.size() >= 12) {
    const std::string_view length_bytes = file.substr(0, 8);
    const uint64_t length = Message::fixed(file, 8);
    verify(length_bytes, Message::fixed(file, 4));
    if (file.size() < length + 4) break;
    records.push_back(Message::take(file, length));
    verify(records.back(), Message::fixed(file, 4));
  }
  return records;
}

inline double as_double(uint64_t bits) { return std::bit_cast<double>(bits); }
inline float as_float(uint64_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits)); }

}  // namespace bora::data::test
