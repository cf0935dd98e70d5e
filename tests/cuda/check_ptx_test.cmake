# SPDX-License-Identifier: Apache-2.0
# cmake -DCHECK=<cmake/check_ptx.cmake> -DROOT=<repository> -DWORK=<scratch folder> -P tests/cuda/check_ptx_test.cmake
# Plants one fault after another in a small PTX and a ptxas report; check_ptx must find each, and accept the sound ones.
cmake_minimum_required(VERSION 3.25)
file(REMOVE_RECURSE "${WORK}")
file(MAKE_DIRECTORY "${WORK}")
set(head ".version 8.0\n.target sm_80\n.visible .entry norm_apply_slabsLb1E(\n\t.param .u64 p\n)\n{\n\t.reg .b32 %r<5>;\n")
set(load "\tld.global.v4.u32 \t{%r1, %r2, %r3, %r4}, [%rd1];\n")
set(store "\tst.global.v4.u32 \t[%rd1], {%r1, %r2, %r3, %r4};\n")
set(tail "\tld.shared.v4.f32 \t{%f1, %f2, %f3, %f4}, [%r1];\n\tfma.rn.f32 \t%f1, %f2, %f3, %f4;\n\tatom.global.add.u32 \t%r1, [%rd1], 1;\n\tret;\n}\n")
function(report out registers spills)
  set(${out} "ptxas info    : Compiling entry function 'norm_apply_slabsLb1E' for 'sm_80'
ptxas info    : Function properties for norm_apply_slabsLb1E
    0 bytes stack frame, ${spills} bytes spill stores, ${spills} bytes spill loads
ptxas info    : Used ${registers} registers, used 1 barriers, 440 bytes cmem[0]
" PARENT_SCOPE)
endfunction()

# judge(<name> <ptx> <report> <what the message must say; empty: it must pass>)
function(judge name ptx info wanted)
  file(WRITE "${WORK}/${name}.ptx" "${ptx}")
  file(WRITE "${WORK}/${name}.txt" "${info}")
  execute_process(COMMAND "${CMAKE_COMMAND}" -DROOT=${ROOT} -DPTX=${WORK}/${name}.ptx -DINFO=${WORK}/${name}.txt -P "${CHECK}"
                  RESULT_VARIABLE failed OUTPUT_VARIABLE out ERROR_VARIABLE err)
  string(REGEX REPLACE "[ \n]+" " " text "${out}${err}")
  if(wanted STREQUAL "" AND failed)
    message(FATAL_ERROR "${name}: a sound kernel was refused: ${text}")
  elseif(NOT wanted STREQUAL "" AND NOT failed)
    message(FATAL_ERROR "${name}: the planted fault was not found: ${text}")
  elseif(NOT text MATCHES "${wanted}")
    message(FATAL_ERROR "${name}: the message does not say '${wanted}': ${text}")
  endif()
endfunction()

report(good 80 0)
report(greedy 255 0)
report(spilling 80 16)
judge(sound "${head}${load}${store}${tail}" "${good}" "")
judge(scalar_load "${head}${store}${tail}" "${good}" "no 16-byte load")
judge(scalar_store "${head}${load}${tail}" "${good}" "no 16-byte store")
judge(local "${head}\t.local .align 16 .b8 depot[64];\n${load}${store}${tail}" "${good}" "local memory")
judge(f64 "${head}${load}${store}\tadd.f64 \t%fd1, %fd2, %fd3;\n${tail}" "${good}" "f64 arithmetic: add.f64")
judge(cvt "${head}${load}${store}\tcvt.rn.f32.f64 \t%f1, %fd3;\n${tail}" "${good}" "f64 arithmetic: cvt.rn.f32.f64")
judge(atomic "${head}${load}${store}\tatom.global.add.f32 \t%f1, [%rd1], %f2;\n${tail}" "${good}" "atomic on a floating type")
judge(red "${head}${load}${store}\tred.global.add.f16x2 \t[%rd1], %r2;\n${tail}" "${good}" "atomic on a floating type")
judge(registers "${head}${load}${store}${tail}" "${greedy}" "255 registers, the budget .* is")
judge(spills "${head}${load}${store}${tail}" "${spilling}" "spills, 16 bytes spill stores")
string(REPLACE "norm_apply_slabs" "nobody_knows" unknown "${head}${load}${store}${tail}")
judge(unknown "${unknown}" "" "no rule for kernel nobody_knows")
message(STATUS "check_ptx finds what is planted")
