// SPDX-License-Identifier: Apache-2.0
#include "tests/nccl_double/nccl_work.hpp"

#include "core/dtype.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <mutex>

namespace bora::nccl_double {

std::atomic<int64_t> g_completed{0};

namespace {

enum Channel : int { kMeeting, kHeaders, kData, kPairs };

std::mutex g_difference_mutex;
std::string g_difference;

void nap() { std::this_thread::sleep_for(std::chrono::microseconds(50)); }

DType dtype(ncclDataType_t type) {
  switch (type) {
    case ncclUint8:
      return DType::u8;
    case ncclInt32:
      return DType::i32;
    case ncclInt64:
      return DType::i64;
    case ncclFloat16:
      return DType::f16;
    case ncclFloat32:
      return DType::f32;
    case ncclFloat64:
      return DType::f64;
    case ncclBfloat16:
      return DType::bf16;
    default:
      BORA_FAIL("the double of NCCL does not know type ", static_cast<int>(type));
  }
}

const char* name_of(Kind kind) {
  constexpr const char* kNames[] = {"AllReduce",     "Reduce", "Broadcast", "AllGather",
                                    "ReduceScatter", "Send",   "Recv"};
  return kNames[static_cast<int>(kind)];
}

}  // namespace

std::string first_difference() {
  const std::lock_guard lock(g_difference_mutex);
  return g_difference;
}

// What must be the same on all ranks.
struct Group::Header {
  int number = 0;
  Kind kind = Kind::all_reduce;
  int64_t count = 0;
  int type = 0, op = 0, root = -1, pad = 0;
  friend bool operator==(const Header&, const Header&) = default;
  std::string text() const {
    return detail::join(name_of(kind), "(type ", type, ", count ", count, ", op ", op, ", root ",
                        root, ")");
  }
};

Group::Group(int rank, int size, bool non_blocking)
    : rank_(rank), size_(size), non_blocking_(non_blocking), state_(ncclInProgress) {}

Group::~Group() {
  aborted_ = true;
  if (thread_.joinable()) {
    if (thread_.get_id() == std::this_thread::get_id())
      thread_.detach();
    else
      thread_.join();
  }
}

void Group::begin(std::function<void()> body) {
  if (thread_.joinable()) thread_.join();
  thread_ = std::thread(std::move(body));
}

void Group::meet(int root, int serial) {
  polls_left = faults().in_progress;
  begin([this, root, serial] {
    const auto over = [this] { return given_up(); };
    if (faults().init_hangs) return hang();
    tag_ = root * 65536 + serial;
    // The root hears each rank's place in the world and tells all.
    const int mine[2] = {rank_, world_rank()};
    world_.resize(static_cast<size_t>(size_));
    if (world_rank() == root) {
      std::vector<std::array<int, 2>> all(static_cast<size_t>(size_));
      all[0] = {mine[0], mine[1]};
      int n_world = 0;
      MPI_Comm_size(world(), &n_world);
      // Any ranks of the world may be in it: take them as they come.
      for (int n = 1; n < size_; ++n) {
        Transfers hear;
        hear.receive(all[static_cast<size_t>(n)].data(), sizeof(mine), MPI_ANY_SOURCE,
                     tag(kMeeting));
        if (!hear.finish(over)) return;
      }
      for (const auto& [rank, place] : all) world_[static_cast<size_t>(rank)] = place;
      Transfers tell;
      for (int place : world_)
        if (place != root)
          tell.send(world_.data(), world_.size() * sizeof(int), place, tag(kHeaders));
      if (!tell.finish(over)) return;
    } else {
      Transfers talk;
      talk.send(mine, sizeof(mine), root, tag(kMeeting));
      talk.receive(world_.data(), world_.size() * sizeof(int), root, tag(kHeaders));
      if (!talk.finish(over)) return;
    }
    state_ = ncclSuccess;
  });
}

void Group::meet_in(std::shared_ptr<Group> parent, int color, int key) {
  polls_left = faults().in_progress;
  // The parent's ranks tell each other what they want; the tag is the first child rank's offer.
  parent->state_ = ncclInProgress;
  const int offer = world_rank() * 65536 + next_serial();
  begin([this, parent = std::move(parent), color, key, offer] {
    struct Wish {
      int color, key, parent_rank, place, offer;
    };
    std::vector<Wish> wishes(parent->world_.size());
    const Wish mine{color, key, parent->rank_, world_rank(), offer};
    Transfers talk;
    for (size_t r = 0; r < wishes.size(); ++r) {
      if (static_cast<int>(r) == parent->rank_) {
        wishes[r] = mine;
        continue;
      }
      talk.send(&mine, sizeof(mine), parent->world_[r], parent->tag(kMeeting));
      talk.receive(&wishes[r], sizeof(Wish), parent->world_[r], parent->tag(kMeeting));
    }
    if (!talk.finish([&] { return given_up() || parent->given_up(); })) return;
    std::erase_if(wishes, [&](const Wish& w) { return w.color != color; });
    std::stable_sort(wishes.begin(), wishes.end(),
                     [](const Wish& a, const Wish& b) { return a.key < b.key; });
    for (const Wish& w : wishes) {
      if (w.place == world_rank()) rank_ = static_cast<int>(world_.size());
      world_.push_back(w.place);
    }
    size_ = static_cast<int>(world_.size());
    tag_ = wishes.front().offer;
    state_ = ncclSuccess;
    parent->state_ = ncclSuccess;
  });
}

ncclResult_t Group::poll() {
  const ncclResult_t now = state_;
  if (now != ncclSuccess) return now;
  if (polls_left > 0) {
    --polls_left;
    return ncclInProgress;
  }
  return ncclSuccess;
}

ncclResult_t Group::issue(std::vector<Operation> operations, CUstream_st& stream) {
  const Faults wrong = faults();
  n_issued_ += static_cast<int>(operations.size());
  if (wrong.refuse_operation > 0 && n_issued_ == wrong.refuse_operation) return ncclInvalidUsage;
  if (wrong.stuck_operation > 0 && n_issued_ == wrong.stuck_operation) {
    hang();
    return ncclInternalError;
  }
  if (wrong.swap_operation > 0 && n_issued_ == wrong.swap_operation) {
    swapped_ = std::move(operations);
    operations.clear();
  } else if (!swapped_.empty()) {
    operations.insert(operations.end(), swapped_.begin(), swapped_.end());
    swapped_.clear();
  }
  if (operations.empty()) return ncclSuccess;
  ++queued_;
  stream.enqueue([self = shared_from_this(), operations = std::move(operations)] {
    ++self->running_;
    if (!self->given_up()) self->run(operations);
    --self->running_;
    --self->queued_;
  });
  polls_left = non_blocking_ ? wrong.in_progress : 0;
  return polls_left > 0 ? ncclInProgress : ncclSuccess;
}

void Group::hang() {
  while (!given_up()) nap();
}

void Group::meet_faults(int number) {
  const Faults wrong = faults();
  if (number == wrong.delay_operation) {
    const auto end =
        std::chrono::steady_clock::now() + std::chrono::duration<double>(wrong.delay_s);
    while (!given_up() && std::chrono::steady_clock::now() < end) nap();
  }
  if (number == wrong.error_operation) state_ = ncclRemoteError;
  if (number == wrong.error_operation || number == wrong.hang_operation) hang();
}

void Group::run(std::vector<Operation> operations) {
  const auto is_pair = [](const Operation& o) {
    return o.kind == Kind::send || o.kind == Kind::receive;
  };
  const auto pairs = std::stable_partition(operations.begin(), operations.end(),
                                           [&](const Operation& o) { return !is_pair(o); });
  for (auto o = operations.begin(); o != pairs && !given_up(); ++o) run_collective(*o);
  if (pairs != operations.end() && !given_up()) run_pairs({pairs, operations.end()});
}

bool Group::agree(const Operation& o, int number) {
  const Header mine{number, o.kind, static_cast<int64_t>(o.count), o.type, o.op, o.peer, 0};
  std::vector<Header> all(world_.size());
  Transfers talk;
  for (size_t r = 0; r < all.size(); ++r) {
    all[r] = mine;
    if (static_cast<int>(r) == rank_) continue;
    talk.send(&mine, sizeof(mine), world_[r], tag(kHeaders));
    talk.receive(&all[r], sizeof(Header), world_[r], tag(kHeaders));
  }
  if (!talk.finish([this] { return given_up(); })) return false;
  for (size_t r = 1; r < all.size(); ++r) {
    if (all[r] == all[0]) continue;
    const std::string text = detail::join("operation ", number, ": rank 0 ", all[0].text(),
                                          ", rank ", r, " ", all[r].text());
    {
      const std::lock_guard lock(g_difference_mutex);
      if (g_difference.empty()) g_difference = text;
    }
    if (rank_ == 0) std::fprintf(stderr, "double of NCCL: %s\n", text.c_str());
    hang();  // as NCCL would, or worse
    return false;
  }
  return true;
}

// Hop by hop in T, as a ring does it: each addition is rounded.
template <class T>
void Group::reduce(const Operation& o, size_t n, const Bytes& rows, T* out) const {
  const auto row = [&](int r, size_t i) {
    T value;
    std::memcpy(&value, rows.data() + (static_cast<size_t>(r) * n + i) * sizeof(T), sizeof(T));
    return value;
  };
  using A = acc_t<T>;
  const A factor = o.op == ncclAvg && !std::is_integral_v<T>
                       ? static_cast<A>(static_cast<T>(A(1) / static_cast<A>(size_)))
                       : A(1);
  for (size_t i = 0; i < n; ++i) {
    T sum{};
    for (int r = 0; r < size_; ++r) {
      const T v = static_cast<T>(static_cast<A>(row(r, i)) * factor);
      const A a = static_cast<A>(sum), b = static_cast<A>(v);
      if (r == 0)
        sum = v;
      else if (o.op == ncclMin || o.op == ncclMax) {
        const bool smaller = o.op == ncclMin;
        if constexpr (std::is_integral_v<T>)
          sum = smaller ? std::min(sum, v) : std::max(sum, v);
        else
          sum = static_cast<T>(smaller ? std::fmin(a, b) : std::fmax(a, b));
      } else if constexpr (std::is_integral_v<T>) {
        using U = std::make_unsigned_t<T>;  // wraps, and not undefined
        sum = static_cast<T>(static_cast<U>(sum) + static_cast<U>(v));
      } else {
        sum = static_cast<T>(a + b);
      }
    }
    if constexpr (std::is_integral_v<T>)
      if (o.op == ncclAvg) sum = static_cast<T>(sum / static_cast<T>(size_));
    std::memcpy(reinterpret_cast<char*>(out) + i * sizeof(T), &sum, sizeof(T));
  }
}

void Group::run_collective(const Operation& o) {
  const int number = ++n_run_;
  meet_faults(number);
  if (given_up() || !agree(o, number)) return;
  const DType type = dtype(o.type);
  const size_t bytes = o.count * static_cast<size_t>(size_of(type));
  const auto is_mine = [this](int r) { return r == rank_; };
  const auto n_ranks = static_cast<size_t>(size_);
  const bool is_root = o.peer == rank_;
  const char* in = static_cast<const char*>(o.in);
  // Everybody's part: of a broadcast only the root's, of reduce_scatter the part for this rank.
  Bytes rows(n_ranks * bytes);
  Transfers data;
  for (int r = 0; r < size_; ++r) {
    const char* part = o.kind == Kind::reduce_scatter ? in + static_cast<size_t>(r) * bytes : in;
    char* row = rows.data() + static_cast<size_t>(r) * bytes;
    const bool sends = o.kind == Kind::broadcast ? is_root
                       : o.kind == Kind::reduce  ? r == o.peer
                                                 : true;
    const bool hears = o.kind == Kind::broadcast ? r == o.peer
                       : o.kind == Kind::reduce  ? is_root
                                                 : true;
    if (is_mine(r)) {
      if (bytes > 0) std::memcpy(row, part, bytes);
      continue;
    }
    if (sends) data.send(part, bytes, world_[static_cast<size_t>(r)], tag(kData));
    if (hears) data.receive(row, bytes, world_[static_cast<size_t>(r)], tag(kData));
  }
  if (!data.finish([this] { return given_up(); })) return;
  if (bytes > 0) {
    if (o.kind == Kind::all_gather) {
      std::memcpy(o.out, rows.data(), rows.size());
    } else if (o.kind == Kind::broadcast) {
      std::memcpy(o.out, rows.data() + static_cast<size_t>(o.peer) * bytes, bytes);
    } else if (o.kind != Kind::reduce || is_root) {
      dispatch_any(type, [&]<class T>() { reduce<T>(o, o.count, rows, static_cast<T*>(o.out)); });
    }
  }
  ++g_completed;
}

void Group::run_pairs(const std::vector<Operation>& operations) {
  for (size_t i = 0; i < operations.size(); ++i) meet_faults(++n_run_);
  if (given_up()) return;
  Transfers talk;
  for (const Operation& o : operations) {
    const size_t bytes = o.count * static_cast<size_t>(size_of(dtype(o.type)));
    const int other = world_[static_cast<size_t>(o.peer)];
    if (o.kind == Kind::send)
      talk.send(o.in, bytes, other, tag(kPairs));
    else
      talk.receive(o.out, bytes, other, tag(kPairs));
  }
  if (talk.finish([this] { return given_up(); }))
    g_completed += static_cast<int64_t>(operations.size());
}

// Over when every rank has come here and its operations are done.
void Group::finalise() {
  state_ = ncclInProgress;
  begin([this] {
    while (queued_ > 0 && !given_up()) nap();
    Transfers talk;
    char nothing = 0;
    std::vector<char> others(world_.size());
    for (size_t r = 0; r < world_.size(); ++r) {
      if (static_cast<int>(r) == rank_) continue;
      talk.send(&nothing, 1, world_[r], tag(kMeeting));
      talk.receive(&others[r], 1, world_[r], tag(kMeeting));
    }
    if (!talk.finish([this] { return given_up(); })) return;
    finalised_ = true;
    state_ = ncclSuccess;
  });
}

// The kernels stop, then the memory goes.
void Group::abort() {
  aborted_ = true;
  while (running_ > 0) nap();
  if (thread_.joinable()) thread_.join();
}

}  // namespace bora::nccl_double
