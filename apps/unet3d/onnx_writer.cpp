// SPDX-License-Identifier: Apache-2.0
#include "apps/unet3d/onnx_writer.hpp"

#include <bit>
#include <filesystem>
#include <set>
#include <string_view>

#include "data/atomic_file.hpp"

namespace bora::onnx {
namespace {

static_assert(std::endian::native == std::endian::little, "the format is little-endian");

/// A message of Protocol Buffers: fields of (number, wire type, content).  Large contents are
/// referred to, not copied.
class Message {
 public:
  Message& number(int field, int64_t value) {
    key(field, kVarint);
    varint(static_cast<uint64_t>(value));
    return *this;
  }
  Message& real(int field, float value) {
    key(field, kFixed32);
    own(std::string_view(reinterpret_cast<const char*>(&value), sizeof value));
    return *this;
  }
  Message& text(int field, std::string_view value) {
    key(field, kBytes);
    varint(value.size());
    own(value);
    return *this;
  }
  /// The bytes must outlive the message.
  Message& bytes(int field, std::string_view value) {
    key(field, kBytes);
    varint(value.size());
    pieces_.push_back({{}, value});
    size_ += value.size();
    return *this;
  }
  Message& message(int field, Message inner) {
    key(field, kBytes);
    varint(inner.size_);
    for (Piece& piece : inner.pieces_) pieces_.push_back(std::move(piece));
    size_ += inner.size_;
    return *this;
  }

  int64_t size() const { return static_cast<int64_t>(size_); }
  void write_to(data::AtomicFile& file) const {
    for (const Piece& piece : pieces_) {
      file.write(piece.owned);
      file.write(piece.referred);
    }
  }

 private:
  enum Wire : uint64_t { kVarint = 0, kBytes = 2, kFixed32 = 5 };
  /// `owned`, then `referred`.
  struct Piece {
    std::string owned;
    std::string_view referred;
  };

  void key(int field, Wire wire) { varint(static_cast<uint64_t>(field) << 3 | wire); }
  void varint(uint64_t value) {  // seven bits a byte, the lowest first, the eighth: more to come
    std::string out;
    for (; value > 127; value >>= 7) out += static_cast<char>(value % 128 | 128);
    out += static_cast<char>(value);
    own(out);
  }
  void own(std::string_view value) {
    if (pieces_.empty() || !pieces_.back().referred.empty()) pieces_.emplace_back();
    pieces_.back().owned += value;
    size_ += value.size();
  }

