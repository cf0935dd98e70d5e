// SPDX-License-Identifier: Apache-2.0
// Text from files in front of people: names and attributes may hold any bytes, also those that
// terminals obey.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace bora {

/// Bytes of the UTF-8 character that begins at text[at], 1 to 4; 0 where none does (RFC 3629: no
/// overlong forms, no surrogates).
size_t utf8_bytes(std::string_view text, size_t at);

/// The text with bytes that are no UTF-8, and control characters other than line feed and tab,
/// written as "\x1b".
std::string printable(std::string_view text);

/// The same in one line of at most `most` bytes: line feeds as "\n", tabs as "\t", and what is cut
/// off told as "... (1234 bytes)".
std::string printable_line(std::string_view text, size_t most);

}  // namespace bora
