// SPDX-License-Identifier: Apache-2.0
// Contexts of execution that hand over to each other: one for each CUDA thread that waits.
#pragma once

#include <cstddef>

#if !defined(__x86_64__)
#include <ucontext.h>
#endif

namespace bora::simt::detail {

/// Where a fiber, or the OS thread that started it, goes on.  Not movable once switched from.
struct Context {
#if defined(__x86_64__)
  void* stack_pointer = nullptr;
#else
  ucontext_t context{};
#endif
  // For AddressSanitizer: the stack that belongs to it.
  const void* stack_bottom = nullptr;
  size_t stack_bytes = 0;
};

/// Leaves `from`, which must be the running context, for `to`; returns when something switches
/// back.
void switch_context(Context& from, Context& to);

/// Makes `context` begin `entry` on the stack [bottom, bottom + bytes), which must outlive it.
/// `entry` calls fiber_began() first and never returns.
void prepare_fiber(Context& context, void* bottom, size_t bytes, void (*entry)());
void fiber_began();

/// Fills in the stack of the OS thread that calls.
void describe_thread_stack(Context& context);

}  // namespace bora::simt::detail
