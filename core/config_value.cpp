// SPDX-License-Identifier: Apache-2.0
// One config value: parsing, printing, checking.
#include "core/config_value.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include "core/error.hpp"
#include "core/printable.hpp"

namespace bora::detail {
namespace {

template <class T>
constexpr bool is_list = false;
template <class T>
constexpr bool is_list<std::vector<T>> = true;

// Whole text or nothing; false also when the value does not fit.
template <class T>
bool parse_number(const std::string& text, T& value) {
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  return error == std::errc() && stop == end && !text.empty();
}

// The shortest decimal that comes back as the same bits through a double, which is what TOML has.
template <class T>
std::string number_text(T value) {
  char buffer[64];
  const auto print = [&buffer](auto v) {
    return std::string(buffer, std::to_chars(buffer, buffer + sizeof buffer, v).ptr);
  };
  if constexpr (std::is_floating_point_v<T>) {
    if (std::isnan(value)) return "nan";
    std::string text = print(value);
    double back = 0;
    parse_number(text, back);
    // A float's shortest text, read as a double, may round to the neighbour: then all digits.
    if (static_cast<T>(back) != value) text = print(static_cast<double>(value));
    // TOML tells floats from integers by the point or the exponent.
    return text.find_first_of(".en") == std::string::npos ? text + ".0" : text;
  } else {
    return print(value);
  }
}

void check_utf8(const ConfigEntry& entry, const std::string& text) {
  for (size_t i = 0; i < text.size();) {
    const size_t n = utf8_bytes(text, i);
    if (n == 0)
      throw UsageError(join(entry.key, ": the text is not UTF-8 (byte ", i, "), which TOML wants"));
    i += n;
  }
}

std::string quoted(const ConfigEntry& entry, const std::string& text) {
  check_utf8(entry, text);
  std::string out = "\"";
  for (const char c : text) {
    constexpr const char* kHex = "0123456789ABCDEF";
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += {'\\', c};
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\t') {
      out += "\\t";
    } else if (byte < 0x20 || byte == 0x7f) {
      out += std::string("\\u00") + kHex[byte >> 4] + kHex[byte & 15];
    } else {
      out += c;
    }
  }
  return out + "\"";
}

struct Toml {
  const ConfigEntry& entry;
  std::string operator()(bool v) const { return v ? "true" : "false"; }
  std::string operator()(uint64_t v) const {
    const bool fits = v <= static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
    return fits ? number_text(v) : '"' + number_text(v) + '"';
  }
  std::string operator()(const std::string& v) const { return quoted(entry, v); }
  std::string operator()(const Dims3& v) const { return join("[", v.d, ", ", v.h, ", ", v.w, "]"); }
  template <class T>
  std::string operator()(const T& v) const {
    return number_text(v);
  }
  template <class T>
  std::string operator()(const std::vector<T>& v) const {
    std::string out = "[";
    for (size_t i = 0; i < v.size(); ++i) out += (i ? ", " : "") + (*this)(v[i]);
    return out + "]";
  }
};

bool passes(const NoCheck&, const auto&) { return true; }
template <class T>
requires std::is_arithmetic_v<T>
bool passes(const NumberCheck& c, const T& v) {
  const double x = static_cast<double>(v);
  switch (c.kind) {
    case NumberCheck::Kind::positive:
      return x > 0;
    case NumberCheck::Kind::at_least:
      return x >= c.low;
    case NumberCheck::Kind::between:
      return x >= c.low && x <= c.high;
  }
  return false;
}
bool passes(const NumberCheck& c, const Dims3& v) {
  return passes(c, v.d) && passes(c, v.h) && passes(c, v.w);
}
bool passes(const ChoiceCheck& c, const std::string& v) {
  return std::find(c.choices.begin(), c.choices.begin() + c.n, v) != c.choices.begin() + c.n;
}
template <class Check, class T>
requires(!std::is_same_v<Check, NoCheck>) bool passes(const Check& c, const std::vector<T>& v) {
  if constexpr (std::is_same_v<Check, ChoiceCheck> == std::is_same_v<T, std::string>)
    return std::all_of(v.begin(), v.end(), [&](const T& x) { return passes(c, x); });
  return false;
}
bool passes(const auto&, const auto&) { return false; }  // pairs that field() does not compile

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> out;
  if (text.empty()) return out;
  size_t begin = 0;
  for (size_t at; (at = text.find(separator, begin)) != std::string::npos; begin = at + 1)
    out.push_back(text.substr(begin, at - begin));
  out.push_back(text.substr(begin));
  return out;
}

