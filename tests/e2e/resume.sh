#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Stopped and resumed gives the same bits as the straight run (feature 141): stopped inside an epoch and between epochs, with 1 and
# 2 ranks, for any number of loader threads (feature 75). Longer runs (143), other ranks (142), divergence (184).
# shellcheck source=tests/e2e/common.sh
source "$(dirname "$0")/common.sh"

train() {  # train RANKS DIR ARGS...
  local n=$1 dir=$2
  shift 2
  mpirun -n "$n" "$bin/unet3d" train "${small[@]}" --train.epochs="${epochs:-3}" --model.dropout=0.1 --output.dir="$dir" "$@" >"$dir.log" 2>&1 ||
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

# More epochs want a word on the learning rate (feature 143): `hold` keeps the last rate, `stretch` is the longer run's own curve from
# there on, `restart` begins a new one over the updates left.  A run of 3 epochs has T updates here.
expect_failure 2 "--train.extend=hold, stretch or restart" mpirun -n 1 "$bin/unet3d" train "${small[@]}" --train.epochs=6 \
  --model.dropout=0.1 --output.dir="$work/straight1" --resume
rates() { sed -n 's/.*"kind":"train","update":\([0-9]*\),.*"lr":\([0-9.e+-]*\),.*/\1 \2/p' "$1/metrics.jsonl"; }
train 1 "$work/short" --output.log_every=1 --train.patience=0
T=$(rates "$work/short" | wc -l)
[ "$T" -ge 6 ] || fail "no rates in the log"
for rule in hold stretch restart; do
  cp -r "$work/short" "$work/$rule"
  epochs=6 train 1 "$work/$rule" --output.log_every=1 --train.patience=0 --train.extend=$rule --resume
  [ "$(rates "$work/$rule" | wc -l)" -eq $((2 * T)) ] || fail "$rule: not $((2 * T)) updates"
  rates "$work/$rule" | tail -n "$T" | cut -d' ' -f2 >"$work/$rule.rates"
  # Stopped inside the longer part, the rule is the run's own: it needs no second word and gives the same bits.
  cp -r "$work/short" "$work/$rule.cut"
  epochs=6 train 1 "$work/$rule.cut" --train.patience=0 --train.extend=$rule --resume --train.max_updates=$((T + 3))
  epochs=6 train 1 "$work/$rule.cut" --train.patience=0 --resume
  "$bin/compare_checkpoints" "$work/$rule/last.h5" "$work/$rule.cut/last.h5" || fail "$rule, cut: not the bits of the uncut run"
done
last=$(rates "$work/short" | tail -n 1 | cut -d' ' -f2)
[ "$(sort -u "$work/hold.rates")" = "$last" ] || fail "hold: not the last rate, $last: $(cat "$work/hold.rates")"
rates "$work/short" | cut -d' ' -f2 | cmp - "$work/restart.rates" || fail "restart: not the same curve again"
epochs=6 train 1 "$work/long" --output.log_every=1 --train.patience=0
rates "$work/long" | tail -n "$T" | cut -d' ' -f2 | cmp - "$work/stretch.rates" || fail "stretch: not the long run's curve"

# The same command line on another number of ranks: train.global_batch keeps the samples of an update (feature 142). Without it the
# change is refused, and the way out named.
train 2 "$work/global" --train.max_updates=3 --train.global_batch=4
train 1 "$work/global" --train.global_batch=4 --resume
grep -q "effective batch 4" "$work/global.log" || fail "the global batch is not kept"
train 2 "$work/changed" --train.max_updates=3
expect_failure 2 "--train.global_batch=2" "$bin/unet3d" train "${small[@]}" --train.epochs=3 --model.dropout=0.1 \
  --output.dir="$work/changed" --resume
expect_failure 2 "can be shared by 1, 2, 4 ranks" mpirun -n 3 "$bin/unet3d" train "${small[@]}" --train.global_batch=4 --output.dir="$work/no"

# The linear rule counts the ranks that the run began with: gone on with on fewer ranks and as large a batch, it keeps its rates
# (feature 142).
linear=(--optim.scale_lr=linear --output.log_every=1 --train.patience=0)
train 2 "$work/linear" "${linear[@]}"
train 2 "$work/fewer" "${linear[@]}" --train.max_updates=5
train 1 "$work/fewer" "${linear[@]}" --train.accumulate=2 --resume
diff <(rates "$work/linear") <(rates "$work/fewer") >&2 || fail "other learning rates on fewer ranks"

# A run that diverges ends with the last good checkpoint, from which it goes on (feature 184).
train 1 "$work/diverged" --train.max_updates=4
cp "$work/diverged/last.h5" "$work/good.h5"
expect_failure 1 "gradient values are NaN or inf" "$bin/unet3d" train "${small[@]/--optim.lr=3e-3/--optim.lr=1e30}" --train.epochs=3 \
  --model.dropout=0.1 --output.dir="$work/diverged" --resume
grep -q "Resume from the last checkpoint" "$work/out" || { cat "$work/out" >&2; fail "no word on what to do"; }
# Without one the advice is another.
expect_failure 1 "No checkpoint was written yet" "$bin/unet3d" train "${small[@]/--optim.lr=3e-3/--optim.lr=1e30}" --train.epochs=3 \
  --output.dir="$work/lost"
cmp "$work/good.h5" "$work/diverged/last.h5" || fail "the last good checkpoint is gone"
train 1 "$work/diverged" --resume
"$bin/compare_checkpoints" "$work/straight1/last.h5" "$work/diverged/last.h5" || fail "not the bits of the run that did not diverge"

# A damaged last.h5 is told, and the one before it is used.
dd if=/dev/zero of="$work/cut2.4/last.h5" bs=1 count=64 seek=5000 conv=notrunc status=none
train 2 "$work/cut2.4" --resume
grep -q "last.prev.h5" "$work/cut2.4.log" || { cat "$work/cut2.4.log" >&2; fail "the damage was not told"; }
echo "resume: all as it should be"
