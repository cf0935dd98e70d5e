// SPDX-License-Identifier: Apache-2.0
#include <mutex>

#include "core/error.hpp"
#include "kernels/cuda/conv3d_settings.hpp"
#include "kernels/cudnn/choice.hpp"

namespace bora::kernels::cuda {
namespace {

struct Shared {
  std::mutex mutex;
  Conv3dSettings settings;
};

Shared& shared() {
  static Shared s;
  return s;
}

}  // namespace

void set_conv3d_settings(const Conv3dSettings& settings) {
  BORA_CHECK(settings.workspace_limit >= 0, "convolutions on cuda: workspace limit is ",
             settings.workspace_limit, " bytes, wanted 0 or more");
  const std::lock_guard lock(shared().mutex);
  shared().settings = settings;
}

Conv3dSettings conv3d_settings() {
  const std::lock_guard lock(shared().mutex);
  return shared().settings;
}

void set_tf32(bool allowed) {
  const std::lock_guard lock(shared().mutex);
  shared().settings.tf32 = allowed;
}

bool tf32() { return conv3d_settings().tf32; }

std::string plan_file_text() { return cudnn::plan_book().text(); }

void load_plan_file_text(const std::string& text) { cudnn::plan_book().load(text); }

}  // namespace bora::kernels::cuda
