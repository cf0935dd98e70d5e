# SPDX-License-Identifier: Apache-2.0
# What core/build_info.hpp.in is filled with. The commit is read at each configure step.
set(BORA_VERSION "${PROJECT_VERSION}")
set(BORA_BUILD_TYPE "${CMAKE_BUILD_TYPE}")
set(BORA_GIT_COMMIT "unknown")  # a source archive without .git
find_package(Git QUIET)
if(Git_FOUND AND EXISTS "${PROJECT_SOURCE_DIR}/.git")
  execute_process(
    COMMAND "${GIT_EXECUTABLE}" -C "${PROJECT_SOURCE_DIR}" rev-parse --short=12 HEAD
    OUTPUT_VARIABLE bora_commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET
    RESULT_VARIABLE bora_git_failed)
  if(NOT bora_git_failed)
    set(BORA_GIT_COMMIT "${bora_commit}")
  endif()
endif()
