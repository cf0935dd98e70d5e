# SPDX-License-Identifier: Apache-2.0
# cmake -DCHECK=<check_device_code.cmake> -DWORK=<empty folder to use> -P tests/device_code_test.cmake
# The check of device code passes a good tree and finds each planted fault, one at a time.
cmake_minimum_required(VERSION 3.25)

# expect(<PASS|FAIL> <file> <line>): a tree of a good file and this one.
function(expect verdict file line)
  file(REMOVE_RECURSE "${WORK}")
  file(WRITE "${WORK}/kernels/good.cu" "__global__ void f(int* p) { atomicAdd(p, 1); }  // integer\n"
       "// never <<<>>>; no atomicAdd(float*, float)\nstd::atomic<int> n;  std::cout << (a << 3);\n"
       "launch(\"f\", stream, {.grid = 3}, f, p);\n")
  file(WRITE "${WORK}/${file}" "#pragma once\n${line}\nint after[3];\n")
  execute_process(COMMAND "${CMAKE_COMMAND}" -DROOT=${WORK} -P "${CHECK}"
                  RESULT_VARIABLE rc ERROR_VARIABLE err OUTPUT_QUIET)
  if(verdict STREQUAL PASS AND NOT rc EQUAL 0)
    message(SEND_ERROR "${file} with '${line}' should pass, but:\n${err}")
  elseif(verdict STREQUAL FAIL AND rc EQUAL 0)
    message(SEND_ERROR "${file} with '${line}' should be refused, but passed")
  elseif(verdict STREQUAL FAIL AND NOT err MATCHES "${file}")
    message(SEND_ERROR "${file} with '${line}' is refused without naming the file:\n${err}")
  endif()
endfunction()

expect(PASS kernels/launch.hpp "kernel<<<grid, block>>>(args...);")
expect(PASS kernels/launch.hpp "extern __shared__ unsigned char bytes[];")
expect(PASS kernels/simt/simt.hpp "T atomicAdd(T* at, T value) {")

expect(FAIL kernels/a.cu "f<<<1, 256>>>(p);")
expect(FAIL kernels/cuda/b.hpp "  f<<<grid, kThreads, 0, native(stream)>>>(p, n);")
expect(FAIL apps/a.cpp "f<<<1, 1>>>();")
expect(FAIL kernels/a.cpp "cudaLaunchKernel(f, grid, block, args, 0, s);")
expect(FAIL kernels/a.cu "atomicAdd(&sum, value);")
expect(FAIL kernels/a.cu "  if (lane == 0) atomicAdd<float>(out + c, v[0]);")
expect(FAIL kernels/a.cu "old = atomicCAS(address, assumed, next);")
expect(FAIL kernels/a.cu "asm(\"red.global.add.f32 [%0], %1\" :: \"l\"(p), \"f\"(v))")
expect(FAIL kernels/a.cu "#include <cooperative_groups.h>")
expect(FAIL kernels/a.cu "#include <cub/cub.cuh>")
expect(FAIL kernels/a.cu "extern __shared__ float tile[];")
file(REMOVE_RECURSE "${WORK}")
