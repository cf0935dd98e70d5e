// SPDX-License-Identifier: Apache-2.0
// cuBLAS as an opened library.  Built where its headers are; needs no GPU.
#include "kernels/cublas/library.hpp"

#include <gtest/gtest.h>

#include "tests/support/message_of.hpp"

namespace bora::test {
namespace {

using bora::testing::message_of;
namespace cublas = kernels::cublas;

TEST(CublasLibrary, OpensWithAllItsFunctions) {
  const cublas::Library l = cublas::open_library(cublas::library_names());
  EXPECT_NE(l.gemm_ex, nullptr);
  EXPECT_NE(l.set_workspace, nullptr);
  EXPECT_NE(std::string(l.status_string(CUBLAS_STATUS_NOT_SUPPORTED)).find("not supported"),
            std::string::npos);
  // Without a GPU there is no handle: that is said with cuBLAS's word.
  const std::string message =
      message_of([] { cublas::check(CUBLAS_STATUS_NOT_INITIALIZED, "cublasCreate"); });
  EXPECT_NE(message.find("cublasCreate: "), std::string::npos) << message;
  EXPECT_NE(message.find("not initialized"), std::string::npos) << message;
}

TEST(CublasLibrary, NamesWhatItLookedForAndThePackage) {
  const std::string message = message_of([] {
    cublas::open_library({"libcublas_that_is_not_there.so.13", "/nowhere/libcublas.so.13"});
  });
  EXPECT_NE(message.find("libcublas_that_is_not_there.so.13"), std::string::npos) << message;
  EXPECT_NE(message.find("/nowhere/libcublas.so.13"), std::string::npos) << message;
  EXPECT_NE(message.find("libcublas-"), std::string::npos) << message;
  EXPECT_NE(message.find("LD_LIBRARY_PATH"), std::string::npos) << message;
}

TEST(CublasLibrary, RefusesALibraryWithoutItsFunctions) {
  const std::string message = message_of([] { cublas::open_library({"libm.so.6"}); });
  EXPECT_NE(message.find("'libm.so.6' has no function cublasCreate_v2"), std::string::npos)
      << message;
}

}  // namespace
}  // namespace bora::test
