// SPDX-License-Identifier: Apache-2.0
// Inner header of comm: the connections to all other ranks, and messages on them.
#pragma once

#include "comm/tcp_rendezvous.hpp"

#include <atomic>
#include <deque>
#include <mutex>
#include <span>
#include <thread>
#include <unordered_map>
#include <vector>

namespace bora::tcp {

/// What begins everything that goes over a connection.
struct Frame {
  enum Kind : uint32_t {
    eager = 1,  ///< a small message: `bytes` of it follow
    offer,      ///< a large one of `bytes`, which waits under `id` at its sender
    accept,     ///< send what waits under `id`; call it `answer`
    data,       ///< `bytes` of what was accepted as `id` follow
    goodbye,    ///< this rank has ended well
    abort       ///< end with code `id`
  };
  /// A message above this is offered first: a round trip more, but no copy at the receiver, and no
  /// memory there for what nobody wants yet.
  static constexpr int64_t kLargestEager = int64_t{64} << 10;
  uint32_t kind = 0;
  int32_t tag = 0;
  uint64_t group = 0;
  uint64_t id = 0;
  uint64_t bytes = 0;
  uint64_t answer = 0;
};

/// A send or a receive under way.
struct Parcel {
  std::atomic<bool> done{false};
  int peer = 0, tag = 0;
  uint64_t group = 0;
  char* data = nullptr;
  int64_t bytes = 0;    // of the message, or of the memory that receives
  int64_t moved = 0;    // so far
  int64_t message = 0;  // what the sender sent, for a receive
  uint64_t id = 0;      // under which the other side knows it
};

/// Sends and receives between this rank and every other.  Small messages leave at once and are kept
/// by the receiver until they are wanted; large ones are offered, and leave when the receive is
/// there, in chunks, so that small ones can overtake them.  Nothing waits here; things go on while
/// any thread calls test, take or progress.
///
/// A connection that ends without a goodbye is the end of the run: test and progress throw from
/// then on, and if the process has not ended 10 s later, it is ended with code 1.  The abort of
/// another rank ends this process at once.
class Mesh {
 public:
  /// `peers` by rank; this rank's own has no socket.
  Mesh(int rank, std::vector<Peer> peers);
  ~Mesh();

  int rank() const { return rank_; }
  int size() const { return static_cast<int>(links_.size()); }
  const std::string& host(int rank) const { return links_[static_cast<size_t>(rank)].host; }
  /// For each rank the lowest rank of its host.
  std::vector<int> lowest_on_host() const;

  Parcel* send(uint64_t group, const void* data, int64_t bytes, int peer, int tag);
  Parcel* receive(uint64_t group, void* data, int64_t bytes, int peer, int tag);
  enum class TooLong { error, dropped };
  /// Whether it is done; then it is gone, and `parcel` null.
  bool test(Parcel*& parcel, TooLong too_long);
  void cancel(Parcel* parcel);
  /// A message of the group with that tag that nobody has posted a receive for; its rank or -1.
  int take(uint64_t group, void* data, int64_t bytes, std::span<const int> from, int tag);
  /// Sends and receives what is possible.  Throws TransportError if a rank is lost.
  void progress();
  /// Until something arrives, or the time is over.
  void rest(std::chrono::microseconds time);

  /// After the last message: tells all others, and waits until they have ended as well, 1 s at
  /// most.
  void goodbye();
  /// Tells all others to end with this code, and ends.
  [[noreturn]] void abort(int code);

 private:
  static constexpr size_t kBuffer = size_t{64} << 10;
  enum class State { open, finished, lost };
  /// A message that came before its receive.
  struct Early {
    Frame frame;
    std::vector<char> data;
    bool complete = false;
    Parcel* taker = nullptr;  // gets it when it is complete
  };
  /// A frame on its way out.
  struct Out {
    Frame frame;
    const char* data = nullptr;
    Parcel* parcel = nullptr;  // of which this is a part
  };
  struct Link {
    Socket socket;
    std::string host, identity;
    State state = State::open;
    // In.
    std::vector<char> buffer;
    size_t begin = 0, end = 0;  // what was read and not looked at
    Frame frame;                // whose data is arriving
    uint64_t left = 0;          // of its data
    char* to = nullptr;         // where the data goes, `room` bytes; the rest is dropped
    uint64_t room = 0;
    Parcel* parcel = nullptr;
    Early* early = nullptr;
    std::deque<Parcel*> posted;
    std::deque<std::unique_ptr<Early>> earlies;
    // Out.
    std::deque<Out> urgent;
    std::deque<Parcel*> bulk;
    Out current;
    bool writing = false;
    size_t written = 0;  // of the current frame with its data
    bool blocked = false;
    std::string write_error;  // the end of writing; reading finds the end of the connection
  };

  Link& link(int rank) { return links_[static_cast<size_t>(rank)]; }
  Parcel* new_parcel(uint64_t group, char* data, int64_t bytes, int peer, int tag);
  void check_open(int peer, const char* what) const;
  [[noreturn]] void throw_failure() const;
  void move_all();
  void read_some(int rank);
  void parse(int rank);
  void begin_frame(int rank);
  void end_frame(int rank);
  void take_in(Link& link, const char* data, size_t bytes);
  void accept_offer(Link& link, const Frame& offer, Parcel* parcel);
  void write_some(int rank);
  bool next_out(Link& link);
  void put(int rank, Out out);
  void has_ended(int rank, const std::string& why);
  void has_finished(int rank);
  void fail(const std::string& why);
  bool all_written() const;
  // Until `done`, moving what can be moved.
  template <class Done>
  void move_until(Clock::time_point deadline, Done&& done);
  void watch();

  const int rank_;
  std::mutex mutex_;  // all below
  std::vector<Link> links_;
  std::deque<Parcel> pool_;
  std::vector<Parcel*> free_;
  uint64_t next_id_ = 1;
  std::unordered_map<uint64_t, Parcel*> offered_, accepted_;
  std::string failure_;
  std::atomic<bool> failed_{false};
  bool leaving_ = false;

  int wake_ = -1;  // eventfd that ends the watcher
  std::thread watcher_;
};

}  // namespace bora::tcp
