# SPDX-License-Identifier: Apache-2.0
# cmake -DROOT=<repository> -P cmake/check_device_code.cmake
# Device code must keep to what kernels/launch.hpp says, so that the emulator can run it and sums have one
# order. Reads every source of the folders that may hold some and fails, naming file, line and rule, for
#   - a launch that does not go through launch(),
#   - an atomic operation, unless its line says "// integer": those on floating types add up in the order
#     of arrival,
#   - cooperative groups and CUB (no emulation), dynamic shared memory but by BORA_DYNAMIC_SHARED.
cmake_minimum_required(VERSION 3.25)
if(NOT IS_DIRECTORY "${ROOT}")
  message(FATAL_ERROR "check_device_code: ROOT is not a folder: '${ROOT}'")
endif()

set(rules "")
# rule(<pattern> <files that may> <lines that may> <what to do>)
function(rule pattern files lines text)
  list(APPEND rules "${pattern}" "${files}" "${lines}" "${text}")
  set(rules "${rules}" PARENT_SCOPE)
endfunction()
set(nowhere "^$")
set(launch "^kernels/launch\\.hpp$")
rule("<<<" "${launch}" "^[ \t]*//" "kernels are started by launch() of kernels/launch.hpp")
rule("cudaLaunchKernel|cudaLaunchCooperativeKernel" "${launch}" "^[ \t]*//"
     "kernels are started by launch() of kernels/launch.hpp")
rule("(^|[^A-Za-z_])atomic(Add|Sub|Exch|Min|Max|Inc|Dec|CAS|And|Or|Xor)(_block|_system)?[ \t]*(<[^>]*>)?[ \t]*\\("
     "^kernels/simt/" "^[ \t]*//|// integer" "no atomics on floating types: their sums depend on the order of \
arrival. An integer one says '// integer' behind itself")
rule("(atom|red)\\.[a-z.]*(add|min|max)[a-z.]*\\.(f16|bf16|f32|f64)" "${nowhere}" "^[ \t]*//"
     "no atomics on floating types, in PTX neither")
rule("cooperative_groups|<cub/" "${nowhere}" "^[ \t]*//" "the emulator has no cooperative groups and no CUB")
rule("extern[ \t]+__shared__" "${launch}" "^[ \t]*//" "dynamic shared memory is BORA_DYNAMIC_SHARED(type, name)")

set(n_files 0)
set(faults "")
foreach(folder IN ITEMS core kernels nn comm apps)
  file(GLOB_RECURSE paths LIST_DIRECTORIES false RELATIVE "${ROOT}"
       "${ROOT}/${folder}/*.hpp" "${ROOT}/${folder}/*.cpp" "${ROOT}/${folder}/*.cu" "${ROOT}/${folder}/*.cuh")
  foreach(path IN LISTS paths)
    math(EXPR n_files "${n_files} + 1")
    set(rest "${rules}")
    while(rest)
      list(POP_FRONT rest pattern files lines text)
      if(path MATCHES "${files}")
        continue()
      endif()
      file(STRINGS "${ROOT}/${path}" hits REGEX "${pattern}")
      foreach(hit IN LISTS hits)
        if(hit MATCHES "${pattern}" AND NOT hit MATCHES "${lines}")
          string(STRIP "${hit}" hit)
          list(APPEND faults "${path}: '${hit}': ${text}")
        endif()
      endforeach()
    endwhile()
  endforeach()
endforeach()

if(faults)
  list(JOIN faults "\n  " text)
  message(FATAL_ERROR "device code that breaks the rules of kernels/launch.hpp:\n  ${text}")
endif()
if(n_files EQUAL 0)
  message(FATAL_ERROR "no source files below ROOT='${ROOT}': give an absolute path")
endif()
message(STATUS "device code: ${n_files} files keep to kernels/launch.hpp")
