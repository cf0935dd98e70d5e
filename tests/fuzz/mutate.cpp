// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/mutate.hpp"

#include <algorithm>
#include <array>

namespace bora::fuzz {

namespace {

/// Draws from a key one after the other.
class Draws {
 public:
  explicit Draws(const RngKey& key) : key_(key) {}
  size_t below(size_t n) { return n == 0 ? 0 : static_cast<size_t>(key_.below(n, i_++)); }
  uint64_t any() { return key_.below(~uint64_t{0}, i_++); }

 private:
  RngKey key_;
  uint64_t i_ = 0;
};

constexpr std::array<uint64_t, 18> kEdges = {0,
                                             1,
                                             2,
                                             3,
                                             4,
                                             7,
                                             8,
                                             16,
                                             127,
                                             128,
                                             255,
                                             32767,
                                             65535,
                                             0x7fffffff,
                                             0x80000000,
                                             0xffffffff,
                                             0x7fffffffffffffff,
                                             0xffffffffffffffff};

void put_integer(std::string& text, Draws& draw) {
  const size_t width = size_t{1} << draw.below(4);
  if (text.size() < width) return;
  const size_t at = draw.below(text.size() - width + 1);
  const bool big = draw.below(2) == 0;
  const auto byte = [&](size_t i) -> char& { return text[at + (big ? width - 1 - i : i)]; };
  uint64_t value = 0;
  for (size_t i = 0; i < width; ++i)
    value |= static_cast<uint64_t>(static_cast<unsigned char>(byte(i))) << (8 * i);
  switch (draw.below(4)) {
    case 0:
      value = kEdges[draw.below(kEdges.size())];
      break;
    case 1:
      value += 1 + draw.below(16);
      break;
    case 2:
      value -= 1 + draw.below(16);
      break;
    default:
      value = draw.any() >> draw.below(64);
  }
  for (size_t i = 0; i < width; ++i) byte(i) = static_cast<char>(value >> (8 * i));
}

void change(std::string& text, const std::string& other, Draws& draw) {
  const size_t kind = draw.below(16);
  if (text.empty()) text.assign(1, '\0');
  const size_t at = draw.below(text.size());
  // Short ranges more often than long ones.
  const size_t span = size_t{1} + draw.below(size_t{1} << draw.below(11));
  const size_t n = std::min(span, text.size() - at);
  if (kind < 3) {
    text[at] = static_cast<char>(text[at] ^ (1 << draw.below(8)));
  } else if (kind < 5) {
    text[at] = static_cast<char>(draw.any());
  } else if (kind < 11) {
    put_integer(text, draw);
  } else if (kind == 11) {
    text.erase(at, n);
  } else if (kind == 12) {
    text.insert(draw.below(text.size() + 1), text.substr(at, n));
  } else if (kind == 13) {
    std::fill_n(text.begin() + static_cast<std::ptrdiff_t>(at), n,
                draw.below(2) == 0 ? '\0' : '\xff');
  } else if (kind == 14 && !other.empty()) {
    const size_t from = draw.below(other.size());
    text.replace(at, n, other, from, n);
  } else {
    text.resize(at);
  }
}

}  // namespace

std::string mutate(const std::string& input, const std::string& other, const RngKey& key,
                   size_t max_bytes) {
  Draws draw(key);
  std::string text = input;
  // One change alone reaches deepest; many together find what single ones do not.
  const size_t n = size_t{1} << draw.below(4);
  for (size_t i = 0; i < n; ++i) change(text, other, draw);
  if (text.size() > max_bytes) text.resize(max_bytes);
  return text;
}

}  // namespace bora::fuzz
