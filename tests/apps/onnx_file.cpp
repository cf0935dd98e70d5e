// SPDX-License-Identifier: Apache-2.0
#include "tests/apps/onnx_file.hpp"

#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>

namespace bora::test {
namespace {

[[noreturn]] void fail(const std::string& what) { throw std::runtime_error("onnx file: " + what); }

std::string content(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) fail("cannot open " + path.string());
  return {std::istreambuf_iterator<char>(in), {}};
}

/// The fields of a message, one after the other.
class Reader {
 public:
  explicit Reader(std::string_view bytes) : rest_(bytes) {}

  bool next() {
    if (rest_.empty()) return false;
    const uint64_t key = varint();
    field = static_cast<int>(key >> 3);
    wire_ = static_cast<int>(key & 7);
    if (wire_ == 0) {
      number_ = static_cast<int64_t>(varint());
    } else {
      if (wire_ != 2 && wire_ != 5) fail("wire type " + std::to_string(wire_));
      text_ = take(wire_ == 5 ? 4 : varint());
    }
    return true;
  }
  int64_t number() const { return want(0), number_; }
  std::string_view bytes() const { return want(2), text_; }
  std::string text() const { return std::string(bytes()); }
  float real() const {
    want(5);
    float value = 0;
    std::memcpy(&value, text_.data(), sizeof value);
    return value;
  }
  [[noreturn]] void unknown(const char* message) const {
    fail("field " + std::to_string(field) + " in a " + message);
  }

  int field = 0;

 private:
  uint64_t varint() {
    uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      const auto byte = static_cast<uint8_t>(take(1)[0]);
      value |= static_cast<uint64_t>(byte & 127) << shift;
      if (byte < 128) return value;
    }
    fail("a number of more than ten bytes");
  }
  std::string_view take(uint64_t n) {
    if (n > rest_.size()) fail("cut short");
    const std::string_view out = rest_.substr(0, n);
    rest_.remove_prefix(n);
    return out;
  }
  void want(int wire) const {
    if (wire_ != wire)
      fail("field " + std::to_string(field) + " has wire type " + std::to_string(wire_));
  }

  std::string_view rest_, text_;
  int wire_ = 0;
  int64_t number_ = 0;
};

std::pair<std::string, std::string> entry(std::string_view bytes) {
  std::pair<std::string, std::string> out;
  for (Reader r(bytes); r.next();) {
    if (r.field == 1)
      out.first = r.text();
    else if (r.field == 2)
      out.second = r.text();
    else
      r.unknown("StringStringEntryProto");
  }
  return out;
}

OnnxAttribute attribute(std::string_view bytes, std::string& name) {
  OnnxAttribute a;
  for (Reader r(bytes); r.next();) switch (r.field) {
      case 1:
        name = r.text();
        break;
      case 2:
        a.f = r.real();
        break;
      case 3:
        a.i = r.number();
        break;
      case 4:
        a.s = r.text();
        break;
      case 8:
        a.ints.push_back(r.number());
        break;
      case 20:
        a.type = r.number();
        break;
      default:
        r.unknown("AttributeProto");
    }
  return a;
}

OnnxNode node(std::string_view bytes) {
  OnnxNode n;
  for (Reader r(bytes); r.next();) switch (r.field) {
      case 1:
        n.inputs.push_back(r.text());
        break;
      case 2:
        n.outputs.push_back(r.text());
        break;
      case 3:
        n.name = r.text();
        break;
      case 4:
        n.op = r.text();
        break;
      case 5: {
        std::string name;
        const OnnxAttribute a = attribute(r.bytes(), name);
        if (!n.attributes.emplace(name, a).second) fail("attribute '" + name + "' twice");
        break;
      }
      default:
        r.unknown("NodeProto");
    }
  return n;
}

