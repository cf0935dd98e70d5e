# SPDX-License-Identifier: Apache-2.0
# The functions with which every folder declares what it builds.

# Headers that CMake generates are included as "core/build_info.hpp" from here.
set(BORA_GENERATED_DIR "${PROJECT_BINARY_DIR}/generated")
file(MAKE_DIRECTORY "${BORA_GENERATED_DIR}")

# bora_target_defaults(<target>)
# Language level, warnings, architecture, sanitizer and coverage flags, include root. Called by the
# functions below; call it yourself only on a target made with plain add_library or add_executable.
function(bora_target_defaults target)
  target_compile_features(${target} PUBLIC cxx_std_20)
  # Nobody reads errno after a sqrt; for its sake loops with one would stay scalar.
  set(host ${bora_arch_flags} -fno-math-errno ${bora_sanitize_flags} ${bora_coverage_flags})
  set(warn ${bora_warning_flags})
  if(BORA_WERROR)
    list(APPEND warn -Werror)
  endif()
  target_compile_options(${target} PRIVATE "$<$<COMPILE_LANGUAGE:CXX>:${host};${warn}>")
  target_link_options(${target} PRIVATE ${bora_sanitize_flags} ${bora_coverage_flags})
  if(BORA_CUDA)
    # CMake 3.25 does not know nvcc's C++20 and would add no flag, without a word.
    set(cuda -std=c++20 --expt-relaxed-constexpr --extended-lambda)
    if(BORA_WERROR)
      list(APPEND cuda "SHELL:-Werror all-warnings")
    endif()
    foreach(flag IN LISTS host bora_warning_flags OpenMP_CXX_FLAGS)
      list(APPEND cuda "SHELL:-Xcompiler ${flag}")
    endforeach()
    foreach(flag IN LISTS cuda)
      target_compile_options(${target} PRIVATE "$<$<COMPILE_LANGUAGE:CUDA>:${flag}>")
    endforeach()
    if(BORA_KEEP_PTX)
      set_target_properties(${target} PROPERTIES CUDA_COMPILER_LAUNCHER
        "${PROJECT_SOURCE_DIR}/cmake/keep_ptx.sh;${PROJECT_BINARY_DIR}/ptx;${PROJECT_SOURCE_DIR}/tests/cuda/ptx_budget.txt;${CMAKE_CUDA_COMPILER_LAUNCHER}")
    endif()
    # The language standard is passed above; CMake must not pass another.
    set_target_properties(${target} PROPERTIES CUDA_STANDARD_REQUIRED OFF)
  endif()
endfunction()

# bora_single_source(<target> <file.cpp>...)
# Files that hold host/device code: g++ compiles them in a CPU build, nvcc when BORA_CUDA=ON. The files
# must be among the target's sources. Files *.cu, which only a device has a use for, g++ compiles when
# BORA_EMULATOR=ON.
function(bora_single_source target)
  if(BORA_CUDA AND ARGN)
    set_source_files_properties(${ARGN} TARGET_DIRECTORY ${target} PROPERTIES LANGUAGE CUDA)
  elseif(ARGN)
    set(device_files ${ARGN})
    list(FILTER device_files INCLUDE REGEX "\\.cu$")
    if(device_files)
      set_source_files_properties(${device_files} TARGET_DIRECTORY ${target} PROPERTIES LANGUAGE CXX)
    endif()
  endif()
endfunction()

# bora_library(<name> SOURCES <file>... [SINGLE_SOURCE <file>...]
#              [PUBLIC_LIBS <lib>...] [PRIVATE_LIBS <lib>...])
# Static library bora_<name> with alias Bora::<name>, installed and exported together with the headers
# of the current folder. SINGLE_SOURCE files are sources too (do not list them twice). PUBLIC_LIBS are
# those whose headers appear in ours.
function(bora_library name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;SINGLE_SOURCE;PUBLIC_LIBS;PRIVATE_LIBS")
  if(arg_UNPARSED_ARGUMENTS OR NOT (arg_SOURCES OR arg_SINGLE_SOURCE))
    message(FATAL_ERROR "bora_library(${name}): wants SOURCES or SINGLE_SOURCE; "
                        "not understood: '${arg_UNPARSED_ARGUMENTS}'")
  endif()
  set(target bora_${name})
  add_library(${target} STATIC ${arg_SOURCES} ${arg_SINGLE_SOURCE})
  add_library(Bora::${name} ALIAS ${target})
  bora_target_defaults(${target})
  bora_single_source(${target} ${arg_SINGLE_SOURCE})
  target_include_directories(${target} PUBLIC
    "$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR};${BORA_GENERATED_DIR}>"
    "$<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}/bora>")
  target_link_libraries(${target} PUBLIC ${arg_PUBLIC_LIBS} PRIVATE ${arg_PRIVATE_LIBS})
  # Some loops are OpenMP's. Public, since the launch shapes are templates in headers.
  target_link_libraries(${target} PUBLIC OpenMP::OpenMP_CXX)
  if(BORA_CUDA)
    target_compile_definitions(${target} PUBLIC BORA_CUDA=1)
    target_link_libraries(${target} PUBLIC CUDA::cudart)
  endif()
  set_target_properties(${target} PROPERTIES EXPORT_NAME ${name})
  install(TARGETS ${target} EXPORT BoraTargets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
  file(RELATIVE_PATH folder "${PROJECT_SOURCE_DIR}" "${CMAKE_CURRENT_SOURCE_DIR}")
  install(DIRECTORY "${CMAKE_CURRENT_SOURCE_DIR}/"
          DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/bora/${folder}
          FILES_MATCHING PATTERN "*.hpp")
  set_property(GLOBAL APPEND PROPERTY BORA_LIBRARIES ${name})
endfunction()

# bora_executable(<name> SOURCES <file>... [SINGLE_SOURCE <file>...] [LIBS <lib>...] [NO_INSTALL])
# Program <name> in <build>/bin, installed unless NO_INSTALL is given.
function(bora_executable name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "NO_INSTALL" "" "SOURCES;SINGLE_SOURCE;LIBS")
  if(arg_UNPARSED_ARGUMENTS OR NOT (arg_SOURCES OR arg_SINGLE_SOURCE))
    message(FATAL_ERROR "bora_executable(${name}): wants SOURCES or SINGLE_SOURCE; "
                        "not understood: '${arg_UNPARSED_ARGUMENTS}'")
  endif()
  add_executable(${name} ${arg_SOURCES} ${arg_SINGLE_SOURCE})
  bora_target_defaults(${name})
  bora_single_source(${name} ${arg_SINGLE_SOURCE})
  target_include_directories(${name} PRIVATE "${PROJECT_SOURCE_DIR}" "${BORA_GENERATED_DIR}")
  target_link_libraries(${name} PRIVATE ${arg_LIBS} OpenMP::OpenMP_CXX)
  if(BORA_SANITIZE)
    target_sources(${name} PRIVATE "${PROJECT_SOURCE_DIR}/cmake/keep_plugins_loaded.cpp")
    set_target_properties(${name} PROPERTIES ENABLE_EXPORTS ON)  # so that plugins find our dlclose
  endif()
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/bin")
  if(NOT arg_NO_INSTALL)
    install(TARGETS ${name} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  endif()
endfunction()
