// SPDX-License-Identifier: Apache-2.0
// What a multi-rank test may ask its main().
#pragma once

#include "comm/mpi.hpp"

namespace bora::testing {

/// The session that mpi_main.cpp holds open around all tests.
const MpiSession& session();

}  // namespace bora::testing
