// SPDX-License-Identifier: Apache-2.0
#include "core/printable.hpp"

#include <cstdint>

namespace bora {
namespace {

uint32_t byte(std::string_view text, size_t at) { return static_cast<unsigned char>(text[at]); }

/// Appends what stands for the character that begins at `at`; returns its bytes, 1 where there is
/// none.
size_t append(std::string& out, std::string_view text, size_t at) {
  const size_t n = utf8_bytes(text, at);
  const bool is_control = (n == 1 && (byte(text, at) < 0x20 || byte(text, at) == 0x7f)) ||
                          (n == 2 && byte(text, at) == 0xc2 && byte(text, at + 1) < 0xa0);
  if (n > 0 && !is_control) {
    out += text.substr(at, n);
    return n;
  }
  constexpr const char* kDigits = "0123456789abcdef";
  const size_t bytes = n > 0 ? n : 1;
  for (size_t i = at; i < at + bytes; ++i) {
    out += "\\x";
    out += kDigits[byte(text, i) >> 4];
    out += kDigits[byte(text, i) & 15];
  }
  return bytes;
}

}  // namespace

size_t utf8_bytes(std::string_view text, size_t at) {
  const uint32_t lead = byte(text, at);
  const size_t n = lead < 0x80       ? 1
                   : lead >> 5 == 6  ? 2
                   : lead >> 4 == 14 ? 3
                   : lead >> 3 == 30 ? 4
                                     : 0;
  if (n <= 1) return n;
  if (at + n > text.size()) return 0;
  uint32_t code = lead & (0x7fu >> n);
  for (size_t k = 1; k < n; ++k) {
    const uint32_t next = byte(text, at + k);
    if (next >> 6 != 2) return 0;
    code = code << 6 | (next & 0x3fu);
  }
  constexpr uint32_t kSmallest[] = {0, 0, 0x80, 0x800, 0x10000};  // by length: no overlong forms
  return code < kSmallest[n] || code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff) ? 0 : n;
}

std::string printable(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    if (text[at] == '\n' || text[at] == '\t')
      out += text[at++];
    else
      at += append(out, text, at);
  }
  return out;
}

std::string printable_line(std::string_view text, size_t most) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    if (out.size() >= most) return out + "... (" + std::to_string(text.size()) + " bytes)";
    if (text[at] == '\n' || text[at] == '\t')
      out += text[at++] == '\n' ? "\\n" : "\\t";
    else
      at += append(out, text, at);
  }
  return out;
}

}  // namespace bora
