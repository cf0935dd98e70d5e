// SPDX-License-Identifier: Apache-2.0
// A reader with three faults on purpose, for the test of the driver: on a first byte 'c' it
// crashes, on 'm' it asks for too much memory, on 'h' it hangs.
#include <unistd.h>

#include <csignal>
#include <cstddef>
#include <cstdint>
#include <string>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  if (data[0] == 'c') std::raise(SIGSEGV);
  if (data[0] == 'm') std::string(size_t{8} << 30, ' ');
  while (data[0] == 'h') ::pause();
  return 0;
}
