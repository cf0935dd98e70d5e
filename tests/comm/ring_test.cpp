// SPDX-License-Identifier: Apache-2.0
// The ring in pieces (features 28, 29): every cut gives the sum, and pieces are sent on before the
// chunk that they belong to has arrived.  Ranks are threads that speak by TCP.
#include "comm/transport_communicator.hpp"
#include "tests/comm/tcp_ranks.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <mutex>

namespace bora {
namespace {

/// Writes down what is started, of data (records of operations are smaller).
class Trace final : public Transport {
 public:
  static constexpr int64_t kData = 1000;
  explicit Trace(std::shared_ptr<Transport> inner) : inner_(std::move(inner)) {}
  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  const char* name() const override { return inner_->name(); }
  Request send(const void* data, int64_t bytes, int peer, int tag) override {
    note('s', bytes);
    return inner_->send(data, bytes, peer, tag);
  }
  Request receive(void* data, int64_t bytes, int peer, int tag) override {
    note('r', bytes);
    return inner_->receive(data, bytes, peer, tag);
  }
  bool test(std::span<Request> requests) override { return inner_->test(requests); }
  bool test_unwanted(Request& request) override { return inner_->test_unwanted(request); }
  void cancel(Request& request) override { inner_->cancel(request); }
  int take(void* data, int64_t bytes, int tag) override { return inner_->take(data, bytes, tag); }
  void progress() override { inner_->progress(); }
  void rest(std::chrono::microseconds time) override { inner_->rest(time); }
  std::vector<int> lowest_on_host() override { return inner_->lowest_on_host(); }
  std::unique_ptr<Transport> split(int color, int key) override {
    return inner_->split(color, key);
  }

  std::string events() {
    const std::lock_guard lock(mutex_);
    return events_;
  }
  void clear() {
    const std::lock_guard lock(mutex_);
    events_.clear();
  }

 private:
  void note(char what, int64_t bytes) {
    if (bytes < kData) return;
    const std::lock_guard lock(mutex_);
    events_ += what;
  }
  std::shared_ptr<Transport> inner_;
  std::mutex mutex_;
  std::string events_;
};

/// Runs body on n ranks with a communicator each that sums by `way` in pieces of so many bytes.
void on_ranks(int n, AllReduceAlgorithm way, int64_t piece_bytes,
              const std::function<void(Collective&, Trace&)>& body) {
  testing::on_tcp_ranks(n, [&](const std::shared_ptr<TcpTransport>& tcp, tcp::Mesh& mesh) {
    const auto trace = std::make_shared<Trace>(tcp);
    {
      TransportCommunicator comm(trace, "here",
                                 {.threaded = false,
                                  .all_reduce = way,
                                  .stage_bytes = 0,
                                  .ring_piece_bytes = piece_bytes});
      body(comm, *trace);
    }
    mesh.goodbye();
  });
}

// Chunks of 1, 3, 4 and 7 pieces and all between; lengths that do not divide; fewer elements than
// ranks or pieces; beyond what travels in records.
TEST(ChunkedRing, EveryCutGivesTheSumAndKeepsTheShape) {
  for (const int n : {2, 3, 4})
    for (const int64_t piece : {4, 12, 100, 1 << 20})
      on_ranks(n, AllReduceAlgorithm::chunked_ring, piece, [&](Collective& comm, Trace&) {
        for (const Shape& shape :
             {Shape{1}, Shape{n - 1}, Shape{13}, Shape{28}, Shape{3, 5, 7}, Shape{2, 1, 3, 4, 5}}) {
          Tensor x = Tensor::empty(shape, DType::f32);
          for (int64_t i = 0; i < x.numel(); ++i)
            x.data<float>()[i] = static_cast<float>((comm.rank() + 1) * (i + 1));
          comm.all_reduce(x, ReduceOp::sum, "ring");
          EXPECT_EQ(x.shape(), shape);
          int64_t wrong = 0;
          for (int64_t i = 0; i < x.numel(); ++i)
            wrong += x.data<float>()[i] != static_cast<float>(n * (n + 1) / 2 * (i + 1));
          EXPECT_EQ(wrong, 0) << n << " ranks, pieces of " << piece << ", shape " << shape;
        }
      });
}

// Three ranks; what a rank sends on in the second step is what it added in the first.  A whole
// chunk: receive, send, then add, send on.  In four pieces: the first is sent on (the fifth send)
// before the last of the same step is even asked for (the fourth receive).
TEST(ChunkedRing, APieceIsSentOnWhileTheNextAreOnTheirWay) {
  constexpr int64_t kCount = 3 * 4 * 1024;
  for (const bool chunked : {true, false})
    on_ranks(3, chunked ? AllReduceAlgorithm::chunked_ring : AllReduceAlgorithm::ring, 4096,
             [&](Collective& comm, Trace& trace) {
               Tensor x = Tensor::full({kCount}, comm.rank(), DType::f32);
               comm.barrier("start");
               trace.clear();
               comm.all_reduce(x, ReduceOp::sum, "ring");
               const std::string events = trace.events();
               const auto place = [&](char what, int nth) {
                 size_t at = std::string::npos;
                 for (int i = 0; i < nth; ++i) at = events.find(what, at + 1);
                 return at;
               };
               const size_t pieces = chunked ? 4 : 1;
               ASSERT_EQ(events.size(), 2 * 4 * pieces) << events;  // 4 steps of send and receive
               if (chunked) {
                 EXPECT_LT(place('s', 5), place('r', 4)) << events;
               } else {
                 EXPECT_GT(place('s', 2), place('r', 1)) << events;
               }
             });
}

}  // namespace
}  // namespace bora
