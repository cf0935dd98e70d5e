// SPDX-License-Identifier: Apache-2.0
#include "apps/unet3d/onnx_export.hpp"

#include <set>
#include <string>

#include "apps/unet3d/exchange.hpp"
#include "core/build_info.hpp"
#include "nn/layers/norm.hpp"

namespace bora::unet3d {
namespace {

using onnx::Attribute;
using Ints = std::vector<int64_t>;

constexpr int64_t kF32 = 1;  // the number of the type in the format

/// Writes the graph down in the order in which UNet3d::forward runs.  Values carry the names of
/// the layers that make them.
class Graph {
 public:
  Graph(UNet3d& net, onnx::Model& out) : config_(net.config()), out_(out) {
    out_.weights = torch_tensors(net);
    for (const onnx::NamedTensor& weight : out_.weights) names_.insert(weight.name);
  }

  /// Whether the network has a tensor of this name.
  bool has(const std::string& tensor) const { return names_.contains(tensor); }

  /// Adds an operation that makes one value, called as the operation is; returns that name.
  std::string add(const std::string& op, const std::string& name, std::vector<std::string> inputs,
                  std::map<std::string, Attribute> attributes = {}) {
    out_.nodes.push_back({op, name, std::move(inputs), {name}, std::move(attributes)});
    return name;
  }
  /// A constant, made once.
  std::string constant(const std::string& name, const Tensor& value) {
    if (names_.insert(name).second) out_.weights.push_back({name, value});
    return name;
  }
  std::string integers(const std::string& name, const Ints& values) {
    return constant(name, Tensor::from({static_cast<int64_t>(values.size())}, values));
  }

  /// Convolution `name` with a cubic kernel, padded so that extents stay.
  std::string conv(const std::string& x, const std::string& name, int64_t kernel) {
    std::vector<std::string> inputs{x, name + ".weight"};
    if (has(name + ".bias")) inputs.push_back(name + ".bias");
    return add("Conv", name, std::move(inputs),
               {{"kernel_shape", Ints(3, kernel)}, {"pads", Ints(6, kernel / 2)}});
  }

  std::string norm(const std::string& x, const std::string& name, int64_t channels) {
    constexpr float kEps = 1e-5f;  // nn::Norm's
    const nn::NormKind kind = nn::norm_kind(config_.norm);
    if (kind == nn::NormKind::group)
      return norm_by_sample(x, name, channels, nn::group_count(channels), kEps);
    if (kind == nn::NormKind::instance) return norm_by_sample(x, name, channels, channels, kEps);
    return add("BatchNormalization", name,
               {x, name + ".weight", name + ".bias", name + ".running_mean", name + ".running_var"},
               {{"epsilon", kEps}});
  }

  /// A group or instance norm, (x - mean) * gamma / sqrt(var + eps) + beta, in small steps: ONNX
  /// has an operator for each, but onnxruntime's sums run over all cells of a group in f32 one
  /// after the other, and that of GroupNormalization takes the variance as E[x^2] - E[x]^2.  On the
  /// building masks that come in here the first is off by 4e-5 of a field's largest value and by
  /// 2e-4 of sigma from two million cells on, the second gives NaN for a mean of 1000 sigma (1.32,
  /// measured).  Axis by axis the sums are short.
  std::string norm_by_sample(const std::string& x, const std::string& name, int64_t channels,
                             int64_t groups, float eps) {
    const std::string mean = mean_of(x, "ReduceMean", name + ".mean", channels, groups);
    const std::string apart = add("Sub", name + ".apart", {x, mean});
    const std::string var = mean_of(apart, "ReduceSumSquare", name + ".var", channels, groups);
    const std::string sigma =
        add("Sqrt", name + ".sigma",
            {add("Add", name + ".var_eps",
                 {var, constant("epsilon", number(static_cast<double>(eps)))})});
    const std::string side = integers("space_behind", {1, 2, 3});
    const std::string gamma = add("Unsqueeze", name + ".gamma", {name + ".weight", side});
    const std::string beta = add("Unsqueeze", name + ".beta", {name + ".bias", side});
    const std::string scale = add("Div", name + ".scale", {gamma, sigma});
    return add("Add", name, {add("Mul", name + ".scaled", {apart, scale}), beta});
  }

