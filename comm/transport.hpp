// SPDX-License-Identifier: Apache-2.0
// Inner header of comm: how bytes get from rank to rank.  MpiTransport and TcpTransport are the
// ways.
#pragma once

#include "core/error.hpp"

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace bora {

/// The network has failed, or a rank is lost.
struct TransportError : Error {
  using Error::Error;
};

/// A send or receive under way; done when `id` is 0.  Belongs to the transport that gave it.
struct Request {
  uint64_t id = 0;
};

/// A group of ranks that send each other bytes.  Nothing here waits for another rank, except where
/// it says "collective".  Messages of a pair with the same tag arrive in the order they were sent.
/// Any thread may call it at any time.  Errors of the network, and the loss of a rank where that is
/// noticed, are thrown as TransportError
/// (MPI: Error).
class Transport {
 public:
  virtual ~Transport() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// "MPI", "TCP".
  virtual const char* name() const = 0;

  /// Starts.  The memory must not be touched (send) or used (receive) until the request is done.
  /// At most 2^31 - 1 bytes, tags from 0 to 32767.  A message may be shorter than its receive.
  virtual Request send(const void* data, int64_t bytes, int peer, int tag) = 0;
  virtual Request receive(void* data, int64_t bytes, int peer, int tag) = 0;
  /// Whether all are done.
  virtual bool test(std::span<Request> requests) = 0;
  /// test() of one receive whose data nobody wants: no error if the message was too long for it.
  virtual bool test_unwanted(Request& request) = 0;
  /// Takes a receive back that no message will come for; it still has to be tested.
  virtual void cancel(Request& request) = 0;
  /// Receives a message of exactly `bytes` with this tag if one is there, from whomever; its rank,
  /// -1 if there is none.
  virtual int take(void* data, int64_t bytes, int tag) = 0;
  /// Lets messages go on that other ranks wait for.
  virtual void progress() = 0;
  /// Sleeps for about that long; may return as soon as something has arrived.
  virtual void rest(std::chrono::microseconds time);

  /// Starts an exchange: every rank's `bytes` of `mine` arrive in `all` by rank.  Adds what is to
  /// be tested to `requests`.
  virtual void start_all_gather(const void* mine, int64_t bytes, void* all,
                                std::vector<Request>& requests);
  /// Starts the transport's own broadcast, if it has one; else returns false.
  virtual bool start_broadcast(void* data, int64_t bytes, int root, std::vector<Request>& requests);

  /// For each rank the lowest rank of those that share its host's memory.  Collective; all ranks
  /// must be known to be there.
  virtual std::vector<int> lowest_on_host() = 0;
  /// Ranks of equal color (>= 0), ordered by (key, rank).  Collective; all must be known to be
  /// there.
  virtual std::unique_ptr<Transport> split(int color, int key) = 0;
};

/// Tests until all are done, with naps; Error after the limit.  `what` names it in the message.
void wait_for(Transport& transport, std::span<Request> requests, double limit_s,
              std::string_view what);

/// Every rank's `bytes` of `mine` in `all`, by rank.  Collective; all ranks are known to be there,
/// so this is quick, and an Error after the time limit of operations.
void all_gather_bytes(Transport& transport, const void* mine, int64_t bytes, void* all,
                      std::string_view what);
template <class T>
std::vector<T> all_gather(Transport& transport, const T& mine, std::string_view what) {
  static_assert(std::is_trivially_copyable_v<T>);
  std::vector<T> all(static_cast<size_t>(transport.size()));
  all_gather_bytes(transport, &mine, sizeof(T), all.data(), what);
  return all;
}

}  // namespace bora
