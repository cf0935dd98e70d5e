// SPDX-License-Identifier: Apache-2.0
// Helper of checkpoint_kill_test: saves for ever, until it is killed.  Each save holds one number
// only, in every element, so that a file mixed from two saves shows.
#include <cstdio>

#include "data/run_checkpoints.hpp"

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  try {
    for (int64_t i = 1;; ++i) {
      bora::Tensor w = bora::Tensor::full({40000}, static_cast<double>(i), bora::DType::i64);
      bora::data::save_last_checkpoint(argv[1], [&](bora::StateVisitor& v) {
        v.value("i", i);
        v.tensor("w", w);
      });
    }
  } catch (const bora::Error& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
}
