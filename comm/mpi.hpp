// SPDX-License-Identifier: Apache-2.0
// MpiSession: the name of Session from when MPI was the only way to start ranks.
#pragma once

#include "comm/session.hpp"

namespace bora {

using MpiSession = Session;

}  // namespace bora
