// SPDX-License-Identifier: Apache-2.0
// Backend: what core needs from a kind of device.  The CPU's is in core, CUDA's in kernels.
#pragma once

#include <cstddef>
#include <memory>

#include "core/dtype.hpp"
#include "core/stream.hpp"

namespace bora {

/// One object a kind of device.  Element functions are asynchronous on the stream where the device
/// has streams.
class Backend {
 public:
  virtual ~Backend() = default;

  /// Raw memory, aligned to 4096 bytes at least; throws Error with the size when there is none.
  /// Never called with 0.
  virtual void* allocate(int64_t bytes, Device device) = 0;
  /// May be called while work that uses the memory is under way: waits for it first.
  virtual void free(void* data, int64_t bytes, Device device) noexcept = 0;

  /// Copies bytes; either side may be host memory.
  virtual void copy(Stream stream, void* dst, Device dst_device, const void* src, Device src_device,
                    int64_t bytes) = 0;
  /// dst[i] = value, n elements.
  virtual void fill(Stream stream, void* dst, DType type, double value, int64_t n) = 0;
  /// dst[i] = src[i] converted (through f32 for the 16-bit types, rounded to nearest even; to
  /// integers: truncated).
  virtual void cast(Stream stream, void* dst, DType dst_type, const void* src, DType src_type,
                    int64_t n) = 0;
  /// dst[i] += src[i], floating types, sum in acc_t of dst.
  virtual void accumulate(Stream stream, void* dst, DType dst_type, const void* src, DType src_type,
                          int64_t n) = 0;

  virtual Stream default_stream(Device device) = 0;
  virtual Event record(Stream stream) = 0;
  virtual void wait(Stream stream, const Event& event) = 0;
  virtual bool done(const Event& event) = 0;
  virtual void synchronize(Stream stream) = 0;
  virtual void synchronize(const Event& event) = 0;

  /// Host memory that the device copies from and to without the host's help, aligned to 256 bytes.
  /// Ordinary memory unless overridden.  Throws Error when there is none.
  virtual void* allocate_pinned(int64_t bytes);
  virtual void free_pinned(void* data, int64_t bytes) noexcept;

  /// A stream of its own beside the default one, until destroy_stream.  `urgent`: its work goes
  /// before that of others.  Devices without streams give the default one.
  virtual Stream make_stream(Device device, bool urgent);
  virtual void destroy_stream(Stream stream) noexcept;

  /// Whether work can be captured.  If not, the three below throw Error.
  virtual bool has_graphs() const { return false; }
  /// Work issued to `stream` by this thread, and to those that wait for its events, is written down
  /// instead of run.  Memory, synchronisation and pageable copies are errors meanwhile.
  virtual void begin_capture(Stream stream);
  /// What was written down since.  Throws Error with the reason if something could not be captured;
  /// capturing has ended then, too.
  virtual Graph end_capture(Stream stream);
  /// Runs it, in stream order.
  virtual void launch(Stream stream, const Graph& graph);
};

/// The backend for a kind of device.  Throws Error naming the kind if there is none in this binary
/// or on this machine.
Backend& backend(DeviceType type);
bool has_backend(DeviceType type);

/// Puts a backend in place (nullptr: the built-in one, for CUDA none).  For start-up code and
/// tests; not thread-safe. Memory allocated through a backend must be freed before it is replaced.
void set_backend(DeviceType type, Backend* replacement);

}  // namespace bora
