# SPDX-License-Identifier: Apache-2.0
# bora_test and bora_command_test. Labels of a test: its folder under tests/, `single` or `ranks`, and
# what LABELS adds (`nightly` keeps a long test out of ./check).
#
# Together the tests should keep two cores busy, but many wait, for a limit to pass or for mpirun to start: the
# scripts of tests/e2e use 0.1 to 0.6 of a core, tests/comm/endings_test.sh 0.03. So ./check starts four at a time, and
# PROCESSORS counts half cores, on the average: 1 for what waits, also with several ranks; 2 for a TEST(), and for one
# rank that computes; 3 for two; 4, which is alone, for more, and for what judges its own time. A test with a large
# TIMEOUT begins early (COST), or it would end alone.
include(GoogleTest)

# What the tests labelled `single` need: all that the presets asan and ubsan build.
add_custom_target(tests_single)

# Two threads, so that threaded loops are really threaded; passive, since tests share the cores.
set(BORA_TEST_ENV "OMP_NUM_THREADS=2" "OMP_WAIT_POLICY=passive")
if(BORA_SANITIZE MATCHES "thread")
  set(BORA_TEST_ENV "OMP_NUM_THREADS=1")  # libgomp's barriers are invisible to TSan: false reports
endif()
if(BORA_EMULATOR)
  # A test that dereferences device memory on the host ends with a message, as it would crash with a GPU.
  list(APPEND BORA_TEST_ENV "BORA_EMULATOR_STRICT=1")
endif()
# Several ranks on few cores: no core binding, yield while waiting, shared memory only.
set(BORA_MPI_TEST_ENV
    "OMP_NUM_THREADS=1" "OMP_WAIT_POLICY=passive"
    "OMPI_MCA_rmaps_base_oversubscribe=1" "OMPI_MCA_hwloc_base_binding_policy=none"
    "OMPI_MCA_mpi_yield_when_idle=1" "OMPI_MCA_btl=self,vader" "OMPI_MCA_pml=ob1")
execute_process(COMMAND id -u OUTPUT_VARIABLE bora_uid OUTPUT_STRIP_TRAILING_WHITESPACE)
if(bora_uid STREQUAL "0")
  # Open MPI refuses to start as root, as in containers, unless told twice.
  list(APPEND BORA_MPI_TEST_ENV "OMPI_ALLOW_RUN_AS_ROOT=1" "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1")
endif()
if(BORA_SANITIZE)
  set(supp "${PROJECT_SOURCE_DIR}/tests/support")
  foreach(env IN ITEMS BORA_TEST_ENV BORA_MPI_TEST_ENV)
    list(APPEND ${env} "UBSAN_OPTIONS=print_stacktrace=1"
                "LSAN_OPTIONS=suppressions=${supp}/lsan.supp:print_suppressions=0"
                "TSAN_OPTIONS=suppressions=${supp}/tsan.supp:halt_on_error=1")
  endforeach()
endif()

# bora_test_folder(<out>): the folder under tests/ that is being configured, as the first label.
function(bora_test_folder out)
  file(RELATIVE_PATH folder "${PROJECT_SOURCE_DIR}/tests" "${CMAKE_CURRENT_SOURCE_DIR}")
  if(folder STREQUAL "" OR folder MATCHES "^\\.\\.")
    set(folder top)
  endif()
  set(${out} ${folder} PARENT_SCOPE)
endfunction()

# bora_half_cores(<out> <n>): PROCESSORS of n ranks that work all the time.
function(bora_half_cores out n)
  math(EXPR n "${n} + 1")
  if(n GREATER 4)
    set(n 4)
  endif()
  set(${out} ${n} PARENT_SCOPE)
endfunction()

