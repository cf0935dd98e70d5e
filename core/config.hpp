// SPDX-License-Identifier: Apache-2.0
// Config: structs that describe their own fields.  Flags, TOML files, help, the saved text and the
// diff on resume all come from one list, so an option is written down once.
//
//   struct OptimConfig {
//     float lr = 1e-3f;
//     static constexpr auto fields() {
//       return std::tuple{field("lr", &OptimConfig::lr, "peak learning rate", positive)};
//     }
//   };
//   struct RunConfig {
//     OptimConfig optim;  // its keys are optim.lr, ...
//     static constexpr auto fields() {
//       return std::tuple{field("optim", &RunConfig::optim, "the optimizer")};
//     }
//   };
//
// Order: defaults < file < command line, and nothing else (no environment variables).
#pragma once

#include <array>
#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "core/error.hpp"
#include "core/shape.hpp"

namespace bora {

struct NoCheck {};

/// Holds for each number of the value: the elements of a list, the three extents of a Dims3.  NaN
/// never passes.
struct NumberCheck {
  enum class Kind { positive, at_least, between };
  Kind kind = Kind::positive;
  double low = 0;
  double high = 0;
};
/// > 0
inline constexpr NumberCheck positive{NumberCheck::Kind::positive};
/// >= low
constexpr NumberCheck at_least(double low) { return {NumberCheck::Kind::at_least, low, 0}; }
/// >= low and <= high
constexpr NumberCheck between(double low, double high) {
  return {NumberCheck::Kind::between, low, high};
}

/// Holds for a string, or each string of a list.
struct ChoiceCheck {
  static constexpr size_t kMax = 16;
  std::array<std::string_view, kMax> choices{};
  size_t n = 0;
};
template <std::convertible_to<std::string_view>... S>
constexpr ChoiceCheck one_of(S... choices) {
  static_assert(sizeof...(S) > 0 && sizeof...(S) <= ChoiceCheck::kMax);
  return {{std::string_view(choices)...}, sizeof...(S)};
}

/// A struct that lists its fields.
template <class C>
concept Described = requires {
  C::fields();
};

/// The value behind a key.  The alternatives are the types that a field may have.
using ConfigValue =
    std::variant<bool*, int*, int64_t*, uint64_t*, float*, double*, std::string*,
                 std::vector<int64_t>*, std::vector<double>*, std::vector<std::string>*, Dims3*>;
using ConfigCheck = std::variant<NoCheck, NumberCheck, ChoiceCheck>;

template <class C, class T, class Check>
struct ConfigField {
  std::string_view name;
  T C::*member;
  std::string_view help;
  Check check;
};

/// Describes one member.  `name` is lower case with digits and underscores.  A member whose type is
/// Described itself becomes a section: its keys are name.key, and `help` is the section's title.
template <class C, class T, class Check = NoCheck>
constexpr auto field(std::string_view name, T C::*member, std::string_view help, Check check = {}) {
  if constexpr (Described<T>) {
    static_assert(std::is_same_v<Check, NoCheck>, "a section takes no check; its fields do");
  } else {
    static_assert(std::is_constructible_v<ConfigValue, T*>,
                  "a field is a bool, int, int64_t, uint64_t, float, double, std::string, a vector "
                  "of int64_t, double or std::string, a Dims3, or a struct with fields()");
    constexpr bool text =
        std::is_same_v<T, std::string> || std::is_same_v<T, std::vector<std::string>>;
    static_assert(
        std::is_same_v<Check, NoCheck> ||
            (std::is_same_v<Check, ChoiceCheck> ? text : !text && !std::is_same_v<T, bool>),
        "one_of is for text; positive, at_least and between are for numbers");
  }
  return ConfigField<C, T, Check>{name, member, help, check};
}

/// One key of a config object, types erased.
struct ConfigEntry {
  std::string key;  ///< "optim.lr"
  std::string help;
  ConfigValue value;
  ConfigCheck check;
};
/// All keys of an object, in the order of its fields.  Points into the object.
struct ConfigEntries {
  struct Section {
    std::string prefix;  ///< "" or "optim"
    std::string help;
  };
  std::vector<Section> sections;
  std::vector<ConfigEntry> entries;
};

/// What stood on the command line beside the keys.
struct ConfigArgs {
  std::string help;         ///< not empty: --help was given; print it and end well
  std::string config_file;  ///< the path given by --config, or empty
  std::vector<std::string> positionals;
};
/// How a program presents itself.
struct ConfigUsage {
  std::string about;        ///< one or two sentences for --help
  std::string positionals;  ///< how --help names them ("FILE..."); empty: none are accepted
};

namespace detail {

template <Described C>
void collect_fields(C& object, const std::string& prefix, std::string_view help,
                    ConfigEntries& out) {
  out.sections.push_back({prefix, std::string(help)});
  const auto one = [&]<class T, class F>(T& value, const F& f) {
    BORA_CHECK(f.name.find('.') == f.name.npos, "config: the name '", f.name, "' has a dot");
    const std::string key = (prefix.empty() ? "" : prefix + ".") + std::string(f.name);
    if constexpr (Described<T>) {
      collect_fields(value, key, f.help, out);
    } else {
      out.entries.push_back({key, std::string(f.help), &value, f.check});
    }
  };
  std::apply([&](const auto&... f) { (one(object.*(f.member), f), ...); }, C::fields());
}

/// Throws Error for a list that cannot work: a name twice, a reserved name, a bad character.
void check_description(const ConfigEntries& entries);

template <Described C>
ConfigEntries entries_of(C& object) {
  ConfigEntries out;
  collect_fields(object, "", "", out);
  check_description(out);
  return out;
}

void load_config_file(const ConfigEntries& entries, const std::string& path);
void load_config_text(const ConfigEntries& entries, const std::string& text,
                      const std::string& source);
ConfigArgs parse_config_args(const ConfigEntries& entries, const std::string& program,
                             const std::vector<std::string>& args, const ConfigUsage& usage);
void set_config(const ConfigEntries& entries, const std::string& key, const std::string& text);
void check_config(const ConfigEntries& entries);
std::string config_value_text(const ConfigEntries& entries, const std::string& key);
std::string config_toml(const ConfigEntries& entries);
std::string config_help_text(const ConfigEntries& entries);
std::vector<std::string> config_differences(const ConfigEntries& old_entries,
                                            const ConfigEntries& new_entries);

/// Runs `change` on a copy of `c` and keeps it if nothing was thrown.
template <Described C, class Change>
void change_or_keep(C& c, Change&& change) {
  C copy = c;
  change(entries_of(copy));
  c = std::move(copy);
}

}  // namespace detail

/// Sets the keys that a TOML file names; sections are tables.  Throws UsageError with file and line
/// for TOML that does not parse, an unknown key (offering the nearest), a value of another type or
/// one that fails its check; `c` is then unchanged.
/// Numbers: a float key takes an integer too; an integer key takes no float.  A Dims3 is
/// "64x64x32" or [64, 64, 32].  A uint64_t above 2^63-1, which TOML has not, is written as a
/// string.
template <Described C>
void config_load_file(C& c, const std::string& path) {
  detail::change_or_keep(c, [&](const ConfigEntries& e) { detail::load_config_file(e, path); });
}

/// The same from text, for the config kept in a checkpoint; `source` stands for the file in
/// messages.
template <Described C>
void config_load_text(C& c, const std::string& text, const std::string& source) {
  detail::change_or_keep(
      c, [&](const ConfigEntries& e) { detail::load_config_text(e, text, source); });
}

/// Reads a command line (without the program's own name):
///   --config FILE             a TOML file, applied before all flags wherever it stands
///   --optim.lr=3e-4           or as two arguments: --optim.lr 3e-4
///   --amp  --amp=false        switches; also --no-amp
///   --help                    fills ConfigArgs::help and changes nothing
///   --                        what follows is positional
/// A list is 1,2,3 or a TOML array: '["a,b", "c"]'.  Throws UsageError for an unknown flag
/// (offering the nearest), a flag given twice, a bad value (naming key, value and what was wanted),
/// or positional arguments where `usage` has none; `c` is then unchanged.
template <Described C>
ConfigArgs config_parse_args(C& c, const std::string& program, const std::vector<std::string>& args,
                             const ConfigUsage& usage = {}) {
  ConfigArgs out;
  detail::change_or_keep(
      c, [&](const ConfigEntries& e) { out = detail::parse_config_args(e, program, args, usage); });
  return out;
}

/// Sets one key from text, as on the command line.  Throws UsageError; `c` is then unchanged.
template <Described C>
void config_set(C& c, const std::string& key, const std::string& text) {
  detail::change_or_keep(c, [&](const ConfigEntries& e) { detail::set_config(e, key, text); });
}

/// The value of a key as text that config_set takes.  Throws UsageError for an unknown key.
template <Described C>
std::string config_get(C c, const std::string& key) {
  return detail::config_value_text(detail::entries_of(c), key);
}

/// All keys, in the order of the fields.
template <Described C>
std::vector<std::string> config_keys(C c) {
  std::vector<std::string> out;
  for (const ConfigEntry& e : detail::entries_of(c).entries) out.push_back(e.key);
  return out;
}

/// Throws UsageError naming the first key whose value fails its check: for values that code has
/// set.
template <Described C>
void config_check(C c) {
  detail::check_config(detail::entries_of(c));
}

/// Keys by section with type, current value and help.
template <Described C>
std::string config_help(C c) {
  return detail::config_help_text(detail::entries_of(c));
}

/// TOML with every key.  config_load_text of it gives the same values, floats bit for bit (NaN
/// stays NaN).  Throws Error for a string that is not UTF-8.
template <Described C>
std::string config_text(C c) {
  return detail::config_toml(detail::entries_of(c));
}

/// One "key: old -> new" for each key whose values differ.
template <Described C>
std::vector<std::string> config_diff(C old_config, C new_config) {
  return detail::config_differences(detail::entries_of(old_config), detail::entries_of(new_config));
}

}  // namespace bora
