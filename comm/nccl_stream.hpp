// SPDX-License-Identifier: Apache-2.0
// Inner header of comm: the stream that communication runs on, and events that are used again.
#pragma once

#include "comm/nccl_status.hpp"
#include "core/stream.hpp"

#include <memory>

namespace bora {

/// An event without timing; goes back to its pool when the last copy goes.
using NcclEvent = std::shared_ptr<CUevent_st>;

/// Whether the work before the event is done.  Throws what the device reports.
bool is_done(const NcclEvent& event);

/// A stream of the highest priority on one device, shared by a communicator and those split off
/// from it: two communicators with work in flight on one device may block each other unless their
/// operations run in one order.
class NcclStream {
 public:
  explicit NcclStream(int device);
  ~NcclStream();
  NcclStream(const NcclStream&) = delete;
  NcclStream& operator=(const NcclStream&) = delete;

  int device() const { return device_; }
  cudaStream_t native() const { return stream_; }
  /// Makes the device the calling thread's.
  void bind() const;
  /// The calling thread's compute stream on the device (the default stream without a backend).
  cudaStream_t compute() const;
  /// An event at the end of what has been issued on `stream`.
  NcclEvent record(cudaStream_t stream);
  static void wait(cudaStream_t stream, const NcclEvent& event);

 private:
  struct Pool;
  int device_;
  cudaStream_t stream_ = nullptr;
  std::shared_ptr<Pool> pool_;
};

}  // namespace bora
