// SPDX-License-Identifier: Apache-2.0
// JSON lines: one object per line, for logs that programs read (metrics.jsonl).
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace bora::data {

/// A value of a record.  JSON has no NaN and no infinity: they become the strings "nan", "inf" and
/// "-inf", which Python's float() and most other readers turn back into numbers.
class JsonValue {
 public:
  using Variant = std::variant<bool, int64_t, double, std::string, std::vector<double>>;
  JsonValue(bool value) : value_(value) {}  // NOLINT(google-explicit-constructor): {"lr", 0.1}
  JsonValue(int value) : value_(int64_t{value}) {}                    // NOLINT
  JsonValue(int64_t value) : value_(value) {}                         // NOLINT
  JsonValue(double value) : value_(value) {}                          // NOLINT
  JsonValue(std::string value) : value_(std::move(value)) {}          // NOLINT
  JsonValue(std::string_view value) : value_(std::string(value)) {}   // NOLINT
  JsonValue(const char* value) : value_(std::string(value)) {}        // NOLINT
  JsonValue(std::vector<double> value) : value_(std::move(value)) {}  // NOLINT
  const Variant& get() const { return value_; }

 private:
  Variant value_;
};

using JsonRecord = std::vector<std::pair<std::string, JsonValue>>;

/// One line of JSON without the line's end; keys in the given order; doubles in the shortest form
/// that reads back as the same value.  Invalid UTF-8 is replaced.
std::string json_line(const JsonRecord& record);

enum class OpenMode { replace, append };

/// Writes records; each is in the operating system's hands when write() returns, in one piece, so
/// that a log can be followed and a killed program loses nothing.
class JsonlWriter {
 public:
  /// Throws Error naming the path.  Appending removes a last line that a killed writer left
  /// unfinished.
  JsonlWriter(const std::string& path, OpenMode mode);
  ~JsonlWriter();
  JsonlWriter(JsonlWriter&& other) noexcept;
  JsonlWriter& operator=(JsonlWriter&&) = delete;
  JsonlWriter(const JsonlWriter&) = delete;

  /// Throws Error naming the path and the reason (disk full); nothing of the record stays then.
  void write(std::initializer_list<std::pair<std::string_view, JsonValue>> record);
  void write(const JsonRecord& record);

 private:
  std::string path_;
  int fd_ = -1;
};

/// The finished lines of a file, in order; an unfinished last line is left out.  Throws Error
/// naming path and line for a line that is no object, and for a value that JsonValue cannot hold
/// (an object, null, a list of other things than numbers).
std::vector<JsonRecord> read_json_lines(const std::string& path);

/// For resuming: cuts the file in front of the first line whose number `key` is greater than
/// `value`, and an unfinished last line.  Lines without the key stay if they come before.  Returns
/// how many lines were removed.  A missing file is fine (0).  A finished line that is not a JSON
/// object (after a power failure) is removed too, with a warning that names it: a broken log must
/// not keep a run from going on.
int64_t truncate_after(const std::string& path, std::string_view key, double value);

}  // namespace bora::data
