// SPDX-License-Identifier: Apache-2.0
#include "data/jsonl.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "core/error.hpp"
#include "core/log.hpp"
#include "data/atomic_file.hpp"

namespace bora::data {
namespace {

using Json = nlohmann::ordered_json;

Json number(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  return value;
}

Json to_json(const JsonValue& value) {
  return std::visit(
      [](const auto& v) -> Json {
        using T = std::decay_t<decltype(v)>;
        if constexpr (std::is_same_v<T, double>) {
          return number(v);
        } else if constexpr (std::is_same_v<T, std::vector<double>>) {
          Json list = Json::array();
          for (const double x : v) list.push_back(number(x));
          return list;
        } else {
          return v;
        }
      },
      value.get());
}

std::string read_all(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(in), {}};
  BORA_CHECK(in.good() || in.eof(), "reading ", path, ": ", std::strerror(errno));
  return text;
}

void cut(const std::string& path, size_t bytes) {
  BORA_CHECK(::truncate(path.c_str(), static_cast<off_t>(bytes)) == 0, "truncating ", path, ": ",
             std::strerror(errno));
}

}  // namespace

std::string json_line(const JsonRecord& record) {
  Json object = Json::object();
  for (const auto& [key, value] : record) {
    BORA_CHECK(!object.contains(key), "json_line: the key '", key, "' is given twice");
    object[key] = to_json(value);
  }
  return object.dump(-1, ' ', false, Json::error_handler_t::replace);
}

JsonlWriter::JsonlWriter(const std::string& path, OpenMode mode) : path_(path) {
  if (mode == OpenMode::append && std::filesystem::exists(path)) {
    const std::string text = read_all(path);
    const size_t end = text.rfind('\n') + 1;  // npos + 1 is 0
    if (end != text.size()) cut(path, end);
  }
  const int flags =
      O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | (mode == OpenMode::replace ? O_TRUNC : 0);
  fd_ = ::open(path.c_str(), flags, mode_t{0666});
  BORA_CHECK(fd_ >= 0, "opening ", path, " for writing: ", std::strerror(errno));
}

JsonlWriter::~JsonlWriter() {
  if (fd_ >= 0) ::close(fd_);
}

JsonlWriter::JsonlWriter(JsonlWriter&& other) noexcept
    : path_(std::move(other.path_)), fd_(std::exchange(other.fd_, -1)) {}

void JsonlWriter::write(std::initializer_list<std::pair<std::string_view, JsonValue>> record) {
  JsonRecord copy;
  for (const auto& [key, value] : record) copy.emplace_back(std::string(key), value);
  write(copy);
}

void JsonlWriter::write(const JsonRecord& record) {
  BORA_CHECK(fd_ >= 0, "JsonlWriter: write to ", path_, " after a move");
  const std::string line = json_line(record) + '\n';
  size_t at = 0;
  while (at < line.size()) {
    const ssize_t n = ::write(fd_, line.data() + at, line.size() - at);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) {
      const int code = n < 0 ? errno : EIO;
      // A full disk may have taken a part: it must not become one line with what comes next.
      const off_t end = ::lseek(fd_, 0, SEEK_END);
      const bool whole = at == 0 || (end >= static_cast<off_t>(at) &&
                                     ::ftruncate(fd_, end - static_cast<off_t>(at)) == 0);
      BORA_FAIL("writing ", path_, ": ", std::strerror(code),
                whole ? "" : "; its last line is not whole");
    }
    at += static_cast<size_t>(n);
  }
}

namespace {

JsonValue from_json(const Json& value, const std::string& where) {
  if (value.is_boolean()) return value.get<bool>();
  if (value.is_number_integer()) return value.get<int64_t>();
  if (value.is_number()) return value.get<double>();
  if (value.is_string()) return value.get<std::string>();
  const bool numbers =
      value.is_array() &&
      std::all_of(value.begin(), value.end(), [](const Json& item) { return item.is_number(); });
  BORA_CHECK(numbers, where, ": wanted true, false, a number, a text or a list of numbers, found ",
             value.type_name());
  return value.get<std::vector<double>>();
}

}  // namespace

std::vector<JsonRecord> read_json_lines(const std::string& path) {
  const std::string text = read_all(path);
  std::vector<JsonRecord> records;
  size_t begin = 0;
  for (size_t end = text.find('\n'); end != std::string::npos; end = text.find('\n', begin)) {
    const std::string where = detail::join(path, ":", records.size() + 1);
    const Json line = Json::parse(text.begin() + static_cast<std::ptrdiff_t>(begin),
                                  text.begin() + static_cast<std::ptrdiff_t>(end), nullptr, false);
    BORA_CHECK(line.is_object(), where, ": not a JSON object");
    JsonRecord record;
    for (const auto& [key, value] : line.items())
      record.emplace_back(key, from_json(value, detail::join(where, ", key '", key, "'")));
    records.push_back(std::move(record));
    begin = end + 1;
  }
  return records;
}

int64_t truncate_after(const std::string& path, std::string_view key, double value) {
  if (!std::filesystem::exists(path)) return 0;
  const std::string text = read_all(path);
  size_t at = 0;
  int64_t line_number = 0, n_removed = 0;
  std::string kept;
  while (at < text.size()) {
    const size_t end = text.find('\n', at);
    if (end == std::string::npos) break;  // the rest was never finished
    ++line_number;
    const Json line = Json::parse(text.begin() + static_cast<std::ptrdiff_t>(at),
                                  text.begin() + static_cast<std::ptrdiff_t>(end), nullptr, false);
    if (line.is_object()) {
      const auto found = line.find(std::string(key));
      if (found != line.end() && found->is_number() && found->get<double>() > value) break;
      kept.append(text, at, end + 1 - at);
    } else {
      log_warn(path, ":", line_number,
               ": not a JSON object (a host or a disk has failed?): removed");
      ++n_removed;
    }
    at = end + 1;
  }
  n_removed += std::count(text.begin() + static_cast<std::ptrdiff_t>(at), text.end(), '\n');
  if (!text.empty() && text.back() != '\n') ++n_removed;
  if (kept.size() == text.size()) return 0;
  if (text.starts_with(kept))
    cut(path, kept.size());
  else
    write_file_atomic(path, kept);
  return n_removed;
}

}  // namespace bora::data
