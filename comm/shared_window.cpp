// SPDX-License-Identifier: Apache-2.0
#include "comm/shared_window.hpp"

namespace bora {
namespace {

// Offsets in a rank's part: marks, board, records, small slots, stages.
constexpr int64_t kBoard = SharedWindow::kMarks * 64;
constexpr int64_t kRecords = kBoard + SharedWindow::kBoardBytes;
constexpr int64_t kSlots = SharedWindow::kSlots;
constexpr int64_t kSmalls = kRecords + kSlots * SharedWindow::kRecordBytes;
constexpr int64_t kPage = 4096;
constexpr int64_t kStageOffset =
    (kSmalls + kSlots * SharedWindow::kSmallBytes + kPage - 1) / kPage * kPage;
static_assert(kSmalls % 64 == 0);

int64_t slot_of(uint64_t turn) { return static_cast<int64_t>(turn % SharedWindow::kSlots); }

}  // namespace

SharedWindow::SharedWindow(const HostGroup& group, int64_t stage_bytes)
    : size_(group.size()),
      index_(group.index()),
      stage_bytes_((stage_bytes + 63) / 64 * 64),
      // The marks begin at zero, as the memory does.
      segment_(group, kStageOffset + int64_t{kStages} * stage_bytes_) {}

char* SharedWindow::board(int i) const { return segment_.part(i) + kBoard; }
char* SharedWindow::record(int i, uint64_t turn) const {
  return segment_.part(i) + kRecords + slot_of(turn) * kRecordBytes;
}
char* SharedWindow::small(int i, uint64_t turn) const {
  return segment_.part(i) + kSmalls + slot_of(turn) * kSmallBytes;
}
char* SharedWindow::stage(int i, uint64_t turn) const {
  return segment_.part(i) + kStageOffset + static_cast<int64_t>(turn % kStages) * stage_bytes_;
}

}  // namespace bora
