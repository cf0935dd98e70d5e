// SPDX-License-Identifier: Apache-2.0
// The network as ONNX.  Files are read, and graphs run, by a reader that knows nothing of the
// writer (onnx_file.hpp); tests/e2e/onnx.sh asks onnxruntime.
#include "apps/unet3d/onnx_export.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "apps/unet3d/exchange.hpp"
#include "core/tape.hpp"
#include "data/permute.hpp"
#include "nn/parameter_arena.hpp"
#include "tests/apps/onnx_file.hpp"
#include "tests/data/pipeline_support.hpp"
#include "tests/support/message_of.hpp"
#include "tests/support/random.hpp"

namespace bora::unet3d {
namespace {

using bora::test::normal_values;
using bora::test::OnnxArray;
using bora::test::OnnxFile;
using bora::test::OnnxNode;
using bora::testing::message_of;
using data::test::TempFolder;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::Pair;

/// A network in which no value is that of a fresh one: gains, shifts and running means too.
struct Network {
  Network(int64_t in, int64_t out, const ModelConfig& config)
      : net(in, out, config), arena(net, DType::f32) {
    nn::initialise(net, 1);
    uint64_t seed = 0;
    for (const nn::NamedParameter& p : nn::named_parameters(net))
      if (p.parameter->shape.rank() == 1) blur(p.parameter->value.detach(), ++seed);
    for (const nn::NamedBuffer& b : nn::named_buffers(net)) blur(*b.buffer, ++seed);
    net.set_training(false);
  }
  static void blur(Tensor t, uint64_t seed) {
    const std::vector<double> noise = normal_values(t.numel(), seed);
    for (int64_t i = 0; i < t.numel(); ++i)
      t.data<float>()[i] += 0.3f * std::abs(static_cast<float>(noise[static_cast<size_t>(i)]));
  }
  UNet3d net;
  nn::ParameterArena arena;
};

OnnxArray array_of(const Tensor& x) {
  OnnxArray a;
  for (int axis = 0; axis < x.rank(); ++axis) a.shape.push_back(x.size(axis));
  for (const float v : x.to_vector<float>()) a.values.push_back(static_cast<double>(v));
  return a;
}

/// A mask of -1 and 1 in channel 0, noise in the others.
Tensor input_of(const Shape& shape) {
  const std::vector<double> values = normal_values(shape.numel(), 7);
  Tensor x = Tensor::from(shape, std::vector<float>(values.begin(), values.end()));
  for (int64_t i = 0; i < x.numel(); i += shape[4])
    x.data<float>()[i] = x.data<float>()[i] < 0 ? -1.0f : 1.0f;
  return x;
}

/// Largest difference over the largest value, of a graph's result and a tensor (N, D, H, W, C).
double difference(const OnnxArray& y, const Tensor& channels_last) {
  const OnnxArray wanted = array_of(data::permute(channels_last.detach(), {0, 4, 1, 2, 3}));
  EXPECT_EQ(y.shape, wanted.shape);
  double error = 0, largest = 0;
  for (size_t i = 0; i < wanted.values.size(); ++i) {
    error = std::max(error, std::abs(y.values.at(i) - wanted.values[i]));
    largest = std::max(largest, std::abs(wanted.values[i]));
  }
  EXPECT_GT(largest, 0.1);
  return error / largest;
}

const std::vector<Shape> kSizes{{2, 9, 4, 7, 0}, {1, 5, 10, 6, 0}};

// One file for each kind of network, two sizes, odd ones, a batch of 2.  1e-5: as for PyTorch
// (exchange_test.cpp); the graph runs in f64 here.
TEST(Onnx, GraphMeansTheNetworkForAllOptionsAndSizes) {
  const TempFolder folder;
  for (const char* norm : {"group", "instance", "batch", "sync_batch"})
    for (const char* up : {"trilinear", "transposed"}) {
      const int64_t in = norm[0] == 'g' ? 3 : 1, out = norm[0] == 'b' ? 2 : 1;
      Network n(in, out, {.base = 4, .levels = 2, .norm = norm, .up = up, .dropout = 0.5});
      EXPECT_FALSE(onnx::write(folder.file("net.onnx"), onnx_model(n.net)));
      const OnnxFile file(folder.file("net.onnx"));
      const NoGrad no_grad;
      for (const Shape& size : kSizes) {
        const Tensor x = input_of({size[0], size[1], size[2], size[3], in});
        const OnnxArray y = file.run(array_of(data::permute(x, {0, 4, 1, 2, 3})));
        EXPECT_LE(difference(y, n.net.forward(x)), 1e-5) << norm << ", " << up << ", " << size;
      }
    }
}

TEST(Onnx, AnyDepth) {
  const TempFolder folder;
  for (const int64_t levels : {1, 3}) {
    Network n(1, 1, {.base = 2, .levels = levels});
    onnx::write(folder.file("net.onnx"), onnx_model(n.net));
    const NoGrad no_grad;
    const Tensor x = input_of({1, 9, 8, 11, 1});
    const OnnxArray y =
        OnnxFile(folder.file("net.onnx")).run(array_of(data::permute(x, {0, 4, 1, 2, 3})));
    EXPECT_LE(difference(y, n.net.forward(x)), 1e-5) << levels;
  }
}

// m/s = output * sigma + mean in the open, 0 in buildings, whatever the network says there.
TEST(Onnx, PhysicalUnitsAreInTheGraph) {
  const TempFolder folder;
  Network n(3, 1, {.base = 4, .levels = 1});
  onnx::write(folder.file("net.onnx"),
              onnx_model(n.net, OnnxUnits::physical, {.mean = 3.5, .sigma = 2.25}));
  const NoGrad no_grad;
  const Tensor x = input_of({2, 5, 4, 3, 3});
  Tensor wanted = n.net.forward(x).detach().clone();
  int64_t buildings = 0;
  for (int64_t i = 0; i < wanted.numel(); ++i) {
    float& v = wanted.data<float>()[i];
    const bool building = x.data<float>()[3 * i] < 0;
    buildings += building;
    v = building ? 0.0f : v * 2.25f + 3.5f;
  }
  EXPECT_GT(buildings, 10);
  const OnnxArray y =
      OnnxFile(folder.file("net.onnx")).run(array_of(data::permute(x, {0, 4, 1, 2, 3})));
  EXPECT_LE(difference(y, wanted), 1e-5);
}

TEST(Onnx, WeightsHaveTheirNamesAndBitsOfPyTorch) {
  const TempFolder folder;
  Network n(1, 1, {.base = 4, .levels = 2, .norm = "batch", .up = "transposed"});
  onnx::write(folder.file("net.onnx"), onnx_model(n.net));
  const OnnxFile file(folder.file("net.onnx"));
  for (const data::NamedTensor& t : torch_tensors(n.net)) {
    ASSERT_TRUE(file.weights.contains(t.name)) << t.name;
    const OnnxArray& found = file.weights.at(t.name);
    EXPECT_EQ(found.shape, array_of(t.tensor).shape) << t.name;
    const auto bytes = static_cast<size_t>(t.tensor.bytes());
    EXPECT_EQ(found.bytes, std::string(static_cast<const char*>(t.tensor.raw()), bytes)) << t.name;
  }
}

StartState some_state(data::NormMode mode) {
  StartState s;
  s.source = "runs/a/best.h5";
  s.in_channels = 3;
  s.normalisation = mode;
  s.moments = {4, 3.5, 4 * 2.25 * 2.25};
  s.training = {"secret case"};
  s.updates = 17;
  return s;
}

TEST(Onnx, SaysWhatItIs) {
  const TempFolder folder;
  Network n(3, 1, {.base = 2, .levels = 2});
  onnx::Model model = onnx_model(n.net);
  describe(model, some_state(data::NormMode::global), OnnxUnits::normalised);
  onnx::write(folder.file("net.onnx"), model);
  const OnnxFile file(folder.file("net.onnx"));
  EXPECT_EQ(file.ir_version, 10);
  EXPECT_EQ(file.domain, "");
  EXPECT_EQ(file.opset, 21);
  EXPECT_EQ(file.name, "UNet3d");
  EXPECT_EQ(file.producer, "bora");
  ASSERT_EQ(file.inputs.size(), 1u);
  ASSERT_EQ(file.outputs.size(), 1u);
  EXPECT_EQ(file.inputs[0].name, "input");
  EXPECT_EQ(file.outputs[0].name, "output");
  EXPECT_EQ(file.inputs[0].type, 1);
  EXPECT_THAT(file.inputs[0].shape, ElementsAre("N", "3", "X", "Y", "Z"));
  EXPECT_THAT(file.outputs[0].shape, ElementsAre("N", "1", "X", "Y", "Z"));
  EXPECT_THAT(file.inputs[0].doc,
              AllOf(HasSubstr("at least 4"), HasSubstr("channel 0: building mask"),
                    HasSubstr("channel 1: sine"), HasSubstr("channel 2: cosine")));
  EXPECT_EQ(file.outputs[0].doc, "wind speed, normalised: m/s = output * 2.25 + 3.5");
  EXPECT_THAT(file.doc, AllOf(HasSubstr("runs/a/best.h5"), HasSubstr("17 updates")));
  EXPECT_THAT(file.metadata, AllOf(Contains(Pair("bora.normalisation.mean", "3.5")),
                                   Contains(Pair("bora.normalisation.sigma", "2.25")),
                                   Contains(Pair("bora.updates", "17")),
                                   Contains(Pair("bora.checkpoint", "runs/a/best.h5")),
                                   Contains(Pair("bora.output", file.outputs[0].doc))));
  for (const auto& [key, text] : file.metadata) EXPECT_THAT(text, Not(HasSubstr("secret"))) << key;

  const auto output = [&](data::NormMode mode, OnnxUnits units) {
    describe(model, some_state(mode), units);
    return model.outputs[0].doc;
  };
  EXPECT_EQ(output(data::NormMode::global, OnnxUnits::physical),
            "wind speed in m/s, 0 in buildings");
  EXPECT_EQ(output(data::NormMode::none, OnnxUnits::normalised), "wind speed in m/s");
  EXPECT_THAT(output(data::NormMode::per_sample, OnnxUnits::normalised),
              HasSubstr("each sample's own"));
}

// Readers of Protocol Buffers take no message beyond 2 GiB; here the limit is lower.
TEST(Onnx, TooLargeAFileKeepsItsWeightsBeside) {
  const TempFolder folder;
  Network n(1, 1, {.base = 4, .levels = 2, .up = "transposed"});
  const onnx::Model model = onnx_model(n.net);
  const std::string path = folder.file("net.onnx");
  EXPECT_FALSE(onnx::write(path, model));
  const auto whole = static_cast<int64_t>(std::filesystem::file_size(path));
  EXPECT_FALSE(onnx::write(path, model, whole)) << "just fits";
  EXPECT_FALSE(std::filesystem::exists(onnx::data_path(path)));
  const OnnxFile inside(path);
  EXPECT_TRUE(onnx::write(path, model, whole - 1));
  const OnnxFile outside(path);
  ASSERT_EQ(outside.weights.size(), inside.weights.size());
  for (const auto& [name, weight] : inside.weights) {
    const OnnxArray& other = outside.weights.at(name);
    EXPECT_EQ(other.bytes, weight.bytes) << name;
    EXPECT_EQ(other.shape, weight.shape) << name;
    ASSERT_EQ(other.external.empty(), weight.bytes.size() < 1024) << name;
    if (other.external.empty()) continue;
    EXPECT_EQ(other.external.at("location"), "net.onnx.data");
    EXPECT_EQ(std::stol(other.external.at("offset")) % 4096, 0) << name;
  }
  EXPECT_THAT(message_of([&] { onnx::write(path, model, 1000); }),
              AllOf(HasSubstr(path), HasSubstr("without the weights, wanted at most 1000")));
  EXPECT_EQ(OnnxFile(path).weights.size(), inside.weights.size())
      << "a refused one changes nothing";
  EXPECT_EQ(folder.n_files(), 2);
}

TEST(Onnx, SameNetworkSameBytes) {
  const TempFolder folder;
  Network n(1, 1, {.base = 4, .levels = 1});
  onnx::write(folder.file("a"), onnx_model(n.net));
  onnx::write(folder.file("b"), onnx_model(n.net));
  EXPECT_EQ(data::test::read_file(folder.file("a")), data::test::read_file(folder.file("b")));
}

TEST(Onnx, RefusesGraphsAndTextsThatNoReaderTakes) {
  const TempFolder folder;
  Network n(1, 1, {.base = 2, .levels = 1});
  const onnx::Model good = onnx_model(n.net);
  const auto refused = [&](const std::function<void(onnx::Model&)>& change) {
    onnx::Model bad = good;
    change(bad);
    return message_of([&] { onnx::write(folder.file("bad.onnx"), bad); });
  };
  EXPECT_THAT(refused([](auto& m) { m.nodes[2].outputs = m.nodes[1].outputs; }),
              HasSubstr("two values are named 'encoder0.norm1.mean.z'"));
  EXPECT_THAT(
      refused([](auto& m) { std::swap(m.nodes[0], m.nodes[1]); }),
      HasSubstr("bad.onnx: ReduceMean 'encoder0.norm1.mean.z' wants 'encoder0.conv1', which is "
                "not made before it"));
  EXPECT_THAT(refused([](auto& m) { m.outputs[0].name = "result"; }), HasSubstr("'result'"));
  EXPECT_THAT(refused([](auto& m) { m.weights[0].tensor = Tensor(); }),
              HasSubstr("weight 'encoder0.conv1.weight' is undefined"));
  EXPECT_THAT(refused([](auto& m) { m.weights[0].tensor = m.weights[0].tensor.to(DType::f16); }),
              HasSubstr("is of f16, wanted f32 or i64"));
  for (const char* text : {"\xff", "a\x80", "\xc3", "\xc3(", "\xe2\x82", "\xc0\xaf"})
    EXPECT_THAT(refused([&](auto& m) { m.metadata["key"] = text; }),
                HasSubstr("'key' of the metadata is not UTF-8"));
  EXPECT_EQ(folder.n_files(), 0);
  EXPECT_EQ(refused([](auto& m) {
              m.metadata
                  ["Stra\xc3\x9f"
                   "e"] = "\xe2\x82\xac \xf0\x9f\x8c\x80";
            }),
            "no error");
}

}  // namespace
}  // namespace bora::unet3d
