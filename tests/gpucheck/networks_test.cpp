// SPDX-License-Identifier: Apache-2.0
#include "apps/gpucheck/networks.hpp"

#include <gtest/gtest.h>

#include "apps/gpucheck/layers.hpp"
#include "core/tape.hpp"
#include "nn/parameter_arena.hpp"
#include "tests/support/message_of.hpp"

namespace bora::gpucheck {
namespace {

TEST(MlperfUnet, HasThePublishedNumberOfParameters) {
  MlperfUnet net(1, 3);
  // By hand from the network's description: convolutions 27 i o, norms 2 o, transposed 8 i o + o.
  EXPECT_EQ(nn::parameter_count(net), 31190243);
}

TEST(MlperfUnet, GivesOneValueACellAndClassAndAGradientToEveryParameter) {
  Problem p = make_problem("mlperf", 1, 1, 32);
  nn::ParameterArena arena(*p.network, DType::f32);
  nn::initialise(*p.network, 1);
  const Tensor y = p.forward(p.input);
  EXPECT_EQ(y.shape(), (Shape{1, 32, 32, 32, 3}));
  backward(p.loss(p.input, p.target));
  EXPECT_TRUE(arena.missing_gradients().empty());
}

TEST(MlperfUnet, RefusesExtentsThatDoNotHalve) {
  MlperfUnet net(1, 3, 1);
  nn::ParameterArena arena(net, DType::f32);
  const std::string message = testing::message_of([&] {
    net.forward(Tensor::zeros({1, 32, 48, 32, 1}, DType::f32));
  });
  EXPECT_NE(message.find("multiple of 32"), std::string::npos) << message;
}

// So that the comparison with PyTorch is of the same layers: what torch_throughput.py counts.
TEST(GpuCheckProblem, HasTheParametersOfItsTwin) {
  EXPECT_EQ(nn::parameter_count(*make_problem("wind", 32, 1, 16).network), 21707905);
  EXPECT_EQ(nn::parameter_count(*make_problem("mlperf", 32, 1, 32).network), 31190243);
}

TEST(GpuCheckProblem, IsTheSameEachTimeAndRefusesOtherNames) {
  const Problem a = make_problem("wind", 1, 1, 16), b = make_problem("wind", 1, 1, 16);
  EXPECT_EQ(a.text, "wind 1x16x16x16");
  EXPECT_EQ(a.input.to_vector<float>(), b.input.to_vector<float>());
  EXPECT_NE(testing::message_of([] { make_problem("other", 1, 1, 16); }).find("mlperf, wind"),
            std::string::npos);
}

/// Elements of all weights that the list names.
int64_t weights_of(const std::vector<Layer>& layers) {
  int64_t n = 0;
  for (const Layer& l : layers) n += l.count * l.w.numel();
  return n;
}

// The list is written by hand beside the networks: it must name their very weights.
TEST(GpuCheckLayers, AreThoseOfTheNetworks) {
  for (const char* name : {"mlperf", "wind"}) {
    const Problem p = make_problem(name, 8, 1, 32);
    int64_t n = 0;
    for (const nn::NamedParameter& parameter : nn::named_parameters(*p.network))
      if (parameter.parameter->shape.rank() == 5) n += parameter.parameter->shape.numel();
    EXPECT_EQ(weights_of(layers_of(name, 8, 1, 32)), n) << name;
  }
  const std::vector<Layer> layers = layers_of("mlperf", 32, 2, 128);
  EXPECT_FALSE(layers.front().data_gradient);
  EXPECT_EQ(layers.front().text, "2x128x128x128x1 -> 32 k3 s1");
  EXPECT_NE(testing::message_of([] { layers_of("other", 8, 1, 32); }).find("mlperf or wind"),
            std::string::npos);
}

}  // namespace
}  // namespace bora::gpucheck
