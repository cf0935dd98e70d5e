// SPDX-License-Identifier: Apache-2.0
#include "comm/point_to_point.hpp"

#include "comm/flight_recorder.hpp"
#include "comm/fnv.hpp"
#include "comm/watchdog.hpp"
#include "core/log.hpp"

#include <algorithm>
#include <cstring>
#include <thread>

namespace bora {
namespace {

// Two tags for each message of a pair, taken in turn: header and data.  MPI promises 32767.
constexpr int kFirstTag = 16, kMessages = 8000;

}  // namespace

class PointToPoint::Transfer final : public Work::State {
 public:
  Transfer(const PointToPoint& owner, bool sends, Tensor x, int peer, uint64_t number,
           std::string_view label, double limit_s)
      : comm_(owner.comm_),
        rank_(owner.rank_),
        host_(owner.host_),
        message_bytes_(owner.message_bytes_),
        group_(owner.group_),
        sends_(sends),
        x_(std::move(x)),
        peer_(peer),
        tag_(kFirstTag + 2 * static_cast<int>(number % kMessages)),
        limit_s_(limit_s) {
    mine_.count = x_.numel();
    mine_.label_hash = fnv1a(label);
    mine_.type = x_.dtype();
    std::memcpy(mine_.label, label.data(), std::min<size_t>(label.size(), Header::kLabel - 1));
    record_ = FlightRecorder::instance().begin({.operation = sends ? "send" : "receive",
                                                .group = group_->name,
                                                .label = label,
                                                .sequence = number + 1,
                                                .count = mine_.count,
                                                .type = mine_.type,
                                                .peer = peer});
    record_.arrived();
  }

  // All is posted at once: a receive that waited for the header first would need this rank's help
  // while it is elsewhere.
  void start() {
    const MpiGate gate = mpi_gate();
    if (sends_) {
      BORA_MPI(MPI_Isend(&mine_, sizeof(Header), MPI_BYTE, peer_, tag_, comm_, &header_));
    } else {
      BORA_MPI(MPI_Irecv(&theirs_, sizeof(Header), MPI_BYTE, peer_, tag_, comm_, &header_));
    }
    move(x_.raw(), x_.bytes());
  }

  bool done() override {
    if (finished_) return true;
    const MpiGate gate = mpi_gate();
    int there = 0;
    BORA_MPI(MPI_Test(&header_, &there, MPI_STATUS_IGNORE));
    if (!there) return false;
    if (!moving_) record_.moving();
    moving_ = true;
    if (!sends_ && error_.empty() && !same()) dispose();
    if (error_.empty()) {
      BORA_MPI(
          MPI_Testall(static_cast<int>(data_.size()), data_.data(), &there, MPI_STATUSES_IGNORE));
    } else {
      // What is thrown away need not have fitted: its errors say nothing new.
      for (MPI_Request& request : data_) {
        int one = 0;
        MPI_Test(&request, &one, MPI_STATUS_IGNORE);
        there = there && one;
      }
    }
    if (!there) return false;
    finished_ = true;
    if (error_.empty()) {
      record_.done();
    } else {
      record_.failed(error_);
      error_ += Watchdog::instance().operation_failed(error_, /*for_good=*/false);
    }
    x_ = scratch_ = Tensor();
    return true;
  }

  void wait() override {
    PatientClock clock;
    constexpr int kLooks = 1000;  // before the first nap
    for (int looks = 0; !done(); ++looks) {
      if (looks < kLooks) {
        std::this_thread::yield();
        continue;
      }
      const double waited = clock.elapsed_s();
      if (wait_is_over(waited, limit_s_)) {
        mark_mpi_broken();
        fail(detail::join(describe(mine_), ": time is over on rank ", rank_, ", host ", host_,
                          ", after ", waited, " s (limit ", limit_s_, " s); rank ", peer_,
                          sends_ ? " has not received it" : " has not sent it", "; ",
                          group_->who(peer_), known(peer_)));
      }
      std::this_thread::sleep_for(std::chrono::microseconds(waited < 0.05 ? 50 : 1000));
    }
    if (!error_.empty()) throw Error(error_);
  }

 private:
  int64_t n_pieces(int64_t bytes) const { return (bytes + message_bytes_ - 1) / message_bytes_; }