  /// Means over the cells and channels of each group, given to each of its channels: (N, C, 1, 1,
  /// 1).  `first`: what reduces the last axis, ReduceMean, or ReduceSumSquare for a mean of
  /// squares.
  std::string mean_of(const std::string& x, const std::string& first, const std::string& name,
                      int64_t channels, int64_t groups) {
    std::string m = add(first, name + ".z", {x, integers("axis4", {4})});
    if (first == "ReduceSumSquare") {
      const std::string n =
          add("Shape", name + ".nz", {x}, {{"start", int64_t{4}}, {"end", int64_t{5}}});
      m = add("Div", name + ".z_mean", {m, add("Cast", name + ".count", {n}, {{"to", kF32}})});
    }
    m = add("ReduceMean", name + ".yz", {m, integers("axis3", {3})});
    m = add("ReduceMean", name + ".xyz", {m, integers("axis2", {2})});
    if (groups == channels) return m;
    const std::string c = std::to_string(channels);
    const Ints grouped{0, groups, channels / groups, 1, 1};  // 0: as it is
    m = add("Reshape", name + ".grouped", {m, integers("grouped" + c, grouped)});
    m = add("ReduceMean", name + ".of_group", {m, integers("axis2", {2})});
    m = add("Expand", name + ".of_each",
            {m, integers("each" + c, {1, 1, channels / groups, 1, 1})});
    return add("Reshape", name, {m, integers("channels" + c, {0, channels, 1, 1, 1})});
  }

  /// x * sigmoid(x) (the operator set has no SiLU of its own before 24), or the leaky ReLU.
  std::string activation(const std::string& x) {
    if (config_.activation == "leaky_relu")
      return add("LeakyRelu", x + ".leaky_relu", {x}, {{"alpha", static_cast<float>(kLeakySlope)}});
    return add("Mul", x + ".silu", {x, add("Sigmoid", x + ".sigmoid", {x})});
  }

  std::string block(const std::string& x, const std::string& name, int64_t channels) {
    std::string h = conv(x, name + ".conv1", 3);
    h = activation(norm(h, name + ".norm1", channels));
    h = norm(conv(h, name + ".conv2", 3), name + ".norm2", channels);
    const std::string shortcut = name + ".shortcut";
    const std::string residual = has(shortcut + ".weight") ? conv(x, shortcut, 1) : x;
    return activation(add("Add", name + ".sum", {h, residual}));
  }

  /// To the extents of `skip`, and half the channels.
  std::string up(const std::string& x, const std::string& name, const std::string& skip) {
    const std::string size =
        add("Shape", name + ".size", {skip}, {{"start", int64_t{2}}, {"end", int64_t{5}}});
    if (config_.up == "transposed") {
      // 2 n cells of n: where the skip has one more, the last gets the bias alone, as if there
      // were a cell of zeros behind x.  So there always is one, and what is too much is cut off.
      const std::string padded =
          add("Pad", name + ".padded", {x, integers("one_behind", {0, 0, 0, 0, 0, 0, 0, 1, 1, 1})});
      const std::string whole =
          add("ConvTranspose", name, {padded, name + ".weight", name + ".bias"},
              {{"kernel_shape", Ints(3, 2)}, {"strides", Ints(3, 2)}});
      return add("Slice", name + ".cut",
                 {whole, integers("corner", {0, 0, 0}), size, integers("space", {2, 3, 4})});
    }
    // The convolution first, as UNet3d::upsample does, and for its reason.
    return add("Resize", name + ".resized", {conv(x, name, 1), "", "", size},
               {{"mode", "linear"},
                {"coordinate_transformation_mode", "half_pixel"},
                {"axes", Ints{2, 3, 4}}});
  }

  std::string forward(const std::string& input) {
    std::vector<std::string> skips;
    std::string h = input;
    const auto width = [&](int64_t level) { return level_channels(config_, level); };
    for (int64_t level = 0; level < config_.levels; ++level) {
      const std::string name = "encoder" + std::to_string(level);
      skips.push_back(block(h, name, width(level)));
      h = add("MaxPool", name + ".pool", {skips.back()},
              {{"kernel_shape", Ints(3, 2)}, {"strides", Ints(3, 2)}});
    }
    h = block(h, "bottleneck", width(config_.levels));
    for (int64_t level = config_.levels; level-- > 0;) {
      const std::string number = std::to_string(level);
      const std::string& skip = skips[static_cast<size_t>(level)];
      const std::string wide = up(h, "up" + number, skip);
      h = add("Concat", "decoder" + number + ".in", {skip, wide}, {{"axis", int64_t{1}}});
      h = block(h, "decoder" + number, width(level));
    }
    return conv(h, "head", 1);
  }

