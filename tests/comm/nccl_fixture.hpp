// SPDX-License-Identifier: Apache-2.0
// For tests of the NCCL communicator over the doubles: a host group, tensors on "devices", a clean
// end.
#pragma once

#include "comm/communicator.hpp"
#include "comm/nccl_communicator.hpp"
#include "tests/comm/collective_values.hpp"
#include "tests/nccl_double/nccl_double.hpp"
#include "tests/support/message_of.hpp"
#include "tests/support/mpi_main.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace bora::testing {

/// Starts the doubles, and at the end counts what is left of them.
class DoubleEnvironment final : public ::testing::Environment {
 public:
  void SetUp() override {
    nccl_double::start();
    nccl_double::use_backend(true);
  }
  void TearDown() override {
    const auto left = nccl_double::counters();
    EXPECT_EQ(0, left.communicators);
    EXPECT_EQ(0, left.streams);
    EXPECT_EQ(0, left.events);
    EXPECT_EQ(0, left.allocations);
    EXPECT_EQ(0, left.misuses);
    nccl_double::stop();
  }
};
inline ::testing::Environment* const kDoubles =
    ::testing::AddGlobalTestEnvironment(new DoubleEnvironment);

/// Eight devices on the host, no faults; limits that a busy machine keeps.
class NcclTest : public ::testing::Test {
 protected:
  NcclTest() {
    nccl_double::set_devices({"0", "1", "2", "3", "4", "5", "6", "7"});
    nccl_double::set_faults({});
    CommunicatorOptions host_options;
    host_options.timeout_s = 30;
    host_ = make_communicator(session(), host_options);
    options_.timeout_s = 30;
    options_.first_timeout_s = 30;
    options_.poll_s = 0.05;
  }
  ~NcclTest() override { nccl_double::set_faults({}); }

  std::unique_ptr<NcclCommunicator> make() const {
    return make_nccl_communicator(*host_, nccl_place(session()), options_);
  }
  int rank() const { return session().rank(); }
  int size() const { return session().size(); }
  /// Gives this rank faults if it is the one.
  void set_faults_on(int culprit, const nccl_double::Faults& faults) const {
    if (rank() == culprit) nccl_double::set_faults(faults);
  }
  /// What rank() tells about itself, on all ranks.
  std::vector<std::string> on_all(const std::string& text) const {
    return host_->all_gather_text(text, "test");
  }

  std::unique_ptr<Collective> host_;
  NcclOptions options_;
};

/// A communicator, and the device that it works on.
class NcclOperations : public NcclTest {
 protected:
  NcclOperations() : nccl_(make()), device_(cuda(nccl_->device())) {}
  // Row 22: the same bytes on all ranks.
  void expect_same_everywhere(const Tensor& x) {
    const Tensor mine = x.to(cpu());
    const std::string bytes(static_cast<const char*>(mine.raw()),
                            static_cast<size_t>(mine.bytes()));
    const auto all = on_all(bytes);
    for (const std::string& other : all) EXPECT_EQ(all[0], other);
  }

  std::unique_ptr<NcclCommunicator> nccl_;
  Device device_;
};

}  // namespace bora::testing