  void move(void* data, int64_t bytes) {
    for (int64_t at = 0; at < bytes; at += message_bytes_) {
      char* piece = static_cast<char*>(data) + at;
      const int n = static_cast<int>(std::min(message_bytes_, bytes - at));
      MPI_Request& request = data_.emplace_back(MPI_REQUEST_NULL);
      BORA_MPI(sends_ ? MPI_Isend(piece, n, MPI_BYTE, peer_, tag_ + 1, comm_, &request)
                      : MPI_Irecv(piece, n, MPI_BYTE, peer_, tag_ + 1, comm_, &request));
    }
  }

  bool same() const {
    return theirs_.count == mine_.count && theirs_.type == mine_.type &&
           theirs_.label_hash == mine_.label_hash;
  }

  // Another message came than was wanted: it is taken all the same, so that the next one is not
  // taken for it.
  void dispose() {
    error_ = detail::join("ranks disagree on a message: rank ", peer_, " sends ", what(theirs_),
                          ", rank ", rank_, " wants ", what(mine_), "; ", group_->who(peer_), ", ",
                          group_->who(rank_));
    const int64_t theirs = theirs_.count * size_of(theirs_.type), wanted = x_.bytes();
    const int64_t n_theirs = n_pieces(theirs), n_wanted = n_pieces(wanted);
    for (int64_t i = n_theirs; i < n_wanted; ++i)
      BORA_MPI(MPI_Cancel(&data_[static_cast<size_t>(i)]));
    if (n_theirs <= n_wanted) return;
    const int64_t rest = theirs - n_wanted * message_bytes_;
    scratch_ = Tensor::empty({rest}, DType::u8);
    move(scratch_.raw(), rest);
  }

  [[noreturn]] void fail(const std::string& message) {
    record_.failed(message);
    throw Error(message + Watchdog::instance().operation_failed(message, /*for_good=*/true));
  }
  std::string known(int rank) const {
    const std::string text = Watchdog::instance().describe(group_->world_rank(rank));
    return text.empty() ? text : ", " + text;
  }

  static std::string what(const Header& h) {
    return detail::join("'", h.label, "' (", h.type, ", ", h.count, " elements)");
  }
  std::string describe(const Header& h) const {
    return detail::join(sends_ ? "send " : "receive ", what(h), sends_ ? " to " : " from ", "rank ",
                        peer_);
  }

  MPI_Comm comm_;
  int rank_;
  std::string host_;
  int64_t message_bytes_;
  std::shared_ptr<const RankGroup> group_;
  RecordToken record_;
  bool sends_, moving_ = false;
  Tensor x_, scratch_;
  int peer_, tag_;
  double limit_s_;
  Header mine_, theirs_;
  MPI_Request header_ = MPI_REQUEST_NULL;
  std::vector<MPI_Request> data_;
  bool finished_ = false;
  std::string error_;
};

PointToPoint::PointToPoint(MPI_Comm comm, std::string host, int64_t message_bytes,
                           std::shared_ptr<const RankGroup> group)
    : comm_(comm), host_(std::move(host)), message_bytes_(message_bytes), group_(std::move(group)) {
  int size = 1;
  BORA_MPI(MPI_Comm_rank(comm_, &rank_));
  BORA_MPI(MPI_Comm_size(comm_, &size));
  sent_.resize(static_cast<size_t>(size));
  received_.resize(static_cast<size_t>(size));
}

PointToPoint::~PointToPoint() {
  // MPI may still write to the buffers, so they live on; so does the process not much longer.
  static auto* kept = new std::vector<std::shared_ptr<Transfer>>;  // never destroyed, on purpose
  try {
    for (auto& transfer : under_way_) {
      if (transfer->done()) continue;
      if (!mpi_broken()) log_error("a communicator ends with a send or receive under way");
      mark_mpi_broken();
      kept->push_back(std::move(transfer));
    }
  } catch (const std::exception& e) {
    log_error(e.what());
    mark_mpi_broken();
  }
}

Work PointToPoint::start(std::shared_ptr<Transfer> transfer) {
  std::erase_if(under_way_, [](const auto& t) { return t->done(); });
  transfer->start();
  under_way_.push_back(transfer);
  return Work(std::move(transfer));
}

Work PointToPoint::send(Tensor x, int to, std::string_view label, double limit_s) {
  const uint64_t number = sent_[static_cast<size_t>(to)]++;
  return start(std::make_shared<Transfer>(*this, true, std::move(x), to, number, label, limit_s));
}

Work PointToPoint::receive(Tensor x, int from, std::string_view label, double limit_s) {
  const uint64_t number = received_[static_cast<size_t>(from)]++;
  return start(
      std::make_shared<Transfer>(*this, false, std::move(x), from, number, label, limit_s));
}

}  // namespace bora
