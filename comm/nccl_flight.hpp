// SPDX-License-Identifier: Apache-2.0
// Operations over NCCL in the flight recorder, their failure for the watchdog.
#pragma once

#include "comm/nccl_communicator.hpp"

namespace bora {

/// For NcclOptions::observer: records the operations of the communicator of this name, and tells
/// the watchdog when it is given up, which ends the run if nobody else does.
std::shared_ptr<NcclObserver> make_flight_observer();

}  // namespace bora
