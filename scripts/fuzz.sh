#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# scripts/fuzz.sh [FORMAT|all] [RUNS]
# Runs a fuzzer of tests/fuzz with libFuzzer, AddressSanitizer and UndefinedBehaviorSanitizer: RUNS mutated
# inputs (1000000 unless given), at most 2 GiB of memory, 256 MiB at once, and 10 s an input. It starts from the committed corpus;
# what it finds worth keeping goes to build/fuzz/corpus/FORMAT, faults with their reports to
# build/fuzz/faults/FORMAT. It goes on behind a fault, in a new process.
# BORA_FUZZ_SLICE: inputs of a process (100000; the HDF5 library leaks). BORA_FUZZ_SECONDS: time of each format.
# BORA_FUZZ_TIMEOUT: seconds an input, where other work makes the machine slow.
# Exit code 1: a fault of ours was found. Faults inside the HDF5 library are counted and kept, and do not fail.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=scripts/bootstrap.sh
source scripts/bootstrap.sh

case ${1:-} in -h | --help) sed -n '3,10s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" && exit 0 ;; esac
formats=("${1:-all}")
runs=${2:-1000000}
slice=${BORA_FUZZ_SLICE:-100000}
most_faults=200 # of one format: then something is wrong with all of them
if [[ ${formats[0]} == all ]]; then
  mapfile -t formats < <(sed -n 's/^bora_fuzzer(\([a-z0-9_]*\).*/\1/p' tests/fuzz/CMakeLists.txt)
fi

# longest FORMAT: bytes of an input at most, two or more times the largest of the corpus.
longest() {
  case $1 in
    netcdf | hdf5_volume | checkpoint) echo 24576 ;;
    *) echo 4096 ;;
  esac
}

# The innermost frame of a report's first stack that is no sanitizer's, fuzzer's or libc's: whose fault it is.
culprit() {
  awk '/^ *#[0-9]+ 0x/ {
         if ($2 == "") next
         if (/^ *#0 / && seen++) exit
         if (/ in (__interceptor|__asan|__sanitizer|__ubsan|fuzzer::|raise|abort|gsignal|kill|_*mem|_*str|malloc|calloc|realloc|operator)/ ||
             /libc\.so|compiler-rt|\(<unknown module>\)/) next
         sub(/^ *#[0-9]+ 0x[0-9a-f]+ /, ""); print; exit
       }' "$1"
}

# run_format FORMAT: RUNS inputs, in as many processes as it takes. Returns 1 for a fault of ours.
run_format() {
  local format=$1 seeds=tests/fuzz/corpus/$1 work=build/fuzz/corpus/$1 faults=build/fuzz/faults/$1
  local log done=0 ours=0 library=0 begin=$SECONDS left n read first rc where artifact limit=${BORA_FUZZ_SECONDS:-0}
  mkdir -p "$work" "$faults"
  log=$faults/log
  echo "fuzz: $format, $runs inputs"
  while ((done < runs && ours + library < most_faults)); do
    n=$((runs - done < slice ? runs - done : slice))
    left=0
    if ((limit > 0)); then
      left=$((limit - (SECONDS - begin)))
      ((left > 0)) || break
    fi
    # libFuzzer counts the inputs it starts from too.
    first=$(find "$work" "$seeds" -type f | wc -l)
    rc=0
    # Threads are of no use here. Short stacks of allocations and a small store of freed blocks make ASan fast.
    OMP_NUM_THREADS=1 ASAN_SYMBOLIZER_PATH=$(command -v llvm-symbolizer-14 llvm-symbolizer | head -1) \
      UBSAN_OPTIONS=print_stacktrace=1 ASAN_OPTIONS="allocator_may_return_null=1:detect_leaks=0:malloc_context_size=8:quarantine_size_mb=32:${ASAN_OPTIONS:-}" \
      "build/fuzz/bin/fuzz_$format" -runs=$((n + first)) -max_total_time="$left" -rss_limit_mb=2048 -malloc_limit_mb=256 \
      -timeout="${BORA_FUZZ_TIMEOUT:-10}" -detect_leaks=0 -max_len="$(longest "$format")" -print_final_stats=1 -print_funcs=0 -artifact_prefix="$faults/" \
      "$work" "$seeds" >"$log" 2>&1 || rc=$?
    grep -E 'INITED|RELOAD|DONE|pulse' "$log" | tail -1 || true
    read=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log" | tail -1)
    [[ -n $read ]] || { tail -20 "$log" && return 1; }
    done=$((done + (read > first ? read - first : 0)))
    ((rc == 0)) && continue
    where=$(culprit "$log")
    artifact=$(sed -n 's/.*Test unit written to //p' "$log" | tail -1)
    if [[ $where == *libhdf5* ]]; then library=$((library + 1)); else ours=$((ours + 1)); fi
    echo "fuzz: $format: after $done inputs, exit code $rc: ${artifact:-no input kept}, $(grep -m 1 -E 'ERROR|runtime error' "$log" || true)"
    echo "fuzz:   in ${where:-?}"
    [[ -z $artifact ]] || cp "$log" "$artifact.txt"
  done
  echo "fuzz: $format: $done mutated inputs in $((SECONDS - begin)) s, $ours faults of ours, $library in the HDF5 library;" \
    "$(grep -oE 'cov: [0-9]+ ft: [0-9]+ corp: [0-9]+' "$log" | tail -1)"
  return $((ours > 0))
}

cmake --preset fuzz >/dev/null
cmake --build --preset fuzz -j "$(bora_jobs)" --target "${formats[@]/#/fuzz_}"
code=0
for format in "${formats[@]}"; do
  run_format "$format" || code=1
done
exit "$code"
