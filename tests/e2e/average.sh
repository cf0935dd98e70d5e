#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# An average of the weights (train.ema) and deep supervision as a user meets them: resumed with the same bits, the same on any number
# of ranks, switched on and off, named in the log (features 108, 111, 135, 141, 183).
# shellcheck source=tests/e2e/common.sh
source "$(dirname "$0")/common.sh"
export OMP_NUM_THREADS=1  # bits depend on the threads of a rank

deep=("${small[@]/--model.levels=2/--model.levels=3}")

train() {  # train RANKS DIR ARGS...
  local n=$1 dir=$2
  shift 2
  mpirun -n "$n" "$bin/unet3d" train "${deep[@]}" --train.epochs=2 --output.log_every=1 --output.dir="$dir" "$@" \
    >"$dir.log" 2>&1 || { cat "$dir.log" >&2; fail "train $n $dir $*"; }
}
both=(--train.ema=0.9 --model.deep_supervision=2)

# Stopped inside an epoch and gone on with: the straight run's bits, with recomputation and in 16 bits too.
for more in "" "--precision=bf16 --model.recompute"; do
  rm -rf "$work/straight" "$work/cut"
  # shellcheck disable=SC2086
  train 1 "$work/straight" "${both[@]}" $more
  # shellcheck disable=SC2086
  train 1 "$work/cut" "${both[@]}" $more --train.max_updates=5
  # shellcheck disable=SC2086
  train 1 "$work/cut" "${both[@]}" $more --resume
  "$bin/compare_checkpoints" "$work/straight/last.h5" "$work/cut/last.h5" || fail "resumed ($more): not the bits of the straight run"
done

# The global batch of 4 samples on 1 and on 2 ranks.
train 1 "$work/one" "${both[@]}" --train.accumulate=4 --comm.all_reduce=reproducible
train 2 "$work/two" "${both[@]}" --train.accumulate=2 --comm.all_reduce=reproducible
"$bin/compare_checkpoints" "$work/one/last.h5" "$work/two/last.h5" training.world_size || fail "2 ranks: not the bits of one"
grep -q "ema: weights averaged with decay 0.9; validation and best.h5 go by the average" "$work/two.log" || fail "the average is not announced"
grep -q "validation loss of the average" "$work/two.log" || fail "the log does not say what is validated"
grep '"kind":"train"' "$work/two/metrics.jsonl" | grep -q '"charbonnier_level2":' || fail "the parts of the loss are not logged"
if grep '"kind":"validation"' "$work/two/metrics.jsonl" | grep -q "_level"; then fail "validation has losses of other levels"; fi

# Switched on and off on the way.
train 1 "$work/later" --train.max_updates=5
train 1 "$work/later" --train.ema=0.9 --train.max_updates=6 --resume
grep -q "the checkpoint has no average of the weights: it begins with those after 5 updates" "$work/later.log" || fail "not told: on"
train 1 "$work/later" --train.ema=0.9 --train.max_updates=7 --resume
if grep -q "average of the weights:" "$work/later.log"; then fail "begins anew though the file has one"; fi
train 1 "$work/later" --resume
grep -q "train.ema is off: the checkpoint's average of the weights is dropped" "$work/later.log" || fail "not told: off"
grep -q "validation loss 0" "$work/later.log" || fail "no validation of the weights themselves"

expect_failure 2 "model.deep_supervision 3: wanted 0 to 2" "$bin/unet3d" train "${deep[@]}" --model.deep_supervision=3 \
  --output.dir="$work/no"
echo "average: all as it should be"
