// SPDX-License-Identifier: Apache-2.0
#include "comm/point_to_point.hpp"

#include "comm/flight_recorder.hpp"
#include "comm/run_state.hpp"
#include "comm/watchdog.hpp"
#include "core/fnv.hpp"
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
      : transport_(owner.transport_),
        rank_(transport_->rank()),
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
    header_ = sends_ ? transport_->send(&mine_, sizeof(Header), peer_, tag_)
                     : transport_->receive(&theirs_, sizeof(Header), peer_, tag_);
    move(x_.raw(), x_.bytes());
  }

  bool done() override {
    if (finished_) return true;
    if (!transport_->test({&header_, 1})) return false;
    if (!moving_) record_.moving();
    moving_ = true;
    if (!sends_ && error_.empty() && !same()) dispose();
    if (error_.empty()) {
      if (!transport_->test(data_)) return false;
    } else {
      // What is thrown away need not have fitted: its errors say nothing new.
      bool there = true;
      for (Request& request : data_) there = transport_->test_unwanted(request) && there;
      if (!there) return false;
    }
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
    for (int looks = 0; !done_or_lost(); ++looks) {
      if (looks < kLooks) {
        std::this_thread::yield();
        continue;
      }
      const double waited = clock.elapsed_s();
      if (wait_is_over(waited, limit_s_)) {
        mark_run_broken();
        fail(detail::join(describe(mine_), ": time is over on rank ", rank_, ", host ", host_,
                          ", after ", waited, " s (limit ", limit_s_, " s); rank ", peer_,
                          sends_ ? " has not received it" : " has not sent it", "; ",
                          group_->who(peer_), known(peer_)));
      }
      transport_->rest(std::chrono::microseconds(waited < 0.05 ? 50 : 1000));
    }
    if (!error_.empty()) throw Error(error_);
  }

 private:
  bool done_or_lost() {
    try {
      return done();
    } catch (const TransportError& e) {
      mark_run_broken();
      const std::string text = describe(mine_) + ": " + e.what();
      record_.failed(text);
      throw TransportError(text + Watchdog::instance().operation_failed(text, /*for_good=*/true));
    }
  }

  int64_t n_pieces(int64_t bytes) const { return (bytes + message_bytes_ - 1) / message_bytes_; }

  void move(void* data, int64_t bytes) {
    for (int64_t at = 0; at < bytes; at += message_bytes_) {
      char* piece = static_cast<char*>(data) + at;
      const int64_t n = std::min(message_bytes_, bytes - at);
      data_.push_back(sends_ ? transport_->send(piece, n, peer_, tag_ + 1)
                             : transport_->receive(piece, n, peer_, tag_ + 1));
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
    for (int64_t i = n_theirs; i < n_wanted; ++i) transport_->cancel(data_[static_cast<size_t>(i)]);
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

  std::shared_ptr<Transport> transport_;
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
  Request header_;
  std::vector<Request> data_;
  bool finished_ = false;
  std::string error_;
};

PointToPoint::PointToPoint(std::shared_ptr<Transport> transport, std::string host,
                           int64_t message_bytes, std::shared_ptr<const RankGroup> group)
    : transport_(std::move(transport)),
      host_(std::move(host)),
      message_bytes_(message_bytes),
      group_(std::move(group)),
      sent_(static_cast<size_t>(transport_->size())),
      received_(sent_) {}

PointToPoint::~PointToPoint() {
  // The transport may still write to the buffers, so they live on; so does the process not much
  // longer.
  static auto* kept = new std::vector<std::shared_ptr<Transfer>>;  // never destroyed, on purpose
  try {
    for (auto& transfer : under_way_) {
      if (transfer->done()) continue;
      if (!run_broken()) log_error("a communicator ends with a send or receive under way");
      mark_run_broken();
      kept->push_back(std::move(transfer));
    }
  } catch (const std::exception& e) {
    log_error(e.what());
    mark_run_broken();
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
