#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What a run may have, all at once: an average of the weights, deep supervision, dropout, f16 with skipped updates, a global batch with
# reproducible sums, other ranks after each stop, a longer run by train.extend: the bits of the straight run, and checkpoints that
# evaluate, predict and export read (features 108, 111, 129, 141, 142, 183).
# shellcheck source=tests/e2e/common.sh
source "$(dirname "$0")/common.sh"
export OMP_NUM_THREADS=1  # bits depend on the threads of a rank

# The scale grows beyond what f16 holds again and again: updates are skipped at many places.
all=("${small[@]}" --train.global_batch=4 --comm.all_reduce=reproducible --train.ema=0.9 --model.deep_supervision=1 --model.dropout=0.1
     --precision=fp16 --scaler.initial=67108864 --scaler.highest=1073741824 --scaler.growth=16 --scaler.interval=2
     --output.log_every=1)

train() {  # train RANKS DIR ARGS...
  local n=$1 dir=$2
  shift 2
  mpirun -n "$n" "$bin/unet3d" train "${all[@]}" --output.dir="$dir" "$@" >"$dir.log" 2>&1 || { cat "$dir.log" >&2; fail "train $n $dir $*"; }
}
same() { "$bin/compare_checkpoints" "$1" "$2" training.world_size >/dev/null || fail "$2 has not the bits of $1"; }
skipped() { grep -c '"kind":"skipped"' "$1/metrics.jsonl"; }

train 1 "$work/straight" --train.epochs=8
[ "$(skipped "$work/straight")" -ge 3 ] || fail "only $(skipped "$work/straight") skipped updates: this test shows less than it should"

# On 4 ranks, then 2, then 1; the stops fall inside epochs.
train 4 "$work/moved" --train.epochs=8 --train.max_updates=1
train 2 "$work/moved" --train.epochs=8 --train.max_updates=5 --resume
train 1 "$work/moved" --train.epochs=8 --resume
for f in last.h5 best.h5; do same "$work/straight/$f" "$work/moved/$f"; done
[ "$(skipped "$work/straight")" -eq "$(skipped "$work/moved")" ] || fail "other updates are skipped"

# A longer run: the average goes on, whatever the ranks.
for n in 1 2; do
  cp -r "$work/straight" "$work/longer$n"
  train "$n" "$work/longer$n" --train.epochs=10 --train.extend=stretch --resume
  if grep -q "has no average" "$work/longer$n.log"; then fail "stretch: the average begins anew"; fi
done
same "$work/longer1/last.h5" "$work/longer2/last.h5"

export_weights() {  # export_weights CHECKPOINT WEIGHTS FILE
  "$bin/unet3d" export --checkpoint="$1" --weights="$2" --output="$3" >"$work/out" 2>&1 || { cat "$work/out" >&2; fail "export $2"; }
}

# Which weights a command takes: the average and the model differ, and come back from a file as they left.
net=$work/straight/best.h5
export_weights "$net" ema "$work/ema.safetensors"
export_weights "$net" model "$work/model.safetensors"
export_weights "$net" auto "$work/auto.safetensors"
cmp -s "$work/ema.safetensors" "$work/auto.safetensors" || fail "auto is not the average"
if cmp -s "$work/ema.safetensors" "$work/model.safetensors"; then fail "the average is the model"; fi
"$bin/unet3d" export --checkpoint="$net" --output="$work/net.onnx" >"$work/out" 2>&1 || { cat "$work/out" >&2; fail "export as ONNX"; }
"$bin/unet3d" import --weights="$work/ema.safetensors" --output="$work/back.h5" >"$work/out" 2>&1 || { cat "$work/out" >&2; fail "import"; }
score() {  # score CHECKPOINT RANKS ARGS...: pooled numbers
  local file=$1 n=$2
  shift 2
  mpirun -n "$n" "$bin/unet3d" evaluate --checkpoint="$file" --part=validation --window=centred --output="$work/scores.csv" "$@" >"$work/out" 2>&1 ||
    { cat "$work/out" >&2; fail "evaluate $file"; }
  grep '^pooled,unet3d' "$work/scores.csv"
}
[ "$(score "$net" 1)" = "$(score "$work/back.h5" 1)" ] || fail "the average has other scores after export and import"
[ "$(score "$net" 1)" = "$(score "$net" 2)" ] || fail "other scores on 2 ranks"
[ "$(score "$net" 1)" != "$(score "$net" 1 --weights=model)" ] || fail "--weights=model has the scores of the average"
mask=$(find "$data/mask_buildings" -name '285VF2_*')
"$bin/unet3d" predict --checkpoint="$net" --window=centred --output="$work/p.nc" "$mask" >"$work/out" 2>&1 || { cat "$work/out" >&2; fail "predict"; }
[ -s "$work/p.nc" ] || fail "no prediction"
echo "together: all as it should be ($(skipped "$work/straight") updates skipped)"
