#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Stopped and resumed gives the same bits as the straight run (feature 141): stopped inside an epoch and between epochs, with 1 and
# 2 ranks, for any number of loader threads (feature 75).
# shellcheck source=tests/e2e/common.sh
source "$(dirname "$0")/common.sh"

train() {  # train RANKS DIR ARGS...
  local n=$1 dir=$2
  shift 2
  mpirun -n "$n" "$bin/unet3d" train "${small[@]}" --train.epochs=3 --model.dropout=0.1 --output.dir="$dir" "$@" >"$dir.log" 2>&1 ||
    { cat "$dir.log" >&2; fail "train $n $dir $*"; }
}

for n in 1 2; do
  train $n "$work/straight$n"
  for stop in 4 7; do
    train $n "$work/cut$n.$stop" --train.max_updates=$stop
    train $n "$work/cut$n.$stop" --resume --loader.threads=0
    "$bin/compare_checkpoints" "$work/straight$n/last.h5" "$work/cut$n.$stop/last.h5" ||
      fail "$n ranks, stopped after $stop updates: not the bits of the straight run"
    grep -q '"update":' "$work/cut$n.$stop/metrics.jsonl" || fail "no metrics"
  done
done

# Running again is repeatable (feature 149), and another seed is another run.
train 2 "$work/again"
"$bin/compare_checkpoints" "$work/straight2/last.h5" "$work/again/last.h5" || fail "two runs differ"
train 2 "$work/other" --train.seed=4
if "$bin/compare_checkpoints" "$work/straight2/last.h5" "$work/other/last.h5" 2>/dev/null; then fail "another seed, same bits"; fi

# A run of another length is refused, not silently bent; another network too.
expect_failure 2 "the learning rate would jump" mpirun -n 2 "$bin/unet3d" train "${small[@]}" --train.epochs=5 \
  --model.dropout=0.1 --output.dir="$work/straight2" --resume
expect_failure 2 "model.base: 4 -> 8" mpirun -n 2 "$bin/unet3d" train "${small[@]/--model.base=4/--model.base=8}" \
  --train.epochs=3 --model.dropout=0.1 --output.dir="$work/straight2" --resume

# A damaged last.h5 is told, and the one before it is used.
dd if=/dev/zero of="$work/cut2.4/last.h5" bs=1 count=64 seek=5000 conv=notrunc status=none
train 2 "$work/cut2.4" --resume
grep -q "last.prev.h5" "$work/cut2.4.log" || { cat "$work/cut2.4.log" >&2; fail "the damage was not told"; }
echo "resume: all as it should be"
