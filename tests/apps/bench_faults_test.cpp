// SPDX-License-Identifier: Apache-2.0
// A step in the middle of a run asks the kernel for no page: tensors come from the allocator's
// arena, everything else from a heap that was grown at the start.  First touches cost up to
// 19 us each, several times the work done on them.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "apps/bench/step.hpp"
#include "apps/common/threads.hpp"
#include "comm/communicator.hpp"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define BORA_SANITIZED 1
#endif

namespace bora::bench {
namespace {

int64_t faults() {
  rusage u{};
  ::getrusage(RUSAGE_SELF, &u);
  return u.ru_minflt + u.ru_majflt;
}

struct Setting {
  const char *network, *precision;
};

class StepFaults : public testing::TestWithParam<Setting> {};

TEST_P(StepFaults, AreNoneAfterTheThirdStep) {
#ifdef BORA_SANITIZED
  GTEST_SKIP() << "a sanitizer's own memory faults";
#endif
  apps::set_compute_threads(1);  // as every program of ours begins; prepares the heap
  const auto ranks = make_self_communicator();
  StepConfig config;
  config.network = GetParam().network;
  config.precision = GetParam().precision;
  config.model.base = 8;
  config.size = Dims3::all(32);
  Step step(config, *ranks);
  constexpr int kSteps = 6;
  std::vector<int64_t> count(kSteps + 1);  // touched here, not between the steps
  count[0] = faults();
  for (int i = 1; i <= kSteps; ++i) {
    step.run();
    count[static_cast<size_t>(i)] = faults();
  }
  for (int i = 4; i <= kSteps; ++i)
    EXPECT_EQ(count[static_cast<size_t>(i)] - count[static_cast<size_t>(i - 1)], 0) << "step " << i;
  // The count works: the first write to a new page is one.
  const size_t page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  void* fresh = ::mmap(nullptr, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(fresh, MAP_FAILED);
  const int64_t before = faults();
  *static_cast<volatile char*>(fresh) = 1;
  EXPECT_EQ(faults() - before, 1);
  ::munmap(fresh, page);
}

INSTANTIATE_TEST_SUITE_P(Cases, StepFaults,
                         testing::Values(Setting{"unet3d", "fp32"}, Setting{"unet3d", "bf16"},
                                         Setting{"unet3d", "fp16"}, Setting{"plain", "fp32"},
                                         Setting{"plain", "bf16"}, Setting{"plain", "fp16"}),
                         [](const testing::TestParamInfo<Setting>& setting) {
                           return std::string(setting.param.network) + "_" +
                                  setting.param.precision;
                         });

}  // namespace
}  // namespace bora::bench
