# SPDX-License-Identifier: Apache-2.0
# Installs the build into a scratch folder, then configures, builds and runs the consumer against it.
cmake_minimum_required(VERSION 3.25)
file(REMOVE_RECURSE "${WORK}")

function(step what)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE rc OUTPUT_VARIABLE out ERROR_VARIABLE out)
  if(NOT rc EQUAL 0)
    message(FATAL_ERROR "package: ${what} failed (${rc}):\n${out}")
  endif()
  message(STATUS "package: ${what}")
endfunction()

step("install" ${CMAKE_COMMAND} --install "${BUILD}" --config "${CONFIG}" --prefix "${WORK}/prefix")
step("configure the consumer" ${CMAKE_COMMAND} -S "${CONSUMER}" -B "${WORK}/build" -G "${GENERATOR}"
     -DCMAKE_CXX_COMPILER=${CXX} -DCMAKE_BUILD_TYPE=${CONFIG} "-DCMAKE_PREFIX_PATH=${WORK}/prefix")
step("build the consumer" ${CMAKE_COMMAND} --build "${WORK}/build" --config "${CONFIG}")
find_program(consumer consumer PATHS "${WORK}/build" "${WORK}/build/${CONFIG}" NO_DEFAULT_PATH REQUIRED)
step("run the consumer" "${consumer}")
file(REMOVE_RECURSE "${WORK}")
