// SPDX-License-Identifier: Apache-2.0
#include "data/dataset.hpp"

namespace bora::data {

int64_t Dataset::n_channels() const {
  BORA_CHECK(size() > 0, "Dataset::n_channels: there is no case to read them from");
  const Sample first = read(0, WindowChoice::centred());
  BORA_CHECK(first.input.rank() > 0, name(0), ": its input has no axes, wanted channels last");
  return first.input.size(first.input.rank() - 1);
}

std::vector<std::string> names_of(const Dataset& dataset) {
  std::vector<std::string> names;
  for (int64_t i = 0; i < dataset.size(); ++i) names.push_back(dataset.name(i));
  return names;
}

Sample read_sample(const Dataset& dataset, int64_t index, const WindowChoice& choice) {
  Sample sample = dataset.read(index, choice);
  if (sample.name.empty()) sample.name = dataset.name(index);
  if (sample.index < 0) sample.index = index;
  for (const auto& [tensor, what] : {std::pair{&sample.input, "input"}, {&sample.target, "target"}})
    BORA_CHECK(tensor->defined() && tensor->device() == cpu(), "data set: ", sample.name, " has ",
               tensor->defined() ? "its " : "no ", what,
               tensor->defined() ? " on a device, wanted on the CPU" : "");
  const Shape shape = sample.input.shape();
  BORA_CHECK(shape.rank() > 0, "data set: the input of ", sample.name,
             " has no axes, wanted channels last");
  Shape cells;
  for (int axis = 0; axis + 1 < shape.rank(); ++axis) cells = cells.append(shape[axis]);
  for (const auto& [mask, what] : {std::pair{&sample.region, "region"}, {&sample.valid, "valid"}}) {
    if (!mask->defined()) *mask = Tensor::full(cells, 1, DType::u8);
    BORA_CHECK(mask->shape() == cells && mask->dtype() == DType::u8, "data set: the mask '", what,
               "' of ", sample.name, " is ", mask->shape(), " ", mask->dtype(), ", wanted ", cells,
               " u8");
  }
  BORA_CHECK(!sample.weight.defined() ||
                 (sample.weight.shape() == cells && sample.weight.dtype() == DType::f32),
             "data set: the weights of ", sample.name, " are ", sample.weight.shape(), " ",
             sample.weight.dtype(), ", wanted ", cells, " f32");
  return sample;
}

}  // namespace bora::data
