# SPDX-License-Identifier: Apache-2.0
# cmake -DROOT=<repository> -P cmake/check_processes.cmake
# Fails, naming file and line, if a source of the library or the programs starts a process: after MPI_Init
# memory is registered with the network's card, and a copy of the process corrupts it. Who may: the launcher and
# bench_data, which have no MPI, and spawn_ranks(), which refuses once there is a session or a second thread.
cmake_minimum_required(VERSION 3.25)
if(NOT IS_DIRECTORY "${ROOT}")
  message(FATAL_ERROR "check_processes: ROOT is not a folder: '${ROOT}'")
endif()
set(may_start "^(apps/launch/.*|apps/bench/h5py_peer\\.cpp|comm/spawn\\.cpp)$")
set(calls "(^|[^a-zA-Z0-9_.>])(v?fork|system|popen|posix_spawnp?|exec[lv]p?e?|execvpe|wordexp|daemon|forkpty|clone3?)[ \t]*\\(")

set(n_files 0)
set(faults "")
foreach(folder IN ITEMS core kernels nn comm data apps)
  file(GLOB_RECURSE paths LIST_DIRECTORIES false RELATIVE "${ROOT}"
       "${ROOT}/${folder}/*.hpp" "${ROOT}/${folder}/*.cpp" "${ROOT}/${folder}/*.cu" "${ROOT}/${folder}/*.cuh")
  foreach(path IN LISTS paths)
    math(EXPR n_files "${n_files} + 1")
    if(path MATCHES "${may_start}")
      continue()
    endif()
    file(STRINGS "${ROOT}/${path}" lines REGEX "${calls}")
    foreach(line IN LISTS lines)
      string(REGEX REPLACE "//.*" "" code "${line}")            # a comment may speak of it,
      string(REGEX REPLACE "\"[^\"]*\"" "" code "${code}")      # a message too,
      string(REGEX REPLACE "Tensor::clone\\(|Tensor clone\\(" "" code "${code}")  # and a tensor may be cloned
      if(code MATCHES "${calls}")
        string(APPEND faults "\n  ${path}: ${line}")
      endif()
    endforeach()
  endforeach()
endforeach()
if(n_files EQUAL 0)
  message(FATAL_ERROR "check_processes: no sources below '${ROOT}'")
endif()
if(faults)
  message(FATAL_ERROR "Started processes (fork after MPI_Init corrupts memory; read in threads instead):${faults}")
endif()
message(STATUS "${n_files} files start no process")
