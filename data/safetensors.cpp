// SPDX-License-Identifier: Apache-2.0
#include "data/safetensors.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "data/atomic_file.hpp"

namespace bora::data {
namespace {

static_assert(std::endian::native == std::endian::little, "the format is little-endian");

using Json = nlohmann::ordered_json;

constexpr const char* kMetadata = "__metadata__";
constexpr int64_t kLengthBytes = 8;
constexpr int64_t kNone = -1;

struct TypeName {
  DType type;
  const char* name;
};
constexpr std::array kTypes{TypeName{DType::f32, "F32"},   TypeName{DType::f16, "F16"},
                            TypeName{DType::bf16, "BF16"}, TypeName{DType::f64, "F64"},
                            TypeName{DType::i64, "I64"},   TypeName{DType::i32, "I32"},
                            TypeName{DType::u8, "U8"}};

const char* file_name_of(DType type) {
  for (const TypeName& t : kTypes)
    if (t.type == type) return t.name;
  BORA_FAIL("write_safetensors: ", type, " has no name in the format");
}

/// For messages: a value as JSON, cut where it is long.
std::string show(const Json& value) {
  constexpr size_t kShown = 60;
  std::string text = value.dump(-1, ' ', true, Json::error_handler_t::replace);
  if (text.size() > kShown) text = text.substr(0, kShown) + "...";
  return text;
}

// ---- reading

/// Parses the header.  A key twice would make it mean different things to different readers, and
/// nothing in it nests deeper than object, tensor, list.
Json parse_header(const std::string& path, const std::string& text) {
  BORA_CHECK(!text.empty() && text.front() == '{', path,
             ": the header does not begin with '{': this is no safetensors file");
  std::vector<std::set<std::string>> keys;
  std::vector<std::string> names;  // of the objects around
  const auto watch = [&](int depth, Json::parse_event_t event, Json& value) {
    using Event = Json::parse_event_t;
    BORA_CHECK(depth < 4, path, ": the header nests deeper than a safetensors header can");
    if (event == Event::object_start) keys.emplace_back();
    if (event == Event::object_end) keys.pop_back();
    if (event == Event::key) {
      const std::string key = value.get<std::string>();
      if (keys.size() == 1) names = {key};
      BORA_CHECK(keys.back().insert(key).second, path, ": the header has the key '", key, "' twice",
                 keys.size() > 1 ? " in '" + names.front() + "'" : "");
    }
    return true;
  };
  try {
    return Json::parse(text, watch);
  } catch (const Json::exception& e) {
    // Its text may quote the header's bytes; printable ones only.
    std::string what = e.what();
    std::erase_if(what, [](char c) { return c < ' ' || c > '~'; });
    BORA_FAIL(path, ": the header is not JSON: ", what.substr(0, 200));
  }
}

/// A count that fits int64_t, or nothing.
std::optional<int64_t> count_of(const Json& value) {
  if (!value.is_number_unsigned()) return std::nullopt;
  const auto n = value.get<uint64_t>();
  if (n > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) return std::nullopt;
  return static_cast<int64_t>(n);
}

DType type_of(const std::string& where, const Json& value) {
  std::string known;
  for (const TypeName& t : kTypes) {
    if (value.is_string() && value.get_ref<const std::string&>() == t.name) return t.type;
    known.append(known.empty() ? "" : ", ").append(t.name);
  }
  BORA_FAIL(where, ": dtype ", show(value), ", wanted one of ", known);
}

Shape shape_of(const std::string& where, const Json& value) {
  BORA_CHECK(value.is_array(), where, ": shape ", show(value), ", wanted a list of extents");
  BORA_CHECK(value.size() <= static_cast<size_t>(Shape::kMaxRank), where, ": shape of ",
             value.size(), " extents, wanted at most ", Shape::kMaxRank);
  Shape shape;
  for (const Json& extent : value) {
    const auto n = count_of(extent);
    BORA_CHECK(n, where, ": shape ", show(value), ", wanted whole numbers from 0");
    shape = shape.append(*n);
  }
  return shape;
}

/// Bytes of so many elements; kNone if the extents are too large to count with, even where one of
/// them is 0.
int64_t bytes_of(const Shape& shape, DType type) {
  int64_t bytes = size_of(type);
  bool none = false;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    none = none || shape[axis] == 0;
    const int64_t extent = std::max<int64_t>(shape[axis], 1);
    if (bytes > std::numeric_limits<int64_t>::max() / extent) return kNone;
    bytes *= extent;
  }
  return none ? 0 : bytes;
}

SafetensorsReader::Entry entry_of(const std::string& where, const Json& value) {
  BORA_CHECK(value.is_object(), where, ": ", show(value),
             ", wanted an object with dtype, shape and data_offsets");
  for (const auto& [key, ignored] : value.items())
    BORA_CHECK(key == "dtype" || key == "shape" || key == "data_offsets", where, ": unknown key '",
               key, "', wanted dtype, shape and data_offsets");
  for (const char* key : {"dtype", "shape", "data_offsets"})
    BORA_CHECK(value.contains(key), where, ": no key '", key,
               "', wanted dtype, shape and data_offsets");
  SafetensorsReader::Entry entry;
  entry.dtype = type_of(where, value["dtype"]);
  entry.shape = shape_of(where, value["shape"]);
  const Json& offsets = value["data_offsets"];
  std::optional<int64_t> begin, end;
  if (offsets.is_array() && offsets.size() == 2) {
    begin = count_of(offsets[0]);
    end = count_of(offsets[1]);
  }
  BORA_CHECK(begin && end && *begin <= *end, where, ": data_offsets ", show(offsets),
             ", wanted [begin, end] with 0 <= begin <= end");
  entry.begin = *begin;
  entry.end = *end;
  const int64_t bytes = bytes_of(entry.shape, entry.dtype);
  BORA_CHECK(entry.end - entry.begin == bytes, where, ": data_offsets ", show(offsets), " are ",
             entry.end - entry.begin, " bytes, shape ", entry.shape, " of ", entry.dtype, " wants ",
             bytes == kNone ? "more than any file has" : std::to_string(bytes));
  return entry;
}

TextMap metadata_of(const std::string& path, const Json& value) {
  BORA_CHECK(value.is_object(), path, ": ", kMetadata, " is ", show(value),
             ", wanted an object of texts");
  TextMap texts;
  for (const auto& [key, text] : value.items()) {
    BORA_CHECK(text.is_string(), path, ": ", kMetadata, " '", key, "' is ", show(text),
               ", wanted text");
    texts.emplace(key, text.get<std::string>());
  }
  return texts;
}

/// One behind the other, from 0 to the file's last byte.
void check_places(const std::string& path,
                  const std::map<std::string, SafetensorsReader::Entry>& entries,
                  int64_t data_bytes) {
  std::vector<std::pair<const SafetensorsReader::Entry*, const std::string*>> order;
  for (const auto& [name, entry] : entries) order.emplace_back(&entry, &name);
  std::sort(order.begin(), order.end(), [](const auto& a, const auto& b) {
    return std::pair(a.first->begin, a.first->end) < std::pair(b.first->begin, b.first->end);
  });
  int64_t at = 0;
  const std::string* before = nullptr;
  for (const auto& [entry, name] : order) {
    const std::string neighbour =
        before ? "tensor '" + *before + "', which ends there" : "the beginning of the data";
    BORA_CHECK(entry->begin >= at, path, ": tensor '", *name, "' begins at byte ", entry->begin,
               ", wanted ", at, ": it overlaps ", neighbour);
    BORA_CHECK(entry->begin == at, path, ": tensor '", *name, "' begins at byte ", entry->begin,
               ", wanted ", at, ": it leaves a hole after ", neighbour);
    BORA_CHECK(entry->end <= data_bytes, path, ": tensor '", *name, "' ends at byte ", entry->end,
               " of the data, the file has ", data_bytes, ": it is cut short");
    at = entry->end;
    before = name;
  }
  BORA_CHECK(at == data_bytes, path, ": ", data_bytes, " bytes of data, the tensors are ", at, ": ",
             data_bytes - at, " bytes belong to none");
}

void read_at(const std::string& path, int64_t place, void* out, int64_t bytes) {
  std::ifstream in(path, std::ios::binary);
  in.seekg(place);
  in.read(static_cast<char*>(out), bytes);
  BORA_CHECK(in.good() && in.gcount() == bytes, path, ": reading ", bytes, " bytes at ", place,
             " failed: ", errno != 0 ? std::strerror(errno) : "the file is shorter");
}

}  // namespace

