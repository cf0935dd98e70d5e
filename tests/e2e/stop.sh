#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A signal to any one rank, or the run's own time limit: all ranks save at the next update and leave with the requeue code; the same
# command with --resume ends with the bits of the run that was never stopped (features 141, 167, 168).
# shellcheck source=tests/e2e/common.sh
source "$(dirname "$0")/common.sh"

options=(--train.epochs=12 --train.patience=0 --model.dropout=0.1)
start() {  # start DIR ARGS...: 2 ranks in the background, pid in $job
  local dir=$1
  shift
  timeout -k 5 120 mpirun -n 2 "$bin/unet3d" train "${small[@]}" "${options[@]}" --output.dir="$dir" "$@" >>"$dir.log" 2>&1 &
  job=$!
}
finish() {  # finish CODE DIR
  local code=$1 dir=$2 got=0
  wait "$job" || got=$?
  [ "$got" -eq "$code" ] || { cat "$dir.log" >&2; fail "exit code $got instead of $code in $dir"; }
}
wait_for_lines() {  # wait_for_lines FILE N
  for _ in $(seq 300); do
    [ -f "$1" ] && [ "$(wc -l <"$1")" -ge "$2" ] && return
    sleep 0.1
  done
  fail "no $2 lines in $1 after 30 s"
}

start "$work/straight"
finish 0 "$work/straight"

# Signals to one rank only, at any moment; each run is stopped twice.
for signal in USR1 TERM; do
  dir=$work/$signal
  start "$dir" --output.log_every=1
  wait_for_lines "$dir/metrics.jsonl" 4
  kill -"$signal" "$(ranks_of "$dir" | tail -n 1)"
  finish 75 "$dir"
  grep -q "stopped by a signal after update" "$dir.log" || { cat "$dir.log" >&2; fail "$signal: the reason is not told"; }
  lines=$(wc -l <"$dir/metrics.jsonl")
  start "$dir" --output.log_every=1 --resume
  wait_for_lines "$dir/metrics.jsonl" $((lines + 3))
  kill -"$signal" "$(ranks_of "$dir" | head -n 1)"
  finish 75 "$dir"
  start "$dir" --output.log_every=1 --resume
  finish 0 "$dir"
  "$bin/compare_checkpoints" "$work/straight/last.h5" "$dir/last.h5" || fail "$signal: not the bits of the straight run"
  "$bin/compare_checkpoints" "$work/straight/best.h5" "$dir/best.h5" || fail "$signal: another best"
done

# The run's own limit, decided by rank 0, with a code of the user's.
start "$work/time" --train.max_hours=0.0003 --train.stop_code=99
finish 99 "$work/time"
grep -q "stopped by train.max_hours" "$work/time.log" || fail "the time limit is not told"
start "$work/time" --resume
finish 0 "$work/time"
"$bin/compare_checkpoints" "$work/straight/last.h5" "$work/time/last.h5" || fail "time limit: not the bits of the straight run"
echo "stop: all as it should be"
