#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# endings_test.sh <mpiexec or -> <ranks> <program> <how> <exit code> <seconds> [<count>:<text>]...
# Runs the program (without mpiexec for -), and fails unless it ends with the exit code within the
# seconds, and stderr has exactly <count> lines ('+': one at least) with each text.
set -u
mpiexec=$1 ranks=$2 program=$3 how=$4 code=$5 seconds=$6
shift 6
command=("$mpiexec" -n "$ranks" "$program" "$how")
if [[ $mpiexec == - ]]; then command=("$program" "$how"); fi

log=$(mktemp)
trap 'rm -f "$log"' EXIT
start=$(date +%s.%N)
timeout -k 5 100 "${command[@]}" 2>"$log"
rc=$?
took=$(awk -v a="$start" -v b="$(date +%s.%N)" 'BEGIN { printf "%.1f", b - a }')

failed=0
fail() { echo "FAILED: $*"; failed=1; }
[[ $rc == "$code" ]] || fail "exit code $rc, wanted $code"
awk -v t="$took" -v s="$seconds" 'BEGIN { exit !(t < s) }' || fail "took $took s, wanted $seconds s"
for wanted in "$@"; do
  count=${wanted%%:*} text=${wanted#*:}
  n=$(grep -cF -- "$text" "$log")
  if [[ $count == + ]]; then
    ((n > 0)) || fail "no line says: $text"
  else
    [[ $n == "$count" ]] || fail "$n lines, wanted $count, say: $text"
  fi
done
echo "--- $how: exit code $rc after $took s; stderr:"
cat "$log"
exit $failed
