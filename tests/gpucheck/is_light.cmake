# SPDX-License-Identifier: Apache-2.0
# cmake -DPROGRAM=<gpucheck> -P is_light.cmake: what the program needs to start, as its file says.
cmake_minimum_required(VERSION 3.25)
execute_process(COMMAND readelf -d "${PROGRAM}" OUTPUT_VARIABLE dynamic COMMAND_ERROR_IS_FATAL ANY)
string(REGEX MATCHALL "Shared library: \\[[^]]*\\]" needed "${dynamic}")
if(NOT needed MATCHES "libc\\.so")
  message(FATAL_ERROR "readelf names no libraries of ${PROGRAM}")
endif()
if(needed MATCHES "libcublas|libcuda\\.so|libmpi|libhdf5|libpng|libcairo")
  message(FATAL_ERROR "${PROGRAM} needs ${needed}; it must start without cuBLAS, the driver, MPI and HDF5")
endif()
message(STATUS "needs ${needed}")
