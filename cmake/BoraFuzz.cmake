# SPDX-License-Identifier: Apache-2.0
# bora_fuzzer: one LLVMFuzzerTestOneInput, run in two ways.

option(BORA_FUZZ "Build the fuzzers with libFuzzer (clang; see the preset fuzz)" OFF)

if(BORA_FUZZ)
  include(CheckCXXSourceCompiles)
  set(CMAKE_REQUIRED_FLAGS "-fsanitize=fuzzer")
  set(CMAKE_REQUIRED_LINK_OPTIONS "-fsanitize=fuzzer")
  check_cxx_source_compiles("
    #include <cstddef>
    #include <cstdint>
    extern \"C\" int LLVMFuzzerTestOneInput(const uint8_t*, size_t) { return 0; }" BORA_HAVE_LIBFUZZER)
  unset(CMAKE_REQUIRED_FLAGS)
  unset(CMAKE_REQUIRED_LINK_OPTIONS)
  if(NOT BORA_HAVE_LIBFUZZER)
    message(FATAL_ERROR "BORA_FUZZ=ON, but ${CMAKE_CXX_COMPILER} has no -fsanitize=fuzzer. On Debian: apt-get "
                        "install clang-14 libclang-rt-14-dev libomp-14-dev, and cmake --preset fuzz")
  endif()
endif()

# bora_fuzzer(<format> SOURCES <file>... LIBS <lib>... CORPUS <folder> [RUNS <n>] [IN_LIBRARY])
# SOURCES define LLVMFuzzerTestOneInput (tests/fuzz/README.md). Program replay_<format>, with any compiler,
# runs it over the files of CORPUS and mutations of them; the test fuzz.<format> does so RUNS times (1000
# unless given). IN_LIBRARY: what reads is the HDF5 library, which leaks, and reads behind its blocks, in broken files
# (tests/fuzz/README.md): a sanitizer would judge it and not us, so under one the test takes the corpus alone.
# With BORA_FUZZ=ON also fuzz_<format>, libFuzzer's program, which scripts/fuzz.sh runs.
function(bora_fuzzer format)
  cmake_parse_arguments(PARSE_ARGV 1 arg "IN_LIBRARY" "CORPUS;RUNS" "SOURCES;LIBS")
  if(arg_UNPARSED_ARGUMENTS OR NOT arg_SOURCES OR NOT arg_CORPUS)
    message(FATAL_ERROR "bora_fuzzer(${format}): wants SOURCES and CORPUS; not understood: "
                        "'${arg_UNPARSED_ARGUMENTS}'")
  endif()
  if(NOT arg_RUNS)
    set(arg_RUNS 1000)
  endif()
  if(arg_IN_LIBRARY AND BORA_SANITIZE)
    set(arg_RUNS 0)
  endif()
  cmake_path(ABSOLUTE_PATH arg_CORPUS BASE_DIRECTORY "${CMAKE_CURRENT_SOURCE_DIR}")
  bora_executable(replay_${format} NO_INSTALL LIBS ${arg_LIBS}
                  SOURCES ${arg_SOURCES} "${PROJECT_SOURCE_DIR}/tests/fuzz/replay_main.cpp"
                          "${PROJECT_SOURCE_DIR}/tests/fuzz/mutate.cpp")
  bora_command_test(fuzz.${format} COMMAND replay_${format} "${arg_CORPUS}" --runs ${arg_RUNS} TIMEOUT 120)
  if(arg_IN_LIBRARY AND BORA_SANITIZE)
    set_tests_properties(fuzz.${format} PROPERTIES ENVIRONMENT_MODIFICATION "ASAN_OPTIONS=set:detect_leaks=0")
  endif()
  if(BORA_FUZZ)
    bora_executable(fuzz_${format} NO_INSTALL LIBS ${arg_LIBS}
                    SOURCES ${arg_SOURCES} "${PROJECT_SOURCE_DIR}/tests/fuzz/storage.cpp")
    target_link_options(fuzz_${format} PRIVATE -fsanitize=fuzzer)
  endif()
endfunction()
