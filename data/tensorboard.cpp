// SPDX-License-Identifier: Apache-2.0
#include "data/tensorboard.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstring>
#include <filesystem>

#include "core/error.hpp"
#include "core/host.hpp"

namespace bora::data {
namespace {

constexpr std::string_view kPrefix = "events.out.tfevents.";

constexpr std::array<uint32_t, 256> crc_table() {
  std::array<uint32_t, 256> table{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t value = i;
    for (int bit = 0; bit < 8; ++bit) value = value >> 1 ^ (value & 1 ? 0x82f63b78u : 0u);
    table[i] = value;
  }
  return table;
}

// Readers store the CRC of data that holds CRCs: masked, so that the two are never alike.
uint32_t masked(uint32_t crc) { return (crc >> 15 | crc << 17) + 0xa282ead8u; }

template <class T>
void put_little_endian(std::string& out, T value) {
  for (size_t i = 0; i < sizeof value; ++i) out += static_cast<char>(value >> (8 * i) & T{0xff});
}

// The wire format of protocol buffers: a key (field number, wire type), then the value.
enum class Wire : uint64_t { varint = 0, fixed64 = 1, bytes = 2, fixed32 = 5 };

void put_varint(std::string& out, uint64_t value) {
  for (; value >= 0x80; value >>= 7) out += static_cast<char>(value | 0x80);
  out += static_cast<char>(value);
}
void put_key(std::string& out, uint64_t number, Wire type) {
  put_varint(out, number << 3 | static_cast<uint64_t>(type));
}
void put_integer(std::string& out, uint64_t number, int64_t value) {
  put_key(out, number, Wire::varint);
  put_varint(out, static_cast<uint64_t>(value));
}
void put_bytes(std::string& out, uint64_t number, std::string_view bytes) {
  put_key(out, number, Wire::bytes);
  put_varint(out, bytes.size());
  out += bytes;
}
void put_float(std::string& out, uint64_t number, float value) {
  put_key(out, number, Wire::fixed32);
  put_little_endian(out, std::bit_cast<uint32_t>(value));
}
void put_double(std::string& out, uint64_t number, double value) {
  put_key(out, number, Wire::fixed64);
  put_little_endian(out, std::bit_cast<uint64_t>(value));
}

// Fields of Event and of what it holds.
constexpr uint64_t kWallTime = 1, kStep = 2, kFileVersion = 3, kSummary = 5, kSessionLog = 7;
constexpr uint64_t kSummaryValue = 1;
constexpr uint64_t kTag = 1, kSimpleValue = 2, kImage = 4, kTensor = 8, kMetadata = 9;

int64_t unix_seconds() {
  using std::chrono::system_clock;
  return std::chrono::duration_cast<std::chrono::seconds>(system_clock::now().time_since_epoch())
      .count();
}

double unix_time() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

/// Later than the time in the name of every event file in the folder.
int64_t next_stamp(const std::string& folder) {
  int64_t stamp = unix_seconds();
  std::error_code failure;
  for (const auto& entry : std::filesystem::directory_iterator(folder, failure)) {
    const std::string name = entry.path().filename().string();
    if (!is_event_file(name)) continue;
    int64_t theirs = 0;
    std::from_chars(name.data() + kPrefix.size(), name.data() + name.size(), theirs);
    stamp = std::max(stamp, theirs + 1);
  }
  BORA_CHECK(!failure, "EventWriter: reading the folder ", folder, ": ", failure.message());
  return stamp;
}

uint32_t big_endian(std::string_view bytes) {
  uint32_t value = 0;
  for (const char c : bytes) value = value << 8 | static_cast<uint8_t>(c);
  return value;
}

}  // namespace

uint32_t crc32c(std::string_view bytes) {
  static constexpr std::array<uint32_t, 256> kTable = crc_table();
  uint32_t crc = ~0u;
  for (const char c : bytes) crc = crc >> 8 ^ kTable[(crc ^ static_cast<uint8_t>(c)) & 0xff];
  return ~crc;
}

bool is_event_file(std::string_view name) { return name.starts_with(kPrefix); }

EventWriter::EventWriter(const std::string& folder, int64_t first_step) {
  BORA_CHECK(first_step >= 0, "EventWriter: a first step of ", first_step, ", wanted 0 or more");
  const int64_t stamp = next_stamp(folder);
  // O_EXCL: two writers of one process and second get names of their own.
  for (int n = 0; fd_ < 0; ++n) {
    path_ = detail::join(folder, "/", kPrefix, stamp, ".", host_name(), ".", ::getpid(), ".", n);
    fd_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, mode_t{0666});
    BORA_CHECK(fd_ >= 0 || errno == EEXIST, "opening ", path_,
               " for writing: ", std::strerror(errno));
  }
  std::string version;
  put_bytes(version, kFileVersion, "brain.Event:2");
  write(0, version);
  std::string start, session;
  constexpr uint64_t kStatus = 1;
  constexpr int64_t kStart = 1;
  put_integer(start, kStatus, kStart);
  put_bytes(session, kSessionLog, start);
  write(first_step, session);
}

