// SPDX-License-Identifier: Apache-2.0
// The threads of a pre-flight: work that is watched, and left alone where it hangs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "data/preflight.hpp"

namespace bora::data::detail {

/// Pieces 0 to n - 1, each by itself.
struct Work {
  size_t n = 0;
  int n_threads = 1;
  std::string what;                         ///< "wind files"
  std::function<double(size_t)> allowed_s;  ///< a piece may take so long
  std::function<std::string(size_t)> name;  ///< of a piece, for the message
  std::function<void(size_t)> body;         ///< shares what it uses: may outlive the call
  PreflightHooks hooks;
};

/// Does all pieces by threads while this one watches and calls the hooks.  Rethrows what a piece
/// threw, the lowest piece's if several did.  Throws Error naming the pieces that take longer than
/// allowed, which are left to themselves then; what a hook throws, a second later at most.
void work_through(const Work& work);

/// A read of a case's files outside of the pre-flight and of the loader, bounded as a piece of the
/// pre-flight is: `body` runs in a thread of its own, and must own or share all that it uses.
/// `doing` for the message ("statistics of"), `bytes` of the files together.
void read_bounded(const std::string& doing, const PreflightItem& item, int64_t bytes,
                  std::function<void()> body, const ReadBound& bound = {});

}  // namespace bora::data::detail
