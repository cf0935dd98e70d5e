// SPDX-License-Identifier: Apache-2.0
// The C heap of a program that runs long: grown once.
#pragma once

namespace bora::apps {

/// Tensors live in the allocator's arena, but lists, closures, library scratch and file buffers are
/// on malloc's heap.  By default that grows page by page, gives blocks from 128 KiB on back to the
/// kernel at once, and pays for each page again at the next use: up to 19 us per 4 KiB on a virtual
/// machine.  This keeps freed memory (blocks up to 32 MiB), and touches a reserve of 4 MiB, in huge
/// pages where there are any, for this thread and for each OpenMP thread, so that a training step
/// finds its memory there.  Call once, after the number of threads is set.  Does nothing where the
/// C library is not glibc.
void prepare_heap();

}  // namespace bora::apps