  std::vector<Piece> pieces_;
  uint64_t size_ = 0;
};

// The numbers below are those of onnx.proto.

Message attribute_message(const std::string& name, const Attribute& attribute) {
  enum { kFloat = 1, kInt = 2, kString = 3, kInts = 7 };
  Message m;
  m.text(1, name);
  if (const auto* i = std::get_if<int64_t>(&attribute)) return m.number(3, *i).number(20, kInt);
  if (const auto* f = std::get_if<float>(&attribute)) return m.real(2, *f).number(20, kFloat);
  if (const auto* s = std::get_if<std::string>(&attribute))
    return m.text(4, *s).number(20, kString);
  for (const int64_t i : std::get<std::vector<int64_t>>(attribute)) m.number(8, i);
  return m.number(20, kInts);
}

Message node_message(const Node& node) {
  Message m;
  for (const std::string& name : node.inputs) m.text(1, name);
  for (const std::string& name : node.outputs) m.text(2, name);
  m.text(3, node.name).text(4, node.op);
  for (const auto& [name, attribute] : node.attributes)
    m.message(5, attribute_message(name, attribute));
  return m;
}

constexpr int kTypeF32 = 1, kTypeI64 = 7;

Message value_message(const Value& value) {
  Message shape;
  for (const Extent& extent : value.shape) {
    Message dim;
    if (const auto* n = std::get_if<int64_t>(&extent))
      dim.number(1, *n);
    else
      dim.text(2, std::get<std::string>(extent));
    shape.message(1, std::move(dim));
  }
  Message tensor, type;
  tensor.number(1, kTypeF32).message(2, std::move(shape));
  type.message(1, std::move(tensor));
  return Message().text(1, value.name).message(2, std::move(type)).text(3, value.doc);
}

Message entry_message(const std::string& key, const std::string& value) {
  return Message().text(1, key).text(2, value);
}

std::string_view bytes_of(const Tensor& t) {
  return {static_cast<const char*>(t.raw()), static_cast<size_t>(t.bytes())};
}

/// Weights in a file of their own begin at multiples of this, so that they can be mapped.
constexpr int64_t kPage = 4096;

/// Smaller ones always lie in the file itself: tools look into those that say shapes.
constexpr int64_t kSmall = 1024;

/// `offset`: where the weight lies in the file `location`; with an empty `location` it lies here.
Message weight_message(const NamedTensor& weight, const std::string& location, int64_t offset) {
  const Tensor& t = weight.tensor;
  Message m;
  for (int axis = 0; axis < t.rank(); ++axis) m.number(1, t.size(axis));
  m.number(2, t.dtype() == DType::f32 ? kTypeF32 : kTypeI64).text(8, weight.name);
  if (location.empty() || t.bytes() < kSmall) return m.bytes(9, bytes_of(t));
  constexpr int kExternal = 1;
  m.message(13, entry_message("location", location));
  m.message(13, entry_message("offset", std::to_string(offset)));
  m.message(13, entry_message("length", std::to_string(t.bytes())));
  return m.number(14, kExternal);
}

int64_t padded(int64_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }

Message model_message(const Model& model, const std::string& location) {
  Message graph;
  for (const Node& node : model.nodes) graph.message(1, node_message(node));
  graph.text(2, model.name);
  int64_t offset = 0;
  for (const NamedTensor& weight : model.weights) {
    graph.message(5, weight_message(weight, location, offset));
    if (weight.tensor.bytes() >= kSmall) offset += padded(weight.tensor.bytes());
  }
  for (const Value& value : model.inputs) graph.message(11, value_message(value));
  for (const Value& value : model.outputs) graph.message(12, value_message(value));
  Message m;
  m.number(1, Model::kIrVersion).text(2, model.producer).text(3, model.producer_version);
  m.text(6, model.doc).message(7, std::move(graph));
  m.message(8, Message().text(1, "").number(2, model.opset));  // "": ONNX's own operators
  for (const auto& [key, text] : model.metadata) m.message(14, entry_message(key, text));
  return m;
}

/// Bytes in the patterns of UTF-8: a lead byte says how many continue it.
bool is_utf8(std::string_view text) {
  int wanted = 0;
  for (const char c : text) {
    const auto byte = static_cast<uint8_t>(c);
    if (wanted > 0 ? (byte & 0xc0) != 0x80 : byte >= 0x80 && (byte < 0xc2 || byte > 0xf4))
      return false;
    if (wanted > 0)
      --wanted;
    else if (byte >= 0x80)
      wanted = byte < 0xe0 ? 1 : byte < 0xf0 ? 2 : 3;
  }
  return wanted == 0;
}

/// Each value is made once, and before it is used; texts are what every reader takes.
void check(const std::string& path, const Model& model) {
  std::set<std::string> made;
  const auto make = [&](const std::string& name) {
    BORA_CHECK(!name.empty() && made.insert(name).second, "onnx: ", path,
               ": two values are named '", name, "', wanted a name each");
  };
  const auto use = [&](const std::string& name, const std::string& by) {
    BORA_CHECK(name.empty() || made.contains(name), "onnx: ", path, ": ", by, " wants '", name,
               "', which is not made before it");
  };
  for (const Value& value : model.inputs) make(value.name);
  for (const NamedTensor& weight : model.weights) {
    make(weight.name);
    BORA_CHECK(weight.tensor.defined() && weight.tensor.device() == cpu(), "onnx: ", path,
               ": weight '", weight.name, "' is undefined or not on the CPU");
    BORA_CHECK(weight.tensor.dtype() == DType::f32 || weight.tensor.dtype() == DType::i64,
               "onnx: ", path, ": weight '", weight.name, "' is of ", weight.tensor.dtype(),
               ", wanted f32 or i64");
  }
  for (const Node& node : model.nodes) {
    for (const std::string& name : node.inputs) use(name, node.op + " '" + node.name + "'");
    for (const std::string& name : node.outputs) make(name);
  }
  for (const Value& value : model.outputs) use(value.name, "the network's output");
  for (const auto& [key, text] : model.metadata)
    BORA_CHECK(is_utf8(key) && is_utf8(text), "onnx: ", path, ": the text '", key,
               "' of the metadata is not UTF-8, which the format wants");
}

}  // namespace

std::string data_path(const std::string& path) { return path + ".data"; }

bool write(const std::string& path, const Model& model, int64_t longest) {
  check(path, model);
  Message message = model_message(model, "");
  const bool apart = message.size() > longest;
  if (apart) {
    const std::string beside = data_path(path);
    message = model_message(model, std::filesystem::path(beside).filename().string());
    BORA_CHECK(message.size() <= longest, "onnx: ", path, ": ", message.size(),
               " bytes without the weights, wanted at most ", longest);
    data::AtomicFile weights(beside);
    const std::string zeros(static_cast<size_t>(kPage), '\0');
    for (const NamedTensor& weight : model.weights) {
      const int64_t bytes = weight.tensor.bytes();
      if (bytes < kSmall) continue;
      weights.write(bytes_of(weight.tensor));
      weights.write(zeros.data(), padded(bytes) - bytes);
    }
    std::error_code failure;
    std::filesystem::remove(path, failure);
    BORA_CHECK(!failure, "onnx: cannot remove ", path, ": ", failure.message());
    weights.commit();
  }
  data::AtomicFile file(path);
  message.write_to(file);
  file.commit();
  return apart;
}

}  // namespace bora::onnx