  /// m/s outside buildings, 0 in them.
  std::string physical(const std::string& y, const std::string& input,
                       const data::Scaling& scaling) {
    const std::string scaled = add("Mul", "scaled", {y, constant("sigma", number(scaling.sigma))});
    const std::string speed = add("Add", "speed", {scaled, constant("mean", number(scaling.mean))});
    const std::string mask = add(
        "Slice", "mask",
        {input, integers("channel0", {0}), integers("channel1", {1}), integers("channels", {1})});
    const std::string zero = constant("zero", number(0));
    return add("Where", "field", {add("Less", "building", {mask, zero}), zero, speed});
  }

 private:
  static Tensor number(double value) { return Tensor::full({1}, value, DType::f32); }

  const ModelConfig& config_;
  onnx::Model& out_;
  std::set<std::string> names_;
};

}  // namespace

onnx::Model onnx_model(UNet3d& net, OnnxUnits units, const data::Scaling& scaling) {
  onnx::Model m;
  m.name = "UNet3d";
  m.opset = kOnnxOpset;
  Graph graph(net, m);
  std::string y = graph.forward("input");
  if (units == OnnxUnits::physical) y = graph.physical(y, "input", scaling);
  m.nodes.back().outputs = {"output"};
  const std::string least = std::to_string(net.min_extent());
  m.inputs = {{"input",
               {"N", net.in_channels(), "X", "Y", "Z"},
               "X, Y, Z: any extents of at least " + least}};
  m.outputs = {{"output", {"N", net.out_channels(), "X", "Y", "Z"}, ""}};
  return m;
}

namespace {

void name_source(onnx::Model& model, const StartState& state, data::TextMap texts,
                 const std::string& input, const std::string& output) {
  texts["bora.output"] = output;
  texts["bora.checkpoint"] = state.source;
  model.inputs.at(0).doc = input;
  model.outputs.at(0).doc = output;
  model.doc = detail::join("UNet3d, ", state.source, ", ", state.updates, " updates. ", input,
                           ". Output: ", output, ".");
  model.producer = "bora";
  model.producer_version = build_info().version;
  model.metadata = std::move(texts);
}

void describe_classes(onnx::Model& model, const StartState& state, data::TextMap texts) {
  const data::VolumesConfig& volumes = state.config.volumes;
  std::string scaled = volumes.normalisation;
  if (volumes.normalisation == "zscore")
    scaled = volumes.normalise_cells == "nonzero"
                 ? "(x - mean) / sigma, of the cells of the image that are not 0"
                 : "(x - mean) / sigma, of the image itself";
  if (volumes.normalisation == "none") scaled = "as it is in the files";
  std::string input = model.inputs.at(0).doc;
  for (int64_t c = 0; c < state.in_channels; ++c) {
    const std::string what = detail::join("channel ", c, " of the image, scaled: ", scaled);
    texts["bora.input." + std::to_string(c)] = what;
    input += "; " + what;
  }
  std::string output = "logits; the class is that of the largest:";
  for (size_t k = 0; k < volumes.classes.size(); ++k)
    output += detail::join(k == 0 ? " " : ", ", k, ' ', volumes.classes[k]);
  name_source(model, state, std::move(texts), input, output);
}

}  // namespace

void describe(onnx::Model& model, const StartState& state, OnnxUnits units) {
  data::TextMap texts = metadata_of(state);
  texts.erase("format");
  std::erase_if(texts, [](const auto& text) { return text.first.starts_with("bora.cases."); });
  static const char* const kChannels[] = {"building mask, -1 in buildings, 1 in the open",
                                          "sine of the wind angle", "cosine of the wind angle"};
  std::string input = model.inputs.at(0).doc;
  if (is_segmentation(state.config)) {
    describe_classes(model, state, std::move(texts));
    return;
  }
  for (int64_t c = 0; c < state.in_channels && c < 3; ++c) {
    texts["bora.input." + std::to_string(c)] = kChannels[c];
    input += detail::join("; channel ", c, ": ", kChannels[c]);
  }
  const data::Scaling scaling = state.moments.scaling();
  const bool in_m_s = units == OnnxUnits::physical || state.normalisation == data::NormMode::none;
  std::string output = "wind speed in m/s";
  if (units == OnnxUnits::physical) output += ", 0 in buildings";
  if (!in_m_s && state.normalisation == data::NormMode::global)
    output =
        detail::join("wind speed, normalised: m/s = output * ", scaling.sigma, " + ", scaling.mean);
  if (!in_m_s && state.normalisation == data::NormMode::per_sample)
    output = "wind speed, normalised by each sample's own mean and sigma";
  name_source(model, state, std::move(texts), input, output);
}

}  // namespace bora::unet3d
