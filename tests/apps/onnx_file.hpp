// SPDX-License-Identifier: Apache-2.0
// ONNX files as tests see them: a reader of the format of its own, and what the graph means by
// ONNX's definitions of its operators, in plain loops in f64.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace bora::test {

/// An array as ONNX has it: C order; integers are held as f64 too.
struct OnnxArray {
  std::vector<int64_t> shape;
  std::vector<double> values;
  int64_t type = 0;  ///< 1 = f32, 7 = i64
  std::string bytes;
  std::map<std::string, std::string> external;  ///< location, offset, length
  int64_t numel() const;
};

struct OnnxAttribute {
  int64_t type = 0, i = 0;
  float f = 0;
  std::string s;
  std::vector<int64_t> ints;
};

struct OnnxNode {
  std::string op, name;
  std::vector<std::string> inputs, outputs;
  std::map<std::string, OnnxAttribute> attributes;
};

struct OnnxValue {
  std::string name, doc;
  int64_t type = 0;
  std::vector<std::string> shape;  ///< a number or a name
};

struct OnnxFile {
  int64_t ir_version = 0, opset = -1;
  std::string domain, producer, producer_version, doc, name;
  std::vector<OnnxNode> nodes;
  std::vector<OnnxValue> inputs, outputs;
  std::map<std::string, OnnxArray> weights;
  std::map<std::string, std::string> metadata;

  /// Reads the file, and the weights that lie beside it.  Throws std::runtime_error for whatever is
  /// not of the format: a field of an unknown number or another wire type, a name twice.
  explicit OnnxFile(const std::string& path);

  /// The result called `output` for `input`.  Knows only the operators that unet3d writes.
  OnnxArray run(const OnnxArray& input) const;
};

}  // namespace bora::test
