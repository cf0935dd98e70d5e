// SPDX-License-Identifier: Apache-2.0
// Texts of any bytes in one text: how ranks tell each other of files, whatever their names hold.
#pragma once

#include <charconv>
#include <concepts>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "core/error.hpp"

namespace bora::data {

/// Texts one behind the other, each as "<length>:<bytes>", and numbers as texts.
class TextPacker {
 public:
  void add(std::integral auto number) { add(std::to_string(number)); }
  /// To the bit.
  void add(double number) {
    char text[40];
    std::snprintf(text, sizeof(text), "%a", number);
    add(std::string_view(text));
  }
  void add(std::string_view field) {
    text_.append(std::to_string(field.size())).append(":").append(field);
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

/// Takes them out again.
class TextUnpacker {
 public:
  /// `what`: of messages.  The text must outlive this.
  TextUnpacker(std::string_view text, const char* what) : rest_(text), what_(what) {}
  bool done() const { return rest_.empty(); }
  /// Throws Error where the text breaks off or was not made by a TextPacker.
  std::string next() {
    size_t n = 0;
    const char* const end = rest_.data() + rest_.size();
    const auto [colon, code] = std::from_chars(rest_.data(), end, n);
    BORA_CHECK(code == std::errc() && colon != end && *colon == ':' &&
                   n <= static_cast<size_t>(end - colon - 1),
               what_, ": the text of a rank breaks off");
    std::string field(colon + 1, n);
    rest_.remove_prefix(static_cast<size_t>(colon + 1 - rest_.data()) + n);
    return field;
  }
  /// The next one as a whole number.  Throws Error if it is none that T holds.
  template <std::integral T = size_t>
  T next_number() {
    const std::string text = next();
    T n = 0;
    const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), n);
    BORA_CHECK(code == std::errc() && end == text.data() + text.size(), what_, ": '", text,
               "' is no number");
    return n;
  }
  /// As the packer was given it, to the bit (any NaN is a NaN).
  double next_double() {
    const std::string text = next();
    char* end = nullptr;
    const double value = std::strtod(text.c_str(), &end);
    BORA_CHECK(!text.empty() && end == text.c_str() + text.size(), what_, ": '", text,
               "' is no number");
    return value;
  }

 private:
  std::string_view rest_;
  const char* what_;
};

}  // namespace bora::data
