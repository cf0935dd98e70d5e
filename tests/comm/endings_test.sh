#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# endings_test.sh <mpiexec or -> <ranks> <program> <how> <exit code> <seconds> [<count>:<text>]...
# Runs the program (without mpiexec for -), and fails unless it ends with the exit code within the
# seconds, and stderr has exactly <count> lines ('+': one at least) with each text; with an f before the
# count, the flight records have. No process and no shared memory may be left behind.
set -u
mpiexec=$1 ranks=$2 program=$3 how=$4 code=$5 seconds=$6
shift 6
mark=run-$$  # an argument that the program ignores, to find its processes by
log=$(mktemp)
records=$(mktemp -d)
ranks_of_this=$(mktemp)
trap 'rm -rf "$log" "$records" "$ranks_of_this"' EXIT
# Each rank writes down its process before it becomes the program: other tests run beside this one.
# shellcheck disable=SC2016  # the rank's own
command=(bash -c 'echo $$ >>"$0" && exec "$@"' "$ranks_of_this" "$program" "$how" "$mark")
if [[ $mpiexec != - ]]; then command=("$mpiexec" -n "$ranks" "${command[@]}"); fi
export BORA_FLIGHT_RECORD_DIR=$records
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
  if [[ $count == f* ]]; then
    count=${count#f}
    n=$(cat "$records"/flight-*.txt 2>/dev/null | grep -cF -- "$text")
  else
    n=$(grep -cF -- "$text" "$log")
  fi
  if [[ $count == + ]]; then
    ((n > 0)) || fail "no line says: $text"
  else
    [[ $n == "$count" ]] || fail "$n lines, wanted $count, say: $text"
  fi
done
# mpirun is gone; what it has killed may need a moment.
for ((i = 0; i < 50; ++i)); do
  left=$(pgrep -f -- "$program $how $mark")
  [[ -n $left ]] || break
  sleep 0.1
done
[[ -z $left ]] || {
  fail "processes are left: $left"
  # shellcheck disable=SC2086  # a word each
  kill -KILL $left
}
# Shared memory is /dev/shm/bora-<process>-...
n=$(wc -l <"$ranks_of_this")
((n > 0)) || fail "no rank has begun"
while read -r pid; do
  for file in /dev/shm/bora-"$pid"-*; do
    [[ ! -e $file ]] || fail "shared memory is left: $file"
  done
done <"$ranks_of_this"
echo "--- $how: exit code $rc after $took s; stderr:"
cat "$log"
if ((failed)); then tail -n +1 "$records"/flight-*.txt 2>/dev/null; fi
exit $failed
