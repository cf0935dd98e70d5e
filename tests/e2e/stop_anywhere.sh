#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# stop_anywhere.sh BIN [STOPS]: runs that are stopped at random moments by a signal to one random rank, and resumed, until they end; they
# end with the bits of the run that was never stopped (features 141, 167): in f32, bf16 and fp16 with skipped updates, with
# accumulation, on 1 and 2 ranks (f32 on 2: stop.sh). STOPS a run: 3 unless given (the nightly form takes many). The moments are those of BORA_SEED.
# shellcheck source=tests/e2e/common.sh
source "$(dirname "$0")/common.sh"
stops=${2:-3}
seed=${BORA_SEED:-$(date +%s)}
RANDOM=$((seed % 32768))
echo "moments of BORA_SEED=$seed"

settings=("${settings[@]/--split.validation=0.2/--split.validation=0.1}")
common=(--data.root="$data" "${settings[@]}" --train.epochs=$((3 + stops)) --train.patience=0 --model.dropout=0.1)
now() { date +%s%N; }

# The signal is blocked until the program listens, as the batch templates do it.
start() {  # start RANKS DIR ARGS...: in the background, pid in $job
  local n=$1 dir=$2
  shift 2
  local run=(env --block-signal=USR1 --block-signal=TERM "$bin/unet3d" train "${common[@]}" --output.dir="$dir" --resume "$@")
  if ((n > 1)); then run=(mpirun -n "$n" "${run[@]}"); fi
  timeout -k 5 120 "${run[@]}" >>"$dir.log" 2>&1 &
  job=$!
}
finish() {  # finish DIR: exit code in $code
  code=0
  wait "$job" || code=$?
  case $code in 0 | 75) ;; *) cat "$1.log" >&2; fail "exit code $code in $1" ;; esac
}

total=0
try() {  # try NAME RANKS ARGS...
  local name=$1 n=$2 begin straight_ms attempt pids stopped=0
  shift 2
  begin=$(now)
  start "$n" "$work/$name.straight" "$@"
  finish "$work/$name.straight"
  [ "$code" -eq 0 ] || fail "$name: the straight run ended with $code"
  straight_ms=$((($(now) - begin) / 1000000))
  for attempt in $(seq 200); do
    start "$n" "$work/$name" "$@"
    if ((attempt <= stops)); then
      pids=()
      while ((${#pids[@]} < n)) && kill -0 "$job" 2>/dev/null; do mapfile -t pids < <(ranks_of "$work/$name"); done
      local delay=$((RANDOM * straight_ms * 12 / (327680 * stops)))
      sleep "$((delay / 1000)).$(printf %03d $((delay % 1000)))"
      local signal=USR1
      if ((RANDOM % 2)); then signal=TERM; fi
      if ((${#pids[@]} == n)); then kill -$signal "${pids[RANDOM % n]}" 2>/dev/null || true; fi
    fi
    finish "$work/$name"
    if ((code == 0)); then break; fi
    stopped=$((stopped + 1))
  done
  [ "$code" -eq 0 ] || fail "$name: $attempt starts were not enough"
  local file
  for file in last best; do
    "$bin/compare_checkpoints" "$work/$name.straight/$file.h5" "$work/$name/$file.h5" >/dev/null ||
      { cat "$work/$name.log" >&2; fail "$name: $file.h5 has not the bits of the straight run"; }
  done
  echo "$name: $stopped stops"
  total=$((total + stopped))
}

try f32 1
try bf16 2 --precision=bf16 --train.accumulate=2
skips=(--precision=fp16 --scaler.initial=1e10 --scaler.highest=1e12 --scaler.interval=2 --output.log_every=1)
try fp16 1 "${skips[@]}" --train.accumulate=2
try fp16-ranks 2 "${skips[@]}"
for name in fp16 fp16-ranks; do
  [ "$(grep -c '"kind":"skipped"' "$work/$name.straight/metrics.jsonl")" -ge 3 ] || fail "$name: too few skipped updates"
  # Rows of the log: what happened after the save that a start began from is not told twice.
  cmp <(grep -c '"kind":"skipped"' "$work/$name.straight/metrics.jsonl") <(grep -c '"kind":"skipped"' "$work/$name/metrics.jsonl") ||
    fail "$name: other skipped updates in the log"
done
((total >= 2 * stops)) || fail "only $total stops in 4 runs"
echo "stop_anywhere: all as it should be, $total stops"
