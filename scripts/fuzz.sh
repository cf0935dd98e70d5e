#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# scripts/fuzz.sh [FORMAT|all] [RUNS]
# Runs a fuzzer of tests/fuzz with libFuzzer, AddressSanitizer and UndefinedBehaviorSanitizer: RUNS inputs
# (1000000 unless given), at most 2 GiB of memory and 10 s an input. It starts from the committed corpus;
# what it finds worth keeping goes to build/fuzz/corpus/FORMAT, faults to build/fuzz/faults/FORMAT.
# BORA_FUZZ_SECONDS bounds the time of each format. Exit code 1: a fault was found.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=scripts/bootstrap.sh
source scripts/bootstrap.sh

case ${1:-} in -h | --help) sed -n '3,7s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" && exit 0 ;; esac
formats=("${1:-all}")
runs=${2:-1000000}
if [[ ${formats[0]} == all ]]; then
  mapfile -t formats < <(sed -n 's/^bora_fuzzer(\([a-z0-9_]*\).*/\1/p' tests/fuzz/CMakeLists.txt)
fi

cmake --preset fuzz >/dev/null
cmake --build --preset fuzz -j "$(bora_jobs)" --target "${formats[@]/#/fuzz_}"
code=0
for format in "${formats[@]}"; do
  seeds=tests/fuzz/corpus/$format
  work=build/fuzz/corpus/$format
  faults=build/fuzz/faults/$format
  mkdir -p "$work" "$faults"
  echo "fuzz: $format, $runs inputs"
  # The OpenMP runtime's threads are of no use here; leaks are reported once, at the end.
  OMP_NUM_THREADS=1 ASAN_OPTIONS="${ASAN_OPTIONS:-}:allocator_may_return_null=1:detect_leaks=0" \
    "build/fuzz/bin/fuzz_$format" -runs="$runs" -max_total_time="${BORA_FUZZ_SECONDS:-0}" -rss_limit_mb=2048 \
    -malloc_limit_mb=1024 -timeout=10 -max_len=65536 -print_final_stats=1 -artifact_prefix="$faults/" "$work" "$seeds" || code=1
done
exit "$code"
