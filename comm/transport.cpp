// SPDX-License-Identifier: Apache-2.0
#include "comm/transport.hpp"

#include "comm/run_state.hpp"

#include <cstring>
#include <thread>

namespace bora {
namespace {

// Of its own, so that an exchange never meets data or notes (comm/engine).
constexpr int kGatherTag = 3;

}  // namespace

void Transport::rest(std::chrono::microseconds time) { std::this_thread::sleep_for(time); }

void Transport::start_all_gather(const void* mine, int64_t bytes, void* all,
                                 std::vector<Request>& requests) {
  auto* const rows = static_cast<char*>(all);
  const int n = size(), me = rank();
  if (bytes > 0) std::memcpy(rows + me * bytes, mine, static_cast<size_t>(bytes));
  // Each begins with another neighbour, so that not all send to rank 0 first.
  for (int k = 1; k < n; ++k) {
    const int from = (me - k + n) % n;
    requests.push_back(receive(rows + from * bytes, bytes, from, kGatherTag));
  }
  for (int k = 1; k < n; ++k)
    requests.push_back(send(rows + me * bytes, bytes, (me + k) % n, kGatherTag));
}

bool Transport::start_broadcast(void*, int64_t, int, std::vector<Request>&) { return false; }

void wait_for(Transport& transport, std::span<Request> requests, double limit_s,
              std::string_view what) {
  using Clock = std::chrono::steady_clock;
  const auto start = Clock::now();
  constexpr int kLooks = 100;  // before the first nap
  for (int looks = 0; !transport.test(requests); ++looks) {
    if (looks < kLooks) {
      std::this_thread::yield();
      continue;
    }
    const double waited = std::chrono::duration<double>(Clock::now() - start).count();
    BORA_CHECK(waited <= limit_s, what, ": time is over on rank ", transport.rank(), " of ",
               transport.size(), " after ", waited, " s (limit ", limit_s, " s)");
    transport.rest(std::chrono::microseconds(waited < 0.1 ? 50 : 1000));
  }
}

void all_gather_bytes(Transport& transport, const void* mine, int64_t bytes, void* all,
                      std::string_view what) {
  std::vector<Request> requests;
  transport.start_all_gather(mine, bytes, all, requests);
  wait_for(transport, requests, wait_limit(), what);
}

}  // namespace bora