EventWriter::~EventWriter() {
  if (fd_ >= 0) ::close(fd_);
}

EventWriter::EventWriter(EventWriter&& other) noexcept
    : path_(std::move(other.path_)), fd_(std::exchange(other.fd_, -1)) {}

void EventWriter::write(int64_t step, std::string_view what) {
  BORA_CHECK(fd_ >= 0, "EventWriter: write to ", path_, " after a move");
  BORA_CHECK(step >= 0, "EventWriter: a step of ", step, ", wanted 0 or more");
  std::string event;
  put_double(event, kWallTime, unix_time());
  put_integer(event, kStep, step);
  event += what;
  std::string record;
  put_little_endian(record, static_cast<uint64_t>(event.size()));
  put_little_endian(record, masked(crc32c(record)));
  record += event;
  put_little_endian(record, masked(crc32c(event)));
  size_t at = 0;
  while (at < record.size()) {
    const ssize_t n = ::write(fd_, record.data() + at, record.size() - at);
    if (n < 0 && errno == EINTR) continue;
    BORA_CHECK(n > 0, "writing ", path_, ": ", std::strerror(n < 0 ? errno : EIO));
    at += static_cast<size_t>(n);
  }
}

void EventWriter::scalars(int64_t step, const Scalars& values) {
  if (values.empty()) return;
  std::string summary, event;
  for (const auto& [tag, number] : values) {
    std::string value;
    put_bytes(value, kTag, tag);
    put_float(value, kSimpleValue, static_cast<float>(number));
    put_bytes(summary, kSummaryValue, value);
  }
  put_bytes(event, kSummary, summary);
  write(step, event);
}

void EventWriter::image(int64_t step, const std::string& tag, std::string_view png) {
  // Signature, then the header's length and name, width, height (PNG specification, 5.2, 11.2.2).
  constexpr std::string_view kSignature = "\x89PNG\r\n\x1a\n";
  constexpr size_t kWidthAt = 16, kHeightAt = 20, kHeaderEnd = 33;
  BORA_CHECK(png.starts_with(kSignature) && png.size() >= kHeaderEnd, "EventWriter: the picture '",
             tag, "' of ", png.size(), " bytes is no PNG");
  constexpr uint64_t kHeight = 1, kWidth = 2, kColourSpace = 3, kEncoded = 4;
  constexpr int64_t kRgb = 3;
  std::string image, value, summary, event;
  put_integer(image, kHeight, big_endian(png.substr(kHeightAt, 4)));
  put_integer(image, kWidth, big_endian(png.substr(kWidthAt, 4)));
  put_integer(image, kColourSpace, kRgb);
  put_bytes(image, kEncoded, png);
  put_bytes(value, kTag, tag);
  put_bytes(value, kImage, image);
  put_bytes(summary, kSummaryValue, value);
  put_bytes(event, kSummary, summary);
  write(step, event);
}

void EventWriter::text(int64_t step, const std::string& tag, const std::string& markdown) {
  constexpr uint64_t kPlugin = 1, kPluginName = 1;           // SummaryMetadata
  constexpr uint64_t kType = 1, kShape = 2, kTextValue = 8;  // TensorProto
  constexpr uint64_t kDimension = 2, kSize = 1;              // TensorShapeProto
  constexpr int64_t kString = 7;                             // DataType
  std::string plugin, metadata, dimension, shape, tensor, value, summary, event;
  put_bytes(plugin, kPluginName, "text");
  put_bytes(metadata, kPlugin, plugin);
  put_integer(dimension, kSize, 1);
  put_bytes(shape, kDimension, dimension);
  put_integer(tensor, kType, kString);
  put_bytes(tensor, kShape, shape);
  put_bytes(tensor, kTextValue, markdown);
  put_bytes(value, kTag, tag);
  put_bytes(value, kMetadata, metadata);
  put_bytes(value, kTensor, tensor);
  put_bytes(summary, kSummaryValue, value);
  put_bytes(event, kSummary, summary);
  write(step, event);
}

}  // namespace bora::data
