// SPDX-License-Identifier: Apache-2.0
#include "comm/nccl_pairs.hpp"

#include "comm/nccl_group.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

namespace bora {
namespace {

constexpr int64_t kNoteBytes = 120;
constexpr const char* kNoteLabel = "announcement of a send";

}  // namespace

class NcclPairs::Transfer final : public Work::State {
 public:
  bool done() override {
    begin();
    return operation->done();
  }
  void wait() override {
    begin();
    operation->wait();
  }
  void begin() {
    if (operation) return;
    pairs->flush();
    if (operation) return;
    pairs->engine_->throw_if_failed();
    BORA_FAIL(is_send ? "send '" : "receive '", label, "': the communicator went before it began");
  }
  // "f32, 12 elements, 'halo'": what both sides must agree on.
  std::string note() const {
    std::string text = detail::join(x.dtype(), ", ", x.numel(), " elements, '", label, "'");
    text.resize(std::min<size_t>(text.size(), kNoteBytes));
    return text;
  }

  std::shared_ptr<NcclPairs> pairs;
  Tensor x;
  int peer = -1;
  bool is_send = false;
  std::string label;
  double limit_s = 0;
  std::shared_ptr<NcclOperation> operation;  // once issued
};

NcclPairs::NcclPairs(std::shared_ptr<NcclEngine> engine, Collective& host,
                     const NcclOptions& options)
    : engine_(std::move(engine)), host_(&host), announced_(options.check_pairs) {}

Work NcclPairs::send(Tensor x, int to, std::string_view label, double limit_s) {
  auto transfer = std::make_shared<Transfer>();
  transfer->is_send = true;
  transfer->x = std::move(x);
  transfer->peer = to;
  transfer->label = label;
  transfer->limit_s = limit_s;
  return add(std::move(transfer));
}

Work NcclPairs::receive(Tensor x, int from, std::string_view label, double limit_s) {
  auto transfer = std::make_shared<Transfer>();
  transfer->x = std::move(x);
  transfer->peer = from;
  transfer->label = label;
  transfer->limit_s = limit_s;
  return add(std::move(transfer));
}

Work NcclPairs::add(std::shared_ptr<Transfer> transfer) {
  engine_->throw_if_failed();
  transfer->pairs = shared_from_this();
  waiting_.push_back(transfer);
  return Work(std::move(transfer));
}

// Each send is announced to its receiver, which compares before NCCL would mix up the bytes.  Sends
// are announced first, so that two ranks that exchange do not wait for each other.
void NcclPairs::compare_announcements() {
  std::erase_if(notes_, [](const Work& w) { return w.done(); });
  for (const auto& transfer : waiting_) {
    if (!transfer->is_send) continue;
    const std::string note = transfer->note();
    Tensor bytes = Tensor::zeros({kNoteBytes}, DType::u8);
    std::memcpy(bytes.raw(), note.data(), note.size());
    notes_.push_back(host_->send_async(bytes, transfer->peer, kNoteLabel));
  }
  for (const auto& transfer : waiting_) {
    if (transfer->is_send) continue;
    Tensor bytes = Tensor::zeros({kNoteBytes}, DType::u8);
    host_->receive(bytes, transfer->peer, kNoteLabel);
    const char* begin = static_cast<const char*>(bytes.raw());
    const std::string sent(begin, strnlen(begin, kNoteBytes));
    BORA_CHECK(sent == transfer->note(), "receive '", transfer->label, "': rank ", transfer->peer,
               " sends ", sent, ", rank ", host_->rank(), " wants ", transfer->note());
  }
}

void NcclPairs::flush() {
  if (waiting_.empty()) return;
  try {
    if (announced_) compare_announcements();
  } catch (const std::exception& e) {
    waiting_.clear();
    engine_->abort(e.what());  // the sender's stream waits already
    throw;
  }
  const std::vector<std::shared_ptr<Transfer>> group = std::exchange(waiting_, {});
  NcclNote note;
  note.operation = "pairs";
  note.label = group.front()->label;
  std::vector<Tensor> tensors;
  for (const auto& t : group) {
    note.text += detail::join(note.text.empty() ? "" : " + ",
                              t->is_send ? "send to rank " : "receive from rank ", t->peer, " (",
                              t->note(), ")");
    tensors.push_back(t->x);
    note.limit_s = std::max(note.limit_s, t->limit_s);
  }
  const auto enqueue = [&](ncclComm_t comm, cudaStream_t stream) {
    ncclResult_t code = ncclGroupStart();
    for (const auto& t : group) {
      if (!NcclStatus::ok(code)) break;
      const auto n = static_cast<size_t>(t->x.numel());
      if (n == 0) continue;
      const ncclDataType_t type = nccl_type(t->x.dtype());
      code = t->is_send ? ncclSend(t->x.raw(), n, type, t->peer, comm, stream)
                        : ncclRecv(t->x.raw(), n, type, t->peer, comm, stream);
    }
    const ncclResult_t end = ncclGroupEnd();  // always, or the group would stay open
    return NcclStatus::ok(code) ? end : code;
  };
  const auto operation = engine_->issue(std::move(note), std::move(tensors), enqueue);
  for (const auto& t : group) t->operation = operation;
}

void NcclPairs::close() {
  waiting_.clear();
  notes_.clear();
  host_ = nullptr;
}

}  // namespace bora
