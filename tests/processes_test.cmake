# SPDX-License-Identifier: Apache-2.0
# cmake -DCHECK=<check_processes.cmake> -DWORK=<empty folder to use> -P tests/processes_test.cmake
# The check passes a good tree and finds each planted fault, one at a time.
cmake_minimum_required(VERSION 3.25)

# expect(<PASS|FAIL> <file> <line of code>)
function(expect verdict file line)
  file(REMOVE_RECURSE "${WORK}")
  file(WRITE "${WORK}/core/good.cpp" "int f() { return 0; }  // no fork() in here\n")
  file(WRITE "${WORK}/${file}" "void g() {\n  ${line}\n}\n")
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

expect(PASS data/a.cpp "Tensor y = x.clone()")
expect(PASS data/a.cpp "fail(\"a file opened before fork() is used in the child\")")
expect(PASS comm/spawn.cpp "const int pid = ::fork()")
expect(PASS apps/launch/workers.cpp "::execvp(a, b)")
expect(FAIL data/a.cpp "if (::fork() == 0) return")
expect(FAIL data/a.cpp "vfork()")
expect(FAIL apps/train/a.cpp "std::system(\"ncdump -h a.nc\")")
expect(FAIL apps/unet3d/a.cpp "FILE* f = popen(\"ls\", \"r\")")
expect(FAIL core/a.cpp "posix_spawnp(&pid, name, nullptr, nullptr, argv, environ)")
expect(FAIL comm/a.cpp "execvp(name, argv)")
file(REMOVE_RECURSE "${WORK}")
