// SPDX-License-Identifier: Apache-2.0
// A double of NCCL and of the part of the CUDA runtime that the communicator needs, for machines
// without a device: linked into a test program it takes their place.  "Device memory" is host
// memory, a stream is a thread with a queue, and NCCL's data travels over MPI.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace bora::nccl_double {

/// Before anything else, on all ranks, after MPI has started with threads; and after all else.
void start();
void stop();

/// What this process's NCCL does wrong.  Operations are counted on each communicator from 1 in the
/// order in which streams reach them; the communicator's own first sum is number 1.  0: never.
struct Faults {
  int delay_operation = 0;  ///< starts delay_s late
  double delay_s = 0;
  int hang_operation = 0;    ///< never starts
  int swap_operation = 0;    ///< changes places with the one issued after it
  int error_operation = 0;   ///< an asynchronous error is reported, and it never ends
  int refuse_operation = 0;  ///< counted as issued: the call itself returns an error
  int stuck_operation = 0;  ///< counted as issued: the call itself does not return before the abort
  int in_progress = 0;      ///< each call is in progress for so many polls
  bool init_fails = false;  ///< ncclCommInitRankConfig returns an error
  bool init_hangs = false;  ///< it stays in progress
  int version = 0;          ///< that NCCL says it has; 0: the header's
};
void set_faults(const Faults& faults);

/// The devices that this process sees, by their UUIDs (16 bytes from the text's hash).
void set_devices(const std::vector<std::string>& uuids);

/// What cudaDriverGetVersion says; 0: there is no driver, and counting devices fails.
void set_driver_version(int version);
/// Larger requests for device or pinned memory fail.
void set_memory_limits(int64_t device_bytes, int64_t pinned_bytes);
/// A stream's, by its handle; the most urgent is -5.
int priority_of(void* stream);
/// Alive: streams that somebody made, events, graphs and executable graphs, pinned blocks.
int64_t live_streams();
int64_t live_events();
int64_t live_graphs();
int64_t live_pinned();

struct Counters {
  int64_t communicators = 0, streams = 0, events = 0;  ///< alive
  int64_t allocations = 0;                             ///< alive
  int64_t operations = 0;                              ///< completed since start()
  int64_t misuses = 0;  ///< calls on dead communicators, or while one was in progress
};
Counters counters();
/// Allocations and streams ever made on a device, of which there should be none on another's.
int64_t uses_of_device(int device);

/// The first operation of which two ranks had different kinds, types, counts, roots or numbers:
/// "operation 3: rank 0 AllReduce(type 7, count 10, op 0, root -1), rank 1 ...".  Empty: none.
std::string first_difference();

/// Installs a backend for CUDA tensors over the double's runtime, or takes it away.
void use_backend(bool on);

}  // namespace bora::nccl_double
