// SPDX-License-Identifier: Apache-2.0
#include "kernels/simt/fiber.hpp"

#include <pthread.h>

#include <cstdint>

#include "core/error.hpp"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#endif

namespace bora::simt::detail {

#if defined(__x86_64__)

// The System V ABI leaves rbx, rbp, r12-r15 and the stack pointer to the callee.  Control words of
// the floating-point units are not switched: no kernel changes them.  ucontext does the same with
// two system calls for the signal mask, a hundred times the cost.
extern "C" void bora_simt_switch(void** from, void* to);
asm(R"(
  .text
  .p2align 4
  .type bora_simt_switch, @function
  .hidden bora_simt_switch
  .globl bora_simt_switch
bora_simt_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
  .size bora_simt_switch, .-bora_simt_switch
)");

#endif

void switch_context(Context& from, Context& to) {
#if defined(__SANITIZE_ADDRESS__)
  void* fake_stack = nullptr;
  __sanitizer_start_switch_fiber(&fake_stack, to.stack_bottom, to.stack_bytes);
#endif
#if defined(__x86_64__)
  bora_simt_switch(&from.stack_pointer, to.stack_pointer);
#else
  swapcontext(&from.context, &to.context);
#endif
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(fake_stack, nullptr, nullptr);
#endif
}

void fiber_began() {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(nullptr, nullptr, nullptr);
#endif
}

void prepare_fiber(Context& context, void* bottom, size_t bytes, void (*entry)()) {
  context.stack_bottom = bottom;
  context.stack_bytes = bytes;
#if defined(__x86_64__)
  // As bora_simt_switch leaves it: six registers, then where to go on; entry finds a return address
  // (never used) at its stack's top, which is then 8 bytes off a multiple of 16, as after a call.
  auto top = (reinterpret_cast<uintptr_t>(bottom) + bytes) / 16 * 16;
  auto* words = reinterpret_cast<void**>(top) - 10;
  for (int i = 0; i < 10; ++i) words[i] = nullptr;
  words[6] = reinterpret_cast<void*>(entry);
  context.stack_pointer = words;
#else
  BORA_CHECK(getcontext(&context.context) == 0, "simt: getcontext failed");
  context.context.uc_stack.ss_sp = bottom;
  context.context.uc_stack.ss_size = bytes;
  context.context.uc_link = nullptr;
  makecontext(&context.context, entry, 0);
#endif
}

void describe_thread_stack(Context& context) {
  pthread_attr_t attributes;
  BORA_CHECK(pthread_getattr_np(pthread_self(), &attributes) == 0,
             "simt: the stack of this thread is not known");
  void* bottom = nullptr;
  size_t bytes = 0;
  pthread_attr_getstack(&attributes, &bottom, &bytes);
  pthread_attr_destroy(&attributes);
  context.stack_bottom = bottom;
  context.stack_bytes = bytes;
}

}  // namespace bora::simt::detail
