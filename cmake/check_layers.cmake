# SPDX-License-Identifier: Apache-2.0
# cmake -DROOT=<repository> -P cmake/check_layers.cmake
# Reads every #include of the layered folders and fails, naming file, line and rule, if
#   - a quoted include does not start with a folder of ours, or starts with one that the file's folder
#     may not see (upwards or sideways),
#   - a third-party header is included above its layer, or a header is not known here at all.
cmake_minimum_required(VERSION 3.25)
if(NOT IS_DIRECTORY "${ROOT}")
  message(FATAL_ERROR "check_layers: ROOT is not a folder: '${ROOT}'")
endif()

# Who may include whom. Later folders of a list are what the first one may see.
set(folders core kernels nn comm data apps)
set(sees_core core)
set(sees_kernels kernels core)
set(sees_nn nn kernels core)
set(sees_comm comm core)
set(sees_data data core)
set(sees_apps apps nn comm data kernels core)

# Third-party headers: a pattern for the header, a pattern for the files that may include it.
set(third_party "")
function(allow header files)
  list(APPEND third_party "${header}" "${files}")
  set(third_party "${third_party}" PARENT_SCOPE)
endfunction()
allow("^(oneapi/|dnnl)" "^kernels/cpu/")
allow("^Eigen/" "^kernels/cpu/")
allow("^mpi\\.h$" "^comm/")
allow("^nccl\\.h$" "^comm/nccl")
allow("^(hdf5|hdf5_hl|H5[A-Za-z]+)\\.h$" "^data/.*\\.cpp$")
allow("^(png|zlib|libdeflate)\\.h$" "^data/.*\\.cpp$")
allow("^(cairo/)?cairo[a-z-]*\\.h$" "^data/.*\\.cpp$")
allow("^nlohmann/" "^(data/|kernels/cudnn/|apps/gpucheck/result).*\\.cpp$")
allow("^(CLI|toml\\+\\+)/" "^core/config[^/]*\\.cpp$")
allow("^cudnn" "^kernels/cudnn/")
allow("^cublas" "^kernels/cublas/")
allow("^cub/" "^kernels/")
allow("^nvtx3/" "^core/profile")
allow("^(cuda|driver_types|vector_types)[a-z_0-9]*\\.(h|hpp)$"
      "^(core/[a-z_0-9]*_cuda\\.cpp|kernels/.*|comm/nccl[a-z_]*\\.cpp)$")

# What the compiler and the operating system bring. C++ standard headers have neither dot nor slash.
set(system_header "^([a-z_0-9]+|sanitizer/common_interface_defs\\.h|(sys|linux|arpa|netinet|net)/[a-z_0-9]+\\.h|(omp|immintrin|x86intrin|\
cpuid|cxxabi|dirent|dlfcn|elf|errno|execinfo|fcntl|fenv|ifaddrs|limits|link|malloc|math|netdb|poll|pthread|sched|signal|\
spawn|stdint|stdio|stdlib|string|strings|termios|time|ucontext|unistd)\\.h)$")

set(n_files 0)
set(faults "")
foreach(folder IN LISTS folders)
  file(GLOB_RECURSE paths LIST_DIRECTORIES false RELATIVE "${ROOT}"
       "${ROOT}/${folder}/*.hpp" "${ROOT}/${folder}/*.cpp" "${ROOT}/${folder}/*.cu"
       "${ROOT}/${folder}/*.cuh" "${ROOT}/${folder}/*.h" "${ROOT}/${folder}/*.in")
  foreach(path IN LISTS paths)
    math(EXPR n_files "${n_files} + 1")
    file(STRINGS "${ROOT}/${path}" includes REGEX "^[ \t]*#[ \t]*include[ \t]*[<\"]")
    foreach(include IN LISTS includes)
      if(include MATCHES "\"([^\"]+)\"")
        set(header "${CMAKE_MATCH_1}")
        string(REGEX REPLACE "/.*" "" target "${header}")
        if(NOT header MATCHES "/" OR NOT target IN_LIST folders)
          list(APPEND faults "${path}: \"${header}\" must be written from the repository's root, as \
\"folder/file.hpp\"; third-party headers go in <>")
        elseif(NOT target IN_LIST sees_${folder})
          list(APPEND faults "${path}: \"${header}\" is not below ${folder}/, which may see only: \
${sees_${folder}}")
        endif()
      elseif(include MATCHES "<([^>]+)>")
        set(header "${CMAKE_MATCH_1}")
        set(known FALSE)
        if(header MATCHES "${system_header}")
          set(known TRUE)
        endif()
        set(rules "${third_party}")
        while(rules AND NOT known)
          list(POP_FRONT rules pattern files)
          if(header MATCHES "${pattern}")
            set(known TRUE)
            if(NOT path MATCHES "${files}")
              list(APPEND faults "${path}: <${header}> is allowed only in files that match ${files}")
            endif()
          endif()
        endwhile()
        if(NOT known)
          list(APPEND faults "${path}: <${header}> is not a header that cmake/check_layers.cmake knows; \
add it there with the files that may include it")
        endif()
      endif()
    endforeach()
  endforeach()
endforeach()

if(faults)
  list(JOIN faults "\n  " text)
  list(LENGTH faults n_faults)
  message(FATAL_ERROR "${n_faults} include(s) break the layers:\n  ${text}")
endif()
if(n_files EQUAL 0)
  message(FATAL_ERROR "no source files below ROOT='${ROOT}': give an absolute path")
endif()
message(STATUS "layers: ${n_files} files, all includes point downwards")
