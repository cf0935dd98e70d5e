# SPDX-License-Identifier: Apache-2.0
# cmake -DCHECK=<check_layers.cmake> -DWORK=<empty folder to use> -P tests/layers_test.cmake
# The layer check passes a good tree and finds each planted fault, one at a time.
cmake_minimum_required(VERSION 3.25)

# expect(<PASS|FAIL> <file> <include line>): the tree of the good file and this one.
function(expect verdict file line)
  file(REMOVE_RECURSE "${WORK}")
  file(WRITE "${WORK}/nn/good.cpp"
       "#include \"nn/good.hpp\"\n#include \"kernels/map.hpp\"\n\n#include <vector>\n#include <sys/mman.h>\n")
  file(WRITE "${WORK}/${file}" "#pragma once\n  #  include ${line}\n")
  execute_process(COMMAND "${CMAKE_COMMAND}" -DROOT=${WORK} -P "${CHECK}"
                  RESULT_VARIABLE rc ERROR_VARIABLE err OUTPUT_QUIET)
  if(verdict STREQUAL PASS AND NOT rc EQUAL 0)
    message(SEND_ERROR "${file} with ${line} should pass, but:\n${err}")
  elseif(verdict STREQUAL FAIL AND rc EQUAL 0)
    message(SEND_ERROR "${file} with ${line} should be refused, but passed")
  elseif(verdict STREQUAL FAIL AND NOT err MATCHES "${file}")
    message(SEND_ERROR "${file} with ${line} is refused without naming the file:\n${err}")
  endif()
endfunction()

expect(PASS core/a.hpp "\"core/tensor.hpp\"")
expect(PASS kernels/a.cpp "\"core/tensor.hpp\"")
expect(PASS apps/unet3d/main.cpp "\"data/dataset.hpp\"")
expect(PASS kernels/cpu/conv.cpp "<oneapi/dnnl/dnnl.hpp>")
expect(PASS comm/mpi.hpp "<mpi.h>")
expect(PASS data/hdf5.cpp "<hdf5.h>")
expect(PASS core/config_parse.cpp "<CLI/CLI.hpp>")

expect(FAIL core/a.cpp "\"kernels/map.hpp\"")      # upwards
expect(FAIL kernels/cpu/a.cpp "\"nn/ops.hpp\"")
expect(FAIL nn/a.hpp "\"apps/unet3d/model.hpp\"")
expect(FAIL nn/layers/a.hpp "\"comm/mpi.hpp\"")    # sideways
expect(FAIL comm/a.cpp "\"data/hdf5.hpp\"")
expect(FAIL data/a.cpp "\"nn/module.hpp\"")
expect(FAIL comm/a.cpp "\"kernels/map.hpp\"")
expect(FAIL data/a.cpp "\"kernels/map.hpp\"")
expect(FAIL core/a.hpp "\"tests/support/x.hpp\"")
expect(FAIL core/a.hpp "\"tensor.hpp\"")           # not from the root
expect(FAIL core/a.hpp "\"../kernels/map.hpp\"")
expect(FAIL kernels/conv3d.cpp "<oneapi/dnnl/dnnl.hpp>")  # third party above its layer
expect(FAIL nn/a.cpp "<Eigen/Dense>")
expect(FAIL apps/a.cpp "<mpi.h>")
expect(FAIL data/hdf5.hpp "<hdf5.h>")
expect(FAIL apps/a.cpp "<nlohmann/json.hpp>")
expect(FAIL core/shape.cpp "<toml++/toml.h>")
expect(FAIL nn/a.cpp "<cuda_runtime.h>")
expect(FAIL core/a.cpp "<boost/any.hpp>")          # unknown
file(REMOVE_RECURSE "${WORK}")