OnnxArray tensor(std::string_view bytes, std::string& name, const std::filesystem::path& folder) {
  OnnxArray t;
  bool apart = false;
  for (Reader r(bytes); r.next();) switch (r.field) {
      case 1:
        t.shape.push_back(r.number());
        break;
      case 2:
        t.type = r.number();
        break;
      case 8:
        name = r.text();
        break;
      case 9:
        t.bytes = r.text();
        break;
      case 13:
        t.external.insert(entry(r.bytes()));
        break;
      case 14:
        apart = r.number() == 1;
        break;
      default:
        r.unknown("TensorProto");
    }
  if (apart != !t.external.empty()) fail("tensor '" + name + "' is neither inside nor outside");
  if (apart)
    t.bytes = content(folder / t.external.at("location"))
                  .substr(std::stoul(t.external.at("offset")), std::stoul(t.external.at("length")));
  const size_t n = static_cast<size_t>(t.numel()), size = t.type == 1 ? 4 : 8;
  if ((t.type != 1 && t.type != 7) || t.bytes.size() != n * size)
    fail("tensor '" + name + "' of type " + std::to_string(t.type) + " has " +
         std::to_string(t.bytes.size()) + " bytes");
  for (size_t i = 0; i < n; ++i) {
    float f = 0;
    int64_t k = 0;
    std::memcpy(t.type == 1 ? static_cast<void*>(&f) : &k, t.bytes.data() + i * size, size);
    t.values.push_back(t.type == 1 ? static_cast<double>(f) : static_cast<double>(k));
  }
  return t;
}

void shape(std::string_view bytes, OnnxValue& v) {
  for (Reader dims(bytes); dims.next();) {
    if (dims.field != 1) dims.unknown("TensorShapeProto");
    for (Reader r(dims.bytes()); r.next();) {
      if (r.field == 1)
        v.shape.push_back(std::to_string(r.number()));
      else if (r.field == 2)
        v.shape.push_back(r.text());
      else
        r.unknown("Dimension");
    }
  }
}

OnnxValue value(std::string_view bytes) {
  OnnxValue v;
  for (Reader r(bytes); r.next();) {
    if (r.field == 1)
      v.name = r.text();
    else if (r.field == 3)
      v.doc = r.text();
    else if (r.field != 2)
      r.unknown("ValueInfoProto");
    else
      for (Reader type(r.bytes()); type.next();) {
        if (type.field != 1) type.unknown("TypeProto");
        for (Reader t(type.bytes()); t.next();) {
          if (t.field == 1)
            v.type = t.number();
          else if (t.field == 2)
            shape(t.bytes(), v);
          else
            t.unknown("TypeProto.Tensor");
        }
      }
  }
  return v;
}

}  // namespace

int64_t OnnxArray::numel() const {
  int64_t n = 1;
  for (const int64_t extent : shape) n *= extent;
  return n;
}

OnnxFile::OnnxFile(const std::string& path) {
  const std::string all = content(path);
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  std::string graph;
  for (Reader r(all); r.next();) switch (r.field) {
      case 1:
        ir_version = r.number();
        break;
      case 2:
        producer = r.text();
        break;
      case 3:
        producer_version = r.text();
        break;
      case 6:
        doc = r.text();
        break;
      case 7:
        graph = r.text();
        break;
      case 8:
        for (Reader set(r.bytes()); set.next();) {
          if (set.field == 1)
            domain = set.text();
          else if (set.field == 2)
            opset = set.number();
          else
            set.unknown("OperatorSetIdProto");
        }
        break;
      case 14:
        if (!metadata.insert(entry(r.bytes())).second) fail("a key of the metadata twice");
        break;
      default:
        r.unknown("ModelProto");
    }
  for (Reader r(graph); r.next();) switch (r.field) {
      case 1:
        nodes.push_back(node(r.bytes()));
        break;
      case 2:
        name = r.text();
        break;
      case 5: {
        std::string tensor_name;
        const OnnxArray t = tensor(r.bytes(), tensor_name, folder);
        if (!weights.emplace(tensor_name, t).second) fail("tensor '" + tensor_name + "' twice");
        break;
      }
      case 11:
        inputs.push_back(value(r.bytes()));
        break;
      case 12:
        outputs.push_back(value(r.bytes()));
        break;
      default:
        r.unknown("GraphProto");
    }
}

}  // namespace bora::test
