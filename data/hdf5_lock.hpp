// SPDX-License-Identifier: Apache-2.0
// Who has the lock of hdf5.hpp, for those that wait behind it.
#pragma once

#include <string>

namespace bora::data::hdf5 {

/// Whether some thread has the Lock now, for how long, and the file that it is at (empty: none
/// yet). Never waits for that thread.
struct LockHeld {
  double seconds = 0;  ///< 0: nobody has it
  std::string file;
};
LockHeld lock_held();

namespace detail {
/// By the thread that has the Lock: what it is at, for lock_held().
void note_holder(const std::string& file);
}  // namespace detail

}  // namespace bora::data::hdf5
