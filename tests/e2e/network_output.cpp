// SPDX-License-Identifier: Apache-2.0
// network_output CHECKPOINT OUT.safetensors NxDxHxW...: what the network of a checkpoint gives for
// made-up inputs of these sizes, in PyTorch's layout: input0, output0 (normalised), physical0 (m/s,
// 0 in buildings), input1, ...  Also OUT.safetensors.onnx, the network with its weights in a file
// beside it, as one beyond 2 GiB would be.
#include <cstdio>
#include <filesystem>

#include "apps/unet3d/onnx_export.hpp"
#include "apps/unet3d/setup.hpp"
#include "core/tape.hpp"
#include "data/permute.hpp"
#include "data/safetensors.hpp"
#include "tests/support/random.hpp"

namespace {

using namespace bora;

std::vector<data::NamedTensor> outputs(unet3d::TrainedModel& trained, int index, const char* text) {
  long long n = 0, d = 0, h = 0, w = 0;
  BORA_CHECK(std::sscanf(text, "%lldx%lldx%lldx%lld", &n, &d, &h, &w) == 4, "size '", text,
             "', wanted NxDxHxW");
  const int64_t channels = trained.model->in_channels();
  const Shape shape{n, d, h, w, channels};
  const std::vector<double> values =
      test::normal_values(shape.numel(), static_cast<uint64_t>(index));
  Tensor x = Tensor::from(shape, std::vector<float>(values.begin(), values.end()));
  // Channel 0 is a mask: buildings of -1 and much open space of 1, as in a city.
  float* v = x.data<float>();
  for (int64_t i = 0; i < n * d * h * w; ++i) {
    const int64_t z = i % w, py = i / w % h, px = i / w / h % d;
    v[i * channels] = px % 9 < 3 && py % 7 < 3 && 3 * z < w ? -1.0f : 1.0f;
  }
  const Tensor y = trained.model->forward(x).detach();
  Tensor physical = y.clone();
  data::denormalise(physical, trained.normaliser.scaling());
  for (int64_t i = 0; i < physical.numel(); ++i)
    if (v[i * channels] < 0) physical.data<float>()[i] = 0;
  const std::string number = std::to_string(index);
  return {{"input" + number, data::permute(x, {0, 4, 1, 2, 3})},
          {"output" + number, data::permute(y, {0, 4, 1, 2, 3})},
          {"physical" + number, data::permute(physical, {0, 4, 1, 2, 3})}};
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) return std::fputs("network_output CHECKPOINT OUT NxDxHxW...\n", stderr), 2;
  try {
    const NoGrad no_grad;
    unet3d::TrainedModel trained = unet3d::load_trained(argv[1]);
    std::vector<data::NamedTensor> all;
    for (int i = 3; i < argc; ++i)
      for (const data::NamedTensor& t : outputs(trained, i - 3, argv[i])) all.push_back(t);
    data::write_safetensors(argv[2], all);
    const std::string path = std::string(argv[2]) + ".onnx";
    const onnx::Model network = unet3d::onnx_model(*trained.model);
    onnx::write(path, network);
    const auto bytes = static_cast<int64_t>(std::filesystem::file_size(path));
    BORA_CHECK(onnx::write(path, network, bytes - 1), "the weights of ", path, " lie inside");
  } catch (const std::exception& e) {
    return std::fprintf(stderr, "network_output: %s\n", e.what()), 1;
  }
}
