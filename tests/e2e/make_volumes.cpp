// SPDX-License-Identifier: Apache-2.0
// make_volumes FOLDER FORMAT CASES: labelled volumes of balls and boxes, for tests of segmentation.
#include <cstdio>
#include <string>

#include "core/error.hpp"
#include "data/synthetic_volumes.hpp"

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fprintf(stderr, "usage: make_volumes FOLDER FORMAT CASES\n");
    return 2;
  }
  try {
    bora::data::SyntheticVolumesOptions options;
    options.format = argv[2];
    options.n_cases = std::stoi(argv[3]);
    options.grid = {24, 20, 16};
    options.weights = true;
    for (const std::string& name : bora::data::write_synthetic_volumes(argv[1], options))
      std::printf("%s\n", name.c_str());
    return 0;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
}