# bora_test(<name> SOURCES <file>... [SINGLE_SOURCE <file>...] LIBS <lib>... [RANKS <n>...]
#           [LAUNCH <n>... [LAUNCH_ARGS <arg>...]] [LABELS <label>...] [TIMEOUT <seconds>])
# Program test_<name> on GoogleTest. Without RANKS every TEST() becomes a ctest of its own, called
# <name>.<Suite>.<Test>. With RANKS the program starts and ends MPI itself (tests/support/mpi_main.cpp)
# and runs as a whole, once for each n: <name>.np<n>. With LAUNCH it also runs without MPI, under
# bora_launch: <name>.tcp<n>, with the arguments LAUNCH_ARGS. TIMEOUT is per ctest, 60 s unless given.
function(bora_test name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "TIMEOUT" "SOURCES;SINGLE_SOURCE;LIBS;RANKS;LAUNCH;LAUNCH_ARGS;LABELS")
  if(arg_UNPARSED_ARGUMENTS OR NOT (arg_SOURCES OR arg_SINGLE_SOURCE))
    message(FATAL_ERROR "bora_test(${name}): wants SOURCES; not understood: "
                        "'${arg_UNPARSED_ARGUMENTS}'")
  endif()
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 60)
  endif()
  if(BORA_SANITIZE)
    math(EXPR arg_TIMEOUT "10 * ${arg_TIMEOUT}")
  endif()
  bora_test_folder(folder)
  set(target test_${name})
  bora_executable(${target} SOURCES ${arg_SOURCES} SINGLE_SOURCE ${arg_SINGLE_SOURCE}
                  LIBS ${arg_LIBS} GTest::gtest GTest::gmock NO_INSTALL)
  if(NOT arg_RANKS)
    target_link_libraries(${target} PRIVATE GTest::gtest_main)
    add_dependencies(tests_single ${target})
    gtest_discover_tests(${target} TEST_PREFIX "${name}." TEST_LIST ${target}_tests
                         DISCOVERY_TIMEOUT 60 WORKING_DIRECTORY "${PROJECT_SOURCE_DIR}")
    # Properties that are lists do not survive gtest_discover_tests(PROPERTIES ...); ctest reads this
    # file after the discovered tests.
    set(labels "${folder}" single ${arg_LABELS})
    string(CONFIGURE [[
foreach(test IN LISTS @target@_tests)
  set_tests_properties("${test}" PROPERTIES
    LABELS "@labels@" ENVIRONMENT "@BORA_TEST_ENV@" TIMEOUT @arg_TIMEOUT@ PROCESSORS 2)
endforeach()
]] script @ONLY)
    set(file "${CMAKE_CURRENT_BINARY_DIR}/${target}_properties.cmake")
    file(CONFIGURE OUTPUT "${file}" CONTENT "${script}" @ONLY)
    set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES "${file}")
    return()
  endif()
  set(main "${PROJECT_SOURCE_DIR}/tests/support/mpi_main.cpp")
  if(EXISTS "${main}")
    target_sources(${target} PRIVATE "${main}")
  endif()
  target_link_libraries(${target} PRIVATE MPI::MPI_C)
  set(labels "${folder}" ranks ${arg_LABELS})
  math(EXPR cost "${arg_TIMEOUT} / 10")
  foreach(n IN LISTS arg_RANKS)
    bora_half_cores(cores ${n})
    add_test(NAME ${name}.np${n} WORKING_DIRECTORY "${PROJECT_SOURCE_DIR}"
             COMMAND ${MPIEXEC_EXECUTABLE} ${MPIEXEC_NUMPROC_FLAG} ${n} $<TARGET_FILE:${target}>)
    set_tests_properties(${name}.np${n} PROPERTIES
      LABELS "${labels}" TIMEOUT ${arg_TIMEOUT} COST ${cost} PROCESSORS ${cores}
      ENVIRONMENT "${BORA_MPI_TEST_ENV}")
  endforeach()
  if(NOT TARGET bora_launch)  # BORA_APPS=OFF
    return()
  endif()
  foreach(n IN LISTS arg_LAUNCH)
    bora_half_cores(cores ${n})
    add_test(NAME ${name}.tcp${n} WORKING_DIRECTORY "${PROJECT_SOURCE_DIR}"
             COMMAND bora_launch -n ${n} $<TARGET_FILE:${target}> ${arg_LAUNCH_ARGS})
    set_tests_properties(${name}.tcp${n} PROPERTIES
      LABELS "${labels}" TIMEOUT ${arg_TIMEOUT} COST ${cost} PROCESSORS ${cores}
      ENVIRONMENT "${BORA_MPI_TEST_ENV}")
  endforeach()
endfunction()

# bora_command_test(<name> COMMAND <program> <arg>... [RANKS] [LABELS <label>...] [TIMEOUT <seconds>]
#                   [PROCESSORS <half cores>] [SKIP_CODE <n>] [NEEDS <target>...])
# One ctest that runs any command from the repository's root, for end-to-end tests. With RANKS the
# command may call mpirun: it gets the multi-rank environment and the label `ranks`. A command that ends
# with SKIP_CODE says that it wants something that is not here: the test counts as skipped. NEEDS: targets that it
# uses without naming them in COMMAND, where it has not RANKS.
function(bora_command_test name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "RANKS" "TIMEOUT;PROCESSORS;SKIP_CODE" "COMMAND;LABELS;NEEDS")
  if(arg_UNPARSED_ARGUMENTS OR NOT arg_COMMAND)
    message(FATAL_ERROR "bora_command_test(${name}): wants COMMAND; not understood: "
                        "'${arg_UNPARSED_ARGUMENTS}'")
  endif()
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 60)
  endif()
  if(BORA_SANITIZE)
    math(EXPR arg_TIMEOUT "10 * ${arg_TIMEOUT}")
  endif()
  if(NOT arg_PROCESSORS)
    set(arg_PROCESSORS 1)
  endif()
  bora_test_folder(folder)
  set(kind single)
  set(env "${BORA_TEST_ENV}")
  if(arg_RANKS)
    set(kind ranks)
    set(env "${BORA_MPI_TEST_ENV}")
  elseif(NOT "nightly" IN_LIST arg_LABELS)
    foreach(word IN LISTS arg_COMMAND)
      if(word MATCHES "^\\$<TARGET_FILE:([^>]+)>$")
        list(APPEND arg_NEEDS ${CMAKE_MATCH_1})
      elseif(TARGET "${word}")
        list(APPEND arg_NEEDS ${word})
      endif()
    endforeach()
    if(arg_NEEDS)
      add_dependencies(tests_single ${arg_NEEDS})
    endif()
  endif()
  math(EXPR cost "${arg_TIMEOUT} / 10")
  set(labels "${folder}" ${kind} ${arg_LABELS})
  add_test(NAME ${name} WORKING_DIRECTORY "${PROJECT_SOURCE_DIR}" COMMAND ${arg_COMMAND})
  set_tests_properties(${name} PROPERTIES LABELS "${labels}"
    TIMEOUT ${arg_TIMEOUT} COST ${cost} PROCESSORS ${arg_PROCESSORS} ENVIRONMENT "${env}")
  if(DEFINED arg_SKIP_CODE)
    set_tests_properties(${name} PROPERTIES SKIP_RETURN_CODE ${arg_SKIP_CODE})
  endif()
endfunction()
