# SPDX-License-Identifier: Apache-2.0
# One screen that says what is being built.
set(bora_cuda_text "OFF")
if(BORA_CUDA)
  set(bora_cuda_text "ON (nvcc ${CMAKE_CUDA_COMPILER_VERSION}, ${CMAKE_CUDA_ARCHITECTURES})")
endif()
get_property(bora_libraries GLOBAL PROPERTY BORA_LIBRARIES)
string(JOIN " " bora_arch_text ${bora_arch_flags})
message(STATUS "Bora ${BORA_VERSION} (${BORA_GIT_COMMIT}), ${BORA_BUILD_TYPE}
   compiler       ${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION}, launcher '${CMAKE_CXX_COMPILER_LAUNCHER}'
   BORA_CUDA      ${bora_cuda_text}
   BORA_EMULATOR  ${BORA_EMULATOR}
   BORA_NATIVE    ${BORA_NATIVE} (${bora_arch_text})
   BORA_TESTS     ${BORA_TESTS}
   BORA_APPS      ${BORA_APPS}
   BORA_WERROR    ${BORA_WERROR}
   BORA_SANITIZE  '${BORA_SANITIZE}'
   BORA_COVERAGE  ${BORA_COVERAGE}
   MPI            ${MPI_C_VERSION} (${MPIEXEC_EXECUTABLE})
   HDF5           ${HDF5_VERSION}
   oneDNN         ${oneDNN_VERSION}
   libraries      ${bora_libraries}")
