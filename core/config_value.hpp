// SPDX-License-Identifier: Apache-2.0
// What the config*.cpp files share: one value in and out of text.
#pragma once

#include <string>

#include "core/config.hpp"

namespace bora::detail {

/// The entry of a key; throws UsageError "unknown key ...", offering the nearest.
const ConfigEntry& find_entry(const ConfigEntries& entries, const std::string& key);

/// " (did you mean 'x'?)" with the name of `known` that is nearest to `given`, or "" if none is
/// near.
std::string nearest_name(const std::string& given, const std::vector<std::string>& known);

/// "FLOAT", "INT", "INT,...", ... for help.
std::string type_text(const ConfigEntry& entry);
/// "a number > 0": type and check, for messages.
std::string wanted_text(const ConfigEntry& entry);
/// Throws UsageError "optim.lr: found ..., wanted ...".
[[noreturn]] void throw_bad_value(const ConfigEntry& entry, const std::string& found);

/// Throws throw_bad_value(entry, found) if the value that stands there fails its check.
void check_entry(const ConfigEntry& entry, const std::string& found);
/// Sets the value from a command line's text.
void set_entry_from_text(const ConfigEntry& entry, const std::string& text);
/// Sets the value from the text of a TOML value ("[1, 2]").
void set_entry_from_toml(const ConfigEntry& entry, const std::string& toml);
/// A float from a double; throws throw_bad_value if it is out of float's range.
float narrow_to_float(const ConfigEntry& entry, double value, const std::string& found);
bool parse_uint64(const std::string& text, uint64_t& value);
/// "64x64x32" -> true and the value.
bool parse_dims3(const std::string& text, Dims3& value);

/// The value as set_entry_from_text takes it.
std::string entry_text(const ConfigEntry& entry);
/// The value as TOML.
std::string entry_toml(const ConfigEntry& entry);

/// "optim" of "optim.lr".
inline std::string section_of(const std::string& key) {
  const size_t dot = key.rfind('.');
  return dot == std::string::npos ? std::string() : key.substr(0, dot);
}

}  // namespace bora::detail
