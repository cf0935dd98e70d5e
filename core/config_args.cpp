// SPDX-License-Identifier: Apache-2.0
// Config from the command line (CLI11), help, unknown names.
#include <CLI/CLI.hpp>

#include <algorithm>
#include <map>
#include <set>

#include "core/config_value.hpp"
#include "core/error.hpp"

namespace bora::detail {
namespace {

bool is_switch(const ConfigEntry& entry) { return std::holds_alternative<bool*>(entry.value); }

// Levenshtein's distance: insertions, deletions and replacements, each 1.
size_t edit_distance(const std::string& a, const std::string& b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = std::exchange(row[0], i);
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = diagonal + (a[i - 1] != b[j - 1]);
      diagonal = row[j];
      row[j] = std::min({replaced, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row[b.size()];
}

// Every name that may follow "--".
std::vector<std::string> flag_names(const ConfigEntries& entries) {
  std::vector<std::string> names{"config", "help"};
  for (const ConfigEntry& e : entries.entries) {
    names.push_back(e.key);
    if (is_switch(e)) names.push_back("no-" + e.key);
  }
  return names;
}

std::string program_help(const ConfigEntries& entries, const std::string& program,
                         const ConfigUsage& usage) {
  std::string out = "usage: " + program + " [--config FILE] [--KEY VALUE]...";
  if (!usage.positionals.empty()) out += " " + usage.positionals;
  out += "\n";
  if (!usage.about.empty()) out += usage.about + "\n";
  return out +
         "\n  --config FILE  a TOML file with the keys below; flags win over it\n"
         "  --help         this text\n"
         "A BOOL is a switch: --key, --key=false or --no-key.\n\n" +
         config_help_text(entries);
}

// The one value of an option that was given; throws if it was given twice.
std::string only_value(const CLI::Option& option, const std::string& name) {
  if (option.results().size() > 1)
    throw UsageError("--" + name + " is given " + std::to_string(option.results().size()) +
                     " times: which one is meant?");
  return option.results().front();
}

// CLI11 lets a flag without a value take whatever follows.
void refuse_swallowed_flag(const std::string& name, const std::string& value,
                           const std::vector<std::string>& args) {
  const auto written = "--" + name + "=" + value;
  if (value.starts_with("--") && std::find(args.begin(), args.end(), written) == args.end())
    throw UsageError("--" + name + " wants a value, but '" + value +
                     "' follows (if that is the "
                     "value, write --" +
                     name + "=" + value + ")");
}

// "--amp false" would leave amp on and "false" a positional argument.
void refuse_switch_with_value(const ConfigEntry& entry, const std::vector<std::string>& args) {
  for (size_t i = 0; i + 1 < args.size(); ++i) {
    const bool here = args[i] == "--" + entry.key || args[i] == "--no-" + entry.key;
    if (here && (args[i + 1] == "true" || args[i + 1] == "false"))
      throw UsageError(args[i] + " is a switch and takes no separate value: write --" + entry.key +
                       "=" + args[i + 1] + ", --" + entry.key + " or --no-" + entry.key);
  }
}

}  // namespace

std::string nearest_name(const std::string& given, const std::vector<std::string>& known) {
  std::string best;
  size_t best_distance = std::max<size_t>(2, given.size() / 3) + 1;  // farther is no help
  for (const std::string& name : known) {
    size_t distance = edit_distance(given, name);
    // "lr" for "optim.lr": people leave the section out.
    const std::string last = name.substr(name.rfind('.') + 1);
    if (last != name && given.find('.') == std::string::npos)
      distance = std::min(distance, edit_distance(given, last));
    if (distance < std::min(best_distance, std::max(given.size(), size_t{2}))) {
      best_distance = distance;
      best = name;
    }
  }
  return best;
}

const ConfigEntry& find_entry(const ConfigEntries& entries, const std::string& key) {
  std::vector<std::string> known;
  for (const ConfigEntry& e : entries.entries) {
    if (e.key == key) return e;
    known.push_back(e.key);
  }
  const std::string near = nearest_name(key, known);
  throw UsageError("unknown key '" + key + "'" +
                   (near.empty() ? std::string() : " (did you mean '" + near + "'?)"));
}

void check_description(const ConfigEntries& entries) {
  std::set<std::string> seen{"config", "help"};
  const auto check_name = [&](const std::string& key, const char* what) {
    BORA_CHECK(
        !key.empty() && key.front() != '.' && key.back() != '.' &&
            key.find("..") == std::string::npos &&
            key.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_.") == std::string::npos,
        "config: ", what, " '", key, "' wants lower-case letters, digits and _");
    BORA_CHECK(seen.insert(key).second, "config: '", key, "' is described twice, or reserved");
  };
  for (const auto& section : entries.sections)
    if (!section.prefix.empty()) check_name(section.prefix, "section");
  for (const ConfigEntry& e : entries.entries) check_name(e.key, "key");
}

void check_config(const ConfigEntries& entries) {
  for (const ConfigEntry& e : entries.entries) check_entry(e, entry_toml(e));
}

void set_config(const ConfigEntries& entries, const std::string& key, const std::string& text) {
  set_entry_from_text(find_entry(entries, key), text);
}

std::string config_value_text(const ConfigEntries& entries, const std::string& key) {
  return entry_text(find_entry(entries, key));
}

std::vector<std::string> config_differences(const ConfigEntries& old_entries,
                                            const ConfigEntries& new_entries) {
  std::vector<std::string> out;
  for (size_t i = 0; i < old_entries.entries.size(); ++i) {
    const std::string a = entry_toml(old_entries.entries[i]);
    const std::string b = entry_toml(new_entries.entries[i]);
    if (a != b) out.push_back(old_entries.entries[i].key + ": " + a + " -> " + b);
  }
  return out;
}

std::string config_help_text(const ConfigEntries& entries) {
  constexpr size_t kMaxColumn = 44;  // longer flags put their help on the next line
  std::map<const ConfigEntry*, std::string> flags;
  size_t column = 0;
  for (const ConfigEntry& e : entries.entries) {
    flags[&e] = "  --" + e.key + " " + type_text(e) + "  ";
    if (flags[&e].size() <= kMaxColumn) column = std::max(column, flags[&e].size());
  }
  std::string out;
  for (const auto& section : entries.sections) {
    bool titled = false;
    for (const ConfigEntry& e : entries.entries) {
      if (section_of(e.key) != section.prefix) continue;
      if (!titled && !section.prefix.empty())
        out += (out.empty() ? "" : "\n") + ("[" + section.prefix + "]  " + section.help + "\n");
      titled = true;
      std::string flag = flags[&e];
      if (flag.size() > kMaxColumn) flag = flag.substr(0, flag.size() - 2) + "\n";
      const size_t used = flag.back() == '\n' ? 0 : flag.size();
      out += flag + std::string(column - used, ' ') + e.help + " [" + entry_toml(e) + "]\n";
    }
  }
  return out;
}

ConfigArgs parse_config_args(const ConfigEntries& entries, const std::string& program,
                             const std::vector<std::string>& args, const ConfigUsage& usage) {
  CLI::App app;
  app.allow_extras();
  app.set_help_flag("--help");
  // TakeAll: more than one result is our error, with our words.
  const auto all = CLI::MultiOptionPolicy::TakeAll;
  CLI::Option* config = app.add_option("--config")->multi_option_policy(all);
  std::vector<CLI::Option*> options;
  for (const ConfigEntry& e : entries.entries) {
    options.push_back(is_switch(e) ? app.add_flag("--" + e.key + ",!--no-" + e.key)
                                   : app.add_option("--" + e.key));
    options.back()->multi_option_policy(all);
  }

  const auto mark = std::find(args.begin(), args.end(), "--");
  std::vector<std::string> reversed;  // as CLI11 wants them
  for (auto a = args.begin(); a != mark; ++a) {
    // CLI11 takes "--key=" as a key without a value; as two arguments an empty value is one.
    const bool empty_value = a->starts_with("--") && a->find('=') + 1 == a->size();
    reversed.push_back(empty_value ? a->substr(0, a->size() - 1) : *a);
    if (empty_value) reversed.emplace_back();
  }
  std::reverse(reversed.begin(), reversed.end());

  ConfigArgs out;
  try {
    app.parse(std::move(reversed));
  } catch (const CLI::CallForHelp&) {
    out.help = program_help(entries, program, usage);
    return out;
  } catch (const CLI::ParseError& e) {
    throw UsageError(e.what());
  }

  for (const std::string& extra : app.remaining()) {
    if (extra.size() < 2 || extra[0] != '-') {
      out.positionals.push_back(extra);
      continue;
    }
    const std::string flag = extra.substr(0, extra.find('='));
    const std::string near =
        nearest_name(flag.substr(flag.find_first_not_of('-')), flag_names(entries));
    throw UsageError("unknown flag '" + flag + "'" +
                     (near.empty() ? " (--help lists all)" : " (did you mean '--" + near + "'?)"));
  }
  if (mark != args.end()) out.positionals.insert(out.positionals.end(), mark + 1, args.end());
  for (const ConfigEntry& e : entries.entries)
    if (is_switch(e)) refuse_switch_with_value(e, args);
  if (usage.positionals.empty() && !out.positionals.empty())
    throw UsageError("unexpected argument '" + out.positionals.front() + "'");

  if (config->count() > 0) {
    out.config_file = only_value(*config, "config");
    refuse_swallowed_flag("config", out.config_file, args);
    load_config_file(entries, out.config_file);
  }
  for (size_t i = 0; i < options.size(); ++i) {
    if (options[i]->count() == 0) continue;
    const ConfigEntry& e = entries.entries[i];
    const std::string value = only_value(*options[i], e.key);
    if (!is_switch(e)) refuse_swallowed_flag(e.key, value, args);
    with_context("command line", [&] { set_entry_from_text(e, value); });
  }
  return out;
}

}  // namespace bora::detail