std::string number_check_text(const NumberCheck& c) {
  // Bounds are mostly whole: no ".0" in messages.
  const auto plain = [](double v) {
    std::string text = number_text(v);
    return text.ends_with(".0") ? text.substr(0, text.size() - 2) : text;
  };
  switch (c.kind) {
    case NumberCheck::Kind::positive:
      return "> 0";
    case NumberCheck::Kind::at_least:
      return ">= " + plain(c.low);
    case NumberCheck::Kind::between:
      return "from " + plain(c.low) + " to " + plain(c.high);
  }
  return "";
}

struct Wanted {
  std::string operator()(const bool*) const { return "true or false"; }
  std::string operator()(const uint64_t*) const { return "a non-negative integer (64 bits)"; }
  std::string operator()(const int*) const { return "an integer (32 bits)"; }
  std::string operator()(const int64_t*) const { return "an integer (64 bits)"; }
  std::string operator()(const float*) const { return "a number"; }
  std::string operator()(const double*) const { return "a number"; }
  std::string operator()(const std::string*) const { return "text"; }
  std::string operator()(const std::vector<int64_t>*) const { return "a list of integers"; }
  std::string operator()(const std::vector<double>*) const { return "a list of numbers"; }
  std::string operator()(const std::vector<std::string>*) const { return "a list of texts"; }
  std::string operator()(const Dims3*) const {
    return "three integers as 64x64x32 or [64, 64, 32]";
  }
};

struct Type {
  std::string operator()(const bool*) const { return "BOOL"; }
  std::string operator()(const uint64_t*) const { return "UINT"; }
  std::string operator()(const int*) const { return "INT"; }
  std::string operator()(const int64_t*) const { return "INT"; }
  std::string operator()(const float*) const { return "FLOAT"; }
  std::string operator()(const double*) const { return "FLOAT"; }
  std::string operator()(const std::string*) const { return "TEXT"; }
  std::string operator()(const std::vector<int64_t>*) const { return "INT,..."; }
  std::string operator()(const std::vector<double>*) const { return "FLOAT,..."; }
  std::string operator()(const std::vector<std::string>*) const { return "TEXT,..."; }
  std::string operator()(const Dims3*) const { return "DxHxW"; }
};

std::string choices_text(const ChoiceCheck& c, const char* separator) {
  std::string out;
  for (size_t i = 0; i < c.n; ++i) out += (i ? separator : "") + std::string(c.choices[i]);
  return out;
}

}  // namespace

std::string type_text(const ConfigEntry& entry) {
  std::string text = std::visit(Type{}, entry.value);
  if (const auto* c = std::get_if<ChoiceCheck>(&entry.check)) return choices_text(*c, "|");
  if (const auto* c = std::get_if<NumberCheck>(&entry.check))
    text += join(" ", number_check_text(*c));
  return text;
}

std::string wanted_text(const ConfigEntry& entry) {
  const std::string type = std::visit(Wanted{}, entry.value);
  if (const auto* c = std::get_if<ChoiceCheck>(&entry.check)) {
    const bool list = std::holds_alternative<std::vector<std::string>*>(entry.value);
    return (list ? "a list of: " : "one of ") + choices_text(*c, ", ");
  }
  if (const auto* c = std::get_if<NumberCheck>(&entry.check)) {
    const bool several = std::visit(
        []<class T>(T* const&) { return is_list<T> || std::is_same_v<T, Dims3>; }, entry.value);
    return type + (several ? ", each " : " ") + number_check_text(*c);
  }
  return type;
}