SafetensorsReader::SafetensorsReader(const std::string& path) : path_(path) {
  std::error_code failure;
  BORA_CHECK(!std::filesystem::is_directory(path, failure), path, ": is a folder, wanted a file");
  const auto size = std::filesystem::file_size(path, failure);
  BORA_CHECK(!failure, path, ": ", failure.message());
  const auto file_bytes = static_cast<int64_t>(size);
  BORA_CHECK(file_bytes >= kLengthBytes, path, ": ", file_bytes,
             " bytes, a safetensors file has at least 10: it is cut short or of another format");
  uint64_t length = 0;
  read_at(path, 0, &length, kLengthBytes);
  BORA_CHECK(length <= static_cast<uint64_t>(kMaxHeader), path, ": a header of ", length,
             " bytes, wanted at most ", kMaxHeader, ": this is no safetensors file");
  const auto header_bytes = static_cast<int64_t>(length);
  BORA_CHECK(header_bytes <= file_bytes - kLengthBytes, path, ": a header of ", header_bytes,
             " bytes in a file of ", file_bytes, ": it is cut short or of another format");
  std::string text(static_cast<size_t>(header_bytes), '\0');
  read_at(path, kLengthBytes, text.data(), header_bytes);
  data_begin_ = kLengthBytes + header_bytes;
  const Json header = parse_header(path, text);
  for (const auto& [name, value] : header.items()) {
    if (name == kMetadata) {
      metadata_ = metadata_of(path, value);
    } else {
      entries_.emplace(name, entry_of(path + ": tensor '" + name + "'", value));
    }
  }
  check_places(path, entries_, file_bytes - data_begin_);
}

