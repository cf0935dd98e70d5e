// SPDX-License-Identifier: Apache-2.0
// Saves a growing number into the folder given, until it is killed: `call`, in this thread, or
// `thread`, by a CheckpointSaver that also keeps periodic files.  Goes on from what is there.
#include <cstdio>
#include <string_view>

#include "data/checkpoint_saver.hpp"
#include "data/run_checkpoints.hpp"

int main(int argc, char** argv) {
  using namespace bora::data;
  if (argc != 3) return 2;
  const std::string folder = argv[1];
  const bool by_thread = std::string_view(argv[2]) == "thread";
  try {
    int64_t i = 0;
    bora::Tensor w = bora::Tensor::zeros({40000}, bora::DType::i64);
    const auto state = [&](bora::StateVisitor& v) {
      v.value("i", i);
      v.tensor("w", w);
    };
    if (const auto path = latest_valid(folder)) load_checkpoint(*path, state);
    CheckpointSaver saver({.folder = folder, .keep = 3});
    while (true) {
      ++i;
      w.fill(static_cast<double>(i));
      if (by_thread)
        saver.save({std::string(kLastCheckpoint), update_checkpoint(i)}, state);
      else
        save_last_checkpoint(folder, state);
    }
  } catch (const bora::Error& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
}