void throw_bad_value(const ConfigEntry& entry, const std::string& found) {
  std::string hint;
  const auto* c = std::get_if<ChoiceCheck>(&entry.check);
  if (c != nullptr && found.size() > 2) {  // in quotes
    const std::vector<std::string> choices(c->choices.begin(), c->choices.begin() + c->n);
    const std::string near = nearest_name(found.substr(1, found.size() - 2), choices);
    if (!near.empty()) hint = join(" (did you mean '", near, "'?)");
  }
  throw UsageError(join(entry.key, ": found ", found, ", wanted ", wanted_text(entry), hint));
}

void check_entry(const ConfigEntry& entry, const std::string& found) {
  const bool good =
      std::visit([](const auto& check, const auto* value) { return passes(check, *value); },
                 entry.check, entry.value);
  if (!good) throw_bad_value(entry, found);
}

float narrow_to_float(const ConfigEntry& entry, double value, const std::string& found) {
  const auto narrow = static_cast<float>(value);
  const bool lost =
      (std::isfinite(value) && !std::isfinite(narrow)) || (value != 0 && narrow == 0.0f);
  if (lost)
    throw UsageError(join(entry.key, ": ", found, " is outside the range of a 32-bit float"));
  return narrow;
}

bool parse_uint64(const std::string& text, uint64_t& value) { return parse_number(text, value); }

bool parse_dims3(const std::string& text, Dims3& value) {
  const auto parts = split(text, 'x');
  return parts.size() == 3 && parse_number(parts[0], value.d) && parse_number(parts[1], value.h) &&
         parse_number(parts[2], value.w);
}

void set_entry_from_text(const ConfigEntry& entry, const std::string& text) {
  const std::string found = "'" + text + "'";
  const auto want = [&](bool good) {
    if (!good) throw_bad_value(entry, found);
  };
  const bool toml_array =
      text.starts_with('[') &&
      std::visit([]<class T>(T* const&) { return is_list<T> || std::is_same_v<T, Dims3>; },
                 entry.value);
  if (toml_array) {
    set_entry_from_toml(entry, text);
    return;
  }
  std::visit(
      [&]<class T>(T* const& value) {
        if constexpr (std::is_same_v<T, bool>) {
          want(text == "true" || text == "false");
          *value = text == "true";
        } else if constexpr (std::is_same_v<T, float>) {
          double wide = 0;
          want(parse_number(text, wide));
          *value = narrow_to_float(entry, wide, found);
        } else if constexpr (std::is_same_v<T, std::string>) {
          check_utf8(entry, text);
          *value = text;
        } else if constexpr (std::is_same_v<T, Dims3>) {
          want(parse_dims3(text, *value));
        } else if constexpr (is_list<T>) {
          value->clear();
          for (const std::string& part : split(text, ',')) {
            typename T::value_type x{};
            if constexpr (std::is_same_v<T, std::vector<std::string>>) {
              check_utf8(entry, part);
              x = part;
            } else {
              want(parse_number(part, x));
            }
            value->push_back(std::move(x));
          }
        } else {
          want(parse_number(text, *value));
        }
      },
      entry.value);
  check_entry(entry, found);
}

std::string entry_toml(const ConfigEntry& entry) {
  return std::visit([&](const auto* value) { return Toml{entry}(*value); }, entry.value);
}

std::string entry_text(const ConfigEntry& entry) {
  if (const auto* text = std::get_if<std::string*>(&entry.value)) return **text;
  if (const auto* dims = std::get_if<Dims3*>(&entry.value)) return join(**dims);
  if (const auto* number = std::get_if<uint64_t*>(&entry.value)) return number_text(**number);
  return entry_toml(entry);
}

}  // namespace bora::detail