Tensor SafetensorsReader::read(const std::string& name) const {
  const auto found = entries_.find(name);
  BORA_CHECK(found != entries_.end(), path_, ": no tensor '", name, "' among ", entries_.size());
  const Entry& entry = found->second;
  Tensor out = Tensor::empty(entry.shape, entry.dtype);
  if (out.bytes() > 0) read_at(path_, data_begin_ + entry.begin, out.raw(), out.bytes());
  return out;
}

// ---- writing

void write_safetensors(const std::string& path, const std::vector<NamedTensor>& tensors,
                       const TextMap& metadata) {
  std::vector<const NamedTensor*> order;
  for (const NamedTensor& t : tensors) {
    BORA_CHECK(t.tensor.defined(), "write_safetensors: ", path, ": tensor '", t.name,
               "' is undefined");
    BORA_CHECK(!t.name.empty() && t.name != kMetadata, "write_safetensors: ", path,
               ": a tensor cannot be named '", t.name, "'");
    order.push_back(&t);
  }
  std::stable_sort(order.begin(), order.end(), [](const NamedTensor* a, const NamedTensor* b) {
    return size_of(a->tensor.dtype()) > size_of(b->tensor.dtype());
  });
  Json header = Json::object();
  if (!metadata.empty()) header[kMetadata] = metadata;
  int64_t at = 0;
  for (const NamedTensor* t : order) {
    BORA_CHECK(!header.contains(t->name), "write_safetensors: ", path, ": two tensors are named '",
               t->name, "'");
    Json shape = Json::array();
    for (int axis = 0; axis < t->tensor.rank(); ++axis) shape.push_back(t->tensor.size(axis));
    header[t->name] = {{"dtype", file_name_of(t->tensor.dtype())},
                       {"shape", std::move(shape)},
                       {"data_offsets", {at, at + t->tensor.bytes()}}};
    at += t->tensor.bytes();
  }
  std::string text;
  try {
    text = header.dump();
  } catch (const Json::exception&) {
    BORA_FAIL("write_safetensors: ", path, ": a name or a text of the metadata is not UTF-8");
  }
  text.resize((text.size() + 7) / 8 * 8, ' ');  // the data begins at a multiple of 8
  const uint64_t length = text.size();
  BORA_CHECK(length <= static_cast<uint64_t>(SafetensorsReader::kMaxHeader),
             "write_safetensors: ", path, ": names and metadata are ", length,
             " bytes, wanted at most ", SafetensorsReader::kMaxHeader);
  AtomicFile file(path);
  file.write(&length, sizeof length);
  file.write(text);
  for (const NamedTensor* t : order) {
    const Tensor host = t->tensor.device() == cpu() ? t->tensor : t->tensor.to(cpu());
    if (host.bytes() > 0) file.write(host.raw(), host.bytes());
  }
  file.commit();
}

}  // namespace bora::data
