# SPDX-License-Identifier: Apache-2.0
# Options, compiler launcher and language set-up. Included once, by the top level, before any target exists.

option(BORA_CUDA "Build the CUDA device code with nvcc" OFF)
option(BORA_EMULATOR "Build the CUDA device code with the host compiler, to run on host memory in tests" OFF)
option(BORA_NATIVE "Tune for this machine (-march=native); OFF builds for x86-64-v3" ON)
option(BORA_TESTS "Build the tests" ON)
option(BORA_APPS "Build the applications" ON)
option(BORA_WERROR "Treat warnings as errors" OFF)
option(BORA_KEEP_PTX "Keep the PTX of the hand-written kernels, and ptxas' report, for cmake/check_ptx.cmake" OFF)
option(BORA_COVERAGE "Instrument for gcov" OFF)
set(BORA_SANITIZE "" CACHE STRING "Sanitizers: empty, address,undefined or undefined or thread")
set(BORA_SANITIZE_NOT "" CACHE STRING "Checks of BORA_SANITIZE that are left out, as in -fno-sanitize=")
set_property(CACHE BORA_SANITIZE PROPERTY STRINGS "" "address,undefined" "undefined" "thread")

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
# -g1: backtraces with function and line for crash reports, at a third of -g's compile and link cost.
# No -ffast-math anywhere: NaN and inf must survive, and sums must keep their order.
set(CMAKE_CXX_FLAGS_RELEASE "-O3 -g1 -DNDEBUG")
set(CMAKE_CXX_FLAGS_DEBUG "-O1 -g")
if(BORA_SANITIZE)
  set(CMAKE_CXX_FLAGS_DEBUG "-O1 -g1")  # a report needs lines, not variables
endif()
if(BORA_SANITIZE MATCHES "address")
  set(CMAKE_CXX_FLAGS_DEBUG "-Og -g1")  # -O1 takes 1.4 times as long to compile around so many checks
endif()

if(NOT CMAKE_CXX_COMPILER_LAUNCHER)
  find_program(BORA_CCACHE ccache DOC "Compiler cache; used when found")
  mark_as_advanced(BORA_CCACHE)
  if(BORA_CCACHE)
    set(CMAKE_CXX_COMPILER_LAUNCHER "${BORA_CCACHE}")
    set(CMAKE_CUDA_COMPILER_LAUNCHER "${BORA_CCACHE}")
  endif()
endif()

if(BORA_EMULATOR AND BORA_CUDA)
  message(FATAL_ERROR "BORA_EMULATOR=ON and BORA_CUDA=ON exclude each other: one device code is built for "
                      "a GPU or for the emulator. Use two build folders.")
endif()
if(BORA_EMULATOR AND BORA_SANITIZE MATCHES "thread")
  message(FATAL_ERROR "BORA_EMULATOR=ON switches stacks in ways that ThreadSanitizer cannot follow; use "
                      "BORA_SANITIZE=address,undefined")
endif()
if(BORA_CUDA)
  include(CheckLanguage)
  # Must be known before the language is enabled, or generation fails.
  set(CMAKE_CUDA_ARCHITECTURES "80-real;90-real;90-virtual" CACHE STRING "CUDA architectures")
  # Else CMake links cudart_static beside CUDA::cudart: two runtimes in one process.
  set(CMAKE_CUDA_RUNTIME_LIBRARY Shared)
  check_language(CUDA)
  if(NOT CMAKE_CUDA_COMPILER)
    message(FATAL_ERROR
            "BORA_CUDA=ON but no nvcc was found. Put the CUDA toolkit's bin folder on PATH, set "
            "-DCMAKE_CUDA_COMPILER=/path/to/nvcc, or configure with -DBORA_CUDA=OFF.")
  endif()
  enable_language(CUDA)
  set(CMAKE_CUDA_FLAGS_RELEASE "-O3 -DNDEBUG")
  set(CMAKE_CUDA_FLAGS_DEBUG "-O1 -g")
endif()

# Host code generation. The same list goes to g++ and, through -Xcompiler, to nvcc's host pass.
set(bora_arch_flags "")
if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64|amd64)$")
  if(BORA_NATIVE)
    # 512-bit vectors where the machine has them: g++ prefers 256 bits by default on most AVX-512 parts.
    set(bora_arch_flags -march=native -mprefer-vector-width=512)
  else()
    set(bora_arch_flags -march=x86-64-v3)
  endif()
elseif(BORA_NATIVE)
  set(bora_arch_flags -mcpu=native)
endif()

if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # GCC 12.2 makes {1, 1, 1, 1} of the constants {1, 1, 0, 0} when it joins straight-line code to 512-bit vectors
  # (tests/core/compiler_test.cpp). Loops are vectorised elsewhere. A training step of 64^3 cells took 0.98 [0.83, 1.31]
  # (base 8) and 0.91 [0.78, 1.44] (base 16) of the time of an earlier program with it (10 pairs in turn, a loaded machine).
  list(APPEND bora_arch_flags -fno-tree-slp-vectorize)
endif()

set(bora_warning_flags -Wall -Wextra -Wshadow -Wnon-virtual-dtor -Woverloaded-virtual
                       -Wimplicit-fallthrough)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # GCC bug 105651: false -Wrestrict on "literal" + std::string at -O2 and above.
  list(APPEND bora_warning_flags -Wno-restrict)
endif()

set(bora_sanitize_flags "")
if(BORA_SANITIZE)
  set(bora_sanitize_flags -fsanitize=${BORA_SANITIZE} -fno-omit-frame-pointer
                          -fno-sanitize-recover=all)
  if(BORA_SANITIZE_NOT)
    list(APPEND bora_sanitize_flags -fno-sanitize=${BORA_SANITIZE_NOT})
  endif()
  # Instrumented code of <regex> looks uninitialised to GCC 12: a false alarm that sanitizers are known for.
  list(APPEND bora_sanitize_flags -Wno-maybe-uninitialized)
endif()
set(bora_coverage_flags "")
if(BORA_COVERAGE)
  set(bora_coverage_flags --coverage -fprofile-update=atomic)
endif()
