// SPDX-License-Identifier: Apache-2.0
// A config with every type of field, for tests.
#pragma once

#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

#include "core/config.hpp"

namespace bora {

struct SampleSchedule {
  int64_t warmup = 0;
  std::string shape = "cosine";
  static constexpr auto fields() {
    return std::tuple{
        field("warmup", &SampleSchedule::warmup, "updates of linear rise", at_least(0)),
        field("shape", &SampleSchedule::shape, "how it falls", one_of("cosine", "constant"))};
  }
};

struct SampleOptim {
  float lr = 1e-3f;
  std::string kind = "adamw";
  SampleSchedule sched;
  bool nesterov = false;
  static constexpr auto fields() {
    return std::tuple{field("lr", &SampleOptim::lr, "peak learning rate", positive),
                      field("kind", &SampleOptim::kind, "update rule", one_of("adamw", "sgd")),
                      field("sched", &SampleOptim::sched, "the schedule"),
                      field("nesterov", &SampleOptim::nesterov, "look ahead")};
  }
};

struct SampleConfig {
  std::string name = "run";
  SampleOptim optim;
  int epochs = 10;
  int64_t steps = 0;
  uint64_t seed = 1;
  double eps = 1e-5;
  bool amp = false;
  std::vector<int64_t> widths{32, 64};
  std::vector<double> weights;
  std::vector<std::string> paths;
  Dims3 patch = Dims3::all(128);
  static constexpr auto fields() {
    return std::tuple{field("name", &SampleConfig::name, "the run's name"),
                      field("optim", &SampleConfig::optim, "the optimizer"),
                      field("epochs", &SampleConfig::epochs, "passes over the data", at_least(1)),
                      field("steps", &SampleConfig::steps, "0: no limit"),
                      field("seed", &SampleConfig::seed, "of all random draws"),
                      field("eps", &SampleConfig::eps, "smoothing", between(0, 1)),
                      field("amp", &SampleConfig::amp, "mixed precision"),
                      field("widths", &SampleConfig::widths, "channels a level", positive),
                      field("weights", &SampleConfig::weights, "of the classes"),
                      field("paths", &SampleConfig::paths, "input files"),
                      field("patch", &SampleConfig::patch, "voxels along D, H, W", positive)};
  }
};

}  // namespace bora
