// SPDX-License-Identifier: Apache-2.0
// A small writer of ONNX files: what a network of this program needs of the format, no more.
//
// An ONNX file is one Protocol Buffers message (ModelProto), which this encodes itself: a few kinds
// of fields are not worth a dependency.  Source: onnx/onnx.proto of the ONNX project (IR version
// 10) and the encoding at protobuf.dev.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "data/safetensors.hpp"

namespace bora::onnx {

using data::NamedTensor;

using Attribute = std::variant<int64_t, float, std::string, std::vector<int64_t>>;

/// One operation; its operands and results are known by name.  An operand that is left out is "".
struct Node {
  std::string op;
  std::string name;
  std::vector<std::string> inputs, outputs;
  std::map<std::string, Attribute> attributes;
};

/// An extent: a number, or a name for one that is known when the network runs.
using Extent = std::variant<int64_t, std::string>;

/// An input or output of the network, f32.
struct Value {
  std::string name;
  std::vector<Extent> shape;
  std::string doc;
};

struct Model {
  /// The file format's version, the one that came with operator set 21.
  static constexpr int64_t kIrVersion = 10;

  std::string name;
  std::string doc;
  std::string producer, producer_version;
  int64_t opset = 0;
  std::vector<Node> nodes;  ///< in an order in which they can run
  std::vector<Value> inputs, outputs;
  std::vector<NamedTensor> weights;  ///< f32 or i64, dense
  data::TextMap metadata;
};

/// The longest message that readers of Protocol Buffers take.
inline constexpr int64_t kLongestMessage = 2'147'483'647;

/// Where the weights lie that do not fit into the file at `path`: "<path>.data".
std::string data_path(const std::string& path);

/// Writes the model to `path`, as a whole or not at all.  Where it would be longer than `longest`
/// bytes, the weights (of 1 KiB or more) go to data_path(path), which must stay beside it under its
/// name; then what was at `path` goes away first, so that a network never stands beside another
/// one's weights. Returns whether they did.  The bytes are a function of the model alone. Throws
/// Error naming the file for a weight that is undefined or neither f32 nor i64, for a name that is
/// given to two values or used before it is made, for text that is not UTF-8, and for what the disk
/// refuses.
bool write(const std::string& path, const Model& model, int64_t longest = kLongestMessage);

}  // namespace bora::onnx
