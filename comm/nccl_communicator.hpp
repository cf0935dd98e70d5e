// SPDX-License-Identifier: Apache-2.0
// NcclCommunicator: what ranks do together with tensors on CUDA devices, over NCCL.
#pragma once

#include "comm/nccl_place.hpp"
#include "core/collective.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace bora {

/// What Work::wait(), and the return of an operation that has no Work, mean.
enum class NcclWait : uint8_t {
  stream,  ///< later work on the caller's compute stream starts after it; the host goes on at once
  host,    ///< the host has seen it done
};

/// One operation, for those who keep records.
struct NcclNote {
  std::string group;      ///< name of the communicator
  uint64_t id = 0;        ///< number on its communicator and this rank, from 1
  uint64_t sequence = 0;  ///< number that all ranks give it, from 1; 0: it has none
  std::string operation;  ///< "all_reduce"; "pairs" for a group of sends and receives
  std::string label;
  DType type = DType::f32;
  int64_t count = -1;  ///< elements; -1: not one number
  int root = -1;
  double limit_s = 0;  ///< then the communicator is given up
  std::string text;    ///< "all_reduce 'grad 3' #17 (sum, f32, 1000 elements)"
};

/// Told about operations, for a flight recorder or a watchdog.
class NcclObserver {
 public:
  virtual ~NcclObserver() = default;
  /// Given to NCCL.  As finished(): a lock is held, so be quick and do not call the communicator.
  virtual void issued(const NcclNote& note) = 0;
  /// In the order of issue.  By any thread.
  virtual void finished(const NcclNote& note) = 0;
  /// The communicator is about to be given up; by the thread that noticed, no lock is held.  Here a
  /// run can be ended that would not notice by itself, since its host waits for a device.
  virtual void failed(const std::string& reason) = 0;
};

struct NcclOptions {
  /// Longest time that an operation may wait for the other ranks, seconds, counted from when this
  /// rank's own work before it is done.
  double timeout_s = 600.0;
  /// The same for the start, and for the first operation, which the start includes.
  double first_timeout_s = 60.0;
  /// Longest wait for the other ranks' word on what they have issued, after a time-out.
  double inquest_s = 5.0;
  /// Thread blocks that NCCL may take from the computation; 0: as many as NCCL likes.
  int max_ctas = 16;
  /// Shows in NCCL's own messages (NCCL_DEBUG) and in ours.
  std::string name = "bora";
  NcclWait wait = NcclWait::stream;
  /// Before every so-manieth operation the ranks compare over the host group what they have issued:
  /// 1: before each one, so that a difference is an error before any data has moved, at the price
  /// of one small host exchange an operation; 0: only in barrier() and after a time-out.
  int check_every = 1;
  /// Sends are announced to the receiver over the host group, which must be able to send.
  bool check_pairs = true;
  /// How often a thread looks for errors and time-outs, seconds; 0: only operations and check() do,
  /// and a host that waits for its device inside CUDA is then not helped by anybody.
  double poll_s = 0.2;
  /// Index of the device among the visible ones.  Empty: by local rank.  More than one is an error.
  std::vector<int> devices;
  std::shared_ptr<NcclObserver> observer;
};

/// A Collective for CUDA tensors of one device.  Differences from the host's communicators:
///  - an operation starts when the work is done that was issued before it on the caller's current
///    stream; operations run in order on one stream of high priority, groups split off included;
///  - what waiting means is NcclWait.  With `stream` an error may come to light in a later call;
///    whatever fails, every later call throws the first failure;
///  - sums are formed in the tensor's type, in an order of NCCL's that depends on ranks and hosts:
///  the
///    same bits on all ranks, not those of the host.  mean multiplies by the rounded 1/size before
///    the sum; of f16 and bf16 only where size is a power of two, since 1/size would be off by up
///    to 2^-9 (then reduce in f32, or sum); of i32 and i64 the sum must fit the type; not of u8;
///  - min and max ignore NaN as long as one rank has a number;
///  - sends and receives begin, as one group, when the first of them is waited for or asked whether
///    it is done, or with the next other operation.
/// A tensor on the host, or on another device, is an error.  One thread issues; check() and abort()
/// may be called by any.  Destroyed before the host group and the session.
class NcclCommunicator : public Collective {
 public:
  DeviceType device_type() const override { return DeviceType::cuda; }
  virtual int device() const = 0;
  /// Throws what has gone wrong, if anything has.  Does not wait.
  virtual void check() = 0;
  /// Blocks the host until this rank's operations are done; throws what has gone wrong.
  virtual void synchronize() = 0;
  /// Ends all operations under way and the communicator; what waits for them goes on, and every
  /// later call throws `reason`.  For a watchdog: does not wait for a hung NCCL call.
  virtual void abort(const std::string& reason) noexcept = 0;
  /// Of later operations.
  virtual void set_timeout(double seconds) = 0;
};

/// Why there can be no NCCL communicator in this process: built without CUDA, or no device (with
/// the driver's words).  Empty if there can.
std::string nccl_missing();

/// All ranks of `host`, each with a device of its own, which becomes the calling thread's device.
/// `host` carries the id and the agreement on the start, and later the comparisons (check_every):
/// it must outlive the communicator and be used by the same thread; groups are split off from it.
/// Collective.  All ranks throw if one cannot: UsageError when a device or an option cannot be had;
/// Error when two ranks of a host have one device (named), when NCCL or CUDA versions differ
/// (named), or when NCCL does not start within first_timeout_s.  Ends with a one-element sum that
/// is checked.
std::unique_ptr<NcclCommunicator> make_nccl_communicator(Collective& host, const NcclPlace& place,
                                                         const NcclOptions& options = {});

}  // namespace bora
