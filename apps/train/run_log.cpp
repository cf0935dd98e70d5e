// SPDX-License-Identifier: Apache-2.0
#include "apps/train/run_log.hpp"

#include <algorithm>
#include <limits>

namespace bora::train {
namespace {

const data::JsonValue* find(const data::JsonRecord& row, std::string_view key) {
  for (const auto& [name, value] : row)
    if (name == key) return &value;
  return nullptr;
}

}  // namespace

std::optional<double> number_of(const data::JsonRecord& row, std::string_view key) {
  const data::JsonValue* value = find(row, key);
  if (value == nullptr) return {};
  const data::JsonValue::Variant& v = value->get();
  if (const auto* x = std::get_if<double>(&v)) return *x;
  if (const auto* x = std::get_if<int64_t>(&v)) return static_cast<double>(*x);
  if (const auto* x = std::get_if<bool>(&v)) return *x ? 1 : 0;
  const std::string text = text_of(row, key);
  if (text == "nan") return std::numeric_limits<double>::quiet_NaN();
  if (text == "inf") return std::numeric_limits<double>::infinity();
  if (text == "-inf") return -std::numeric_limits<double>::infinity();
  return {};
}

std::string text_of(const data::JsonRecord& row, std::string_view key) {
  const data::JsonValue* value = find(row, key);
  if (value == nullptr) return {};
  const auto* text = std::get_if<std::string>(&value->get());
  return text == nullptr ? std::string() : *text;
}

RunLog RunLog::read(const std::string& path) { return RunLog(data::read_json_lines(path)); }

std::vector<const data::JsonRecord*> RunLog::of(std::string_view kind) const {
  std::vector<const data::JsonRecord*> found;
  for (const data::JsonRecord& row : rows_)
    if (text_of(row, "kind") == kind) found.push_back(&row);
  return found;
}

const data::JsonRecord* RunLog::last(std::string_view kind) const {
  const auto found = of(kind);
  return found.empty() ? nullptr : found.back();
}

std::vector<RunLog::Session> RunLog::sessions() const {
  std::vector<Session> sessions;
  for (const data::JsonRecord& row : rows_) {
    const std::string kind = text_of(row, "kind");
    if (kind == "start" || sessions.empty()) sessions.emplace_back();
    Session& session = sessions.back();
    if (kind == "start") session.start = &row;
    if (kind == "end") session.end = &row;
    // An epoch's row has its own time there.
    if (kind != "epoch")
      session.seconds = std::max(session.seconds, number_of(row, "seconds").value_or(0));
  }
  return sessions;
}

}  // namespace bora::train
