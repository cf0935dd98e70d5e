// SPDX-License-Identifier: Apache-2.0
// Config from and to TOML.  Parsing is toml++'s; the text is written here, since a section's own
// keys must come before its sub-sections and floats must come back bit for bit.
#include <toml++/toml.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "core/config_value.hpp"
#include "core/error.hpp"

namespace bora::detail {
namespace {

const char* type_name(const toml::node& node) {
  switch (node.type()) {
    case toml::node_type::table:
      return "a table";
    case toml::node_type::array:
      return "an array";
    case toml::node_type::string:
      return "a string";
    case toml::node_type::integer:
      return "an integer";
    case toml::node_type::floating_point:
      return "a float";
    case toml::node_type::boolean:
      return "a boolean";
    case toml::node_type::date:
    case toml::node_type::time:
    case toml::node_type::date_time:
      return "a date or time";
    case toml::node_type::none:
      break;
  }
  return "nothing";
}

// "a string ('abc')"
std::string found_text(const toml::node& node) {
  std::ostringstream out;
  out << type_name(node);
  if (const auto* text = node.as_string()) {
    out << " ('" << text->get() << "')";
  } else if (node.is_value()) {
    node.visit([&](const auto& value) {
      if constexpr (toml::is_value<decltype(value)>) out << " (" << value << ")";
    });
  } else if (const auto* array = node.as_array()) {
    out << " (" << *array << ")";
  }
  return out.str();
}

struct Reader {
  const ConfigEntry& entry;

  [[noreturn]] void bad(const toml::node& node) const { throw_bad_value(entry, found_text(node)); }

  int64_t integer(const toml::node& node) const {
    if (!node.is_integer()) bad(node);
    return node.as_integer()->get();
  }
  double number(const toml::node& node) const {
    if (node.is_integer()) return static_cast<double>(node.as_integer()->get());
    if (!node.is_floating_point()) bad(node);
    return node.as_floating_point()->get();
  }

  void read(const toml::node& node, bool& out) const {
    if (!node.is_boolean()) bad(node);
    out = node.as_boolean()->get();
  }
  void read(const toml::node& node, int& out) const {
    const int64_t wide = integer(node);
    out = static_cast<int>(wide);
    if (out != wide) bad(node);
  }
  void read(const toml::node& node, int64_t& out) const { out = integer(node); }
  void read(const toml::node& node, uint64_t& out) const {
    if (node.is_string()) {  // above what a TOML integer can be
      if (!parse_uint64(node.as_string()->get(), out)) bad(node);
      return;
    }
    const int64_t value = integer(node);
    if (value < 0) bad(node);
    out = static_cast<uint64_t>(value);
  }
  void read(const toml::node& node, float& out) const {
    out = narrow_to_float(entry, number(node), found_text(node));
  }
  void read(const toml::node& node, double& out) const { out = number(node); }
  void read(const toml::node& node, std::string& out) const {
    if (!node.is_string()) bad(node);
    out = node.as_string()->get();
  }
  void read(const toml::node& node, Dims3& out) const {
    if (node.is_string()) {
      if (!parse_dims3(node.as_string()->get(), out)) bad(node);
      return;
    }
    const toml::array* array = node.as_array();
    if (array == nullptr || array->size() != 3) bad(node);
    out = {integer((*array)[0]), integer((*array)[1]), integer((*array)[2])};
  }
  template <class T>
  void read(const toml::node& node, std::vector<T>& out) const {
    const toml::array* array = node.as_array();
    if (array == nullptr) bad(node);
    out.clear();
    for (const toml::node& element : *array) {
      T value{};
      read(element, value);
      out.push_back(std::move(value));
    }
  }
};

void set_entry(const ConfigEntry& entry, const toml::node& node) {
  std::visit([&](auto* value) { Reader{entry}.read(node, *value); }, entry.value);
  check_entry(entry, found_text(node));
}

class Loader {
 public:
  Loader(const ConfigEntries& entries, std::string source)
      : entries_(entries), source_(std::move(source)) {}

  void table(const toml::table& table, const std::string& prefix) const {
    for (const auto& [name, node] : table) {
      // A quoted name with a dot is one name, not a section and a key.
      const std::string_view written = name.str();
      const std::string shown = written.find('.') == std::string_view::npos
                                    ? std::string(written)
                                    : join('"', written, '"');
      const std::string key = prefix.empty() ? shown : prefix + "." + shown;
      with_context(join(source_, ":", name.source().begin.line), [&, &value = node] {
        if (is_section(key) && !value.is_table())
          throw UsageError(
              join(key, ": found ", found_text(value), ", wanted the table [", key, "]"));
        if (value.is_table() && !is_section(key) && !is_key(key)) unknown_section(key);
        if (!is_section(key)) set_entry(find_entry(entries_, key), value);
      });
      if (is_section(key)) this->table(*node.as_table(), key);
    }
  }

 private:
  bool is_section(const std::string& key) const {
    for (const auto& section : entries_.sections)
      if (!key.empty() && section.prefix == key) return true;
    return false;
  }

  bool is_key(const std::string& key) const {
    for (const ConfigEntry& entry : entries_.entries)
      if (entry.key == key) return true;
    return false;
  }
  [[noreturn]] void unknown_section(const std::string& name) const {
    std::vector<std::string> known;
    for (const auto& section : entries_.sections)
      if (!section.prefix.empty()) known.push_back(section.prefix);
    const std::string near = nearest_name(name, known);
    throw UsageError(join("unknown section '", name, "'",
                          near.empty() ? near : join(" (did you mean '", near, "'?)")));
  }

  const ConfigEntries& entries_;
  std::string source_;
};

}  // namespace

void load_config_text(const ConfigEntries& entries, const std::string& text,
                      const std::string& source) {
  toml::table table;
  try {
    table = toml::parse(text, source);
  } catch (const toml::parse_error& e) {
    throw UsageError(join(source, ":", e.source().begin.line, ":", e.source().begin.column,
                          ": not TOML: ", e.description()));
  }
  Loader(entries, source).table(table, "");
}

void load_config_file(const ConfigEntries& entries, const std::string& path) {
  const auto fail = [&](const std::string& why) {
    throw UsageError("config file " + path + ": " + why);
  };
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) fail("is a directory");
  errno = 0;
  std::ifstream in(path, std::ios::binary);
  if (!in) fail(std::string("cannot open: ") + std::strerror(errno));
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  if (in.bad()) fail(std::string("cannot read: ") + std::strerror(errno));
  load_config_text(entries, text, path);
}

void set_entry_from_toml(const ConfigEntry& entry, const std::string& text) {
  toml::table table;
  try {
    table = toml::parse("value = " + text);
  } catch (const toml::parse_error&) {
    throw_bad_value(entry, "'" + text + "'");
  }
  // Text with a line break could smuggle in more keys.
  if (table.size() != 1) throw_bad_value(entry, "'" + text + "'");
  set_entry(entry, *table.get("value"));
}

std::string config_toml(const ConfigEntries& entries) {
  std::string out;
  for (const auto& section : entries.sections) {
    bool titled = section.prefix.empty();
    for (const ConfigEntry& entry : entries.entries) {
      if (section_of(entry.key) != section.prefix) continue;
      if (!titled) {
        out += (out.empty() ? "[" : "\n[") + section.prefix + "]\n";
        titled = true;
      }
      const size_t dot = entry.key.rfind('.');
      out += entry.key.substr(dot == std::string::npos ? 0 : dot + 1) + " = " + entry_toml(entry) +
             "\n";
    }
  }
  return out;
}

}  // namespace bora::detail
