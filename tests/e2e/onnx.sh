#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The network as ONNX: onnxruntime gives what `unet3d predict` gives, for every kind of network, two sizes from one file, odd
# extents, a batch of 2.  Skipped (77) where $BORA_ONNX_PYTHON, else python3, has no onnxruntime.
# shellcheck source=tests/e2e/common.sh
source "$(dirname "$0")/common.sh"
unet3d=$bin/unet3d
python=${BORA_ONNX_PYTHON:-python3}
values=$root/tests/e2e/onnx_values.py
quiet() { "$@" >"$work/log" 2>&1 || { cat "$work/log" >&2; fail "$*"; }; }

# ---- what the program refuses, wherever Python is
quiet "$unet3d" train "${small[@]}" --train.max_updates=2 --output.dir="$work/run"
net=$work/run/last.h5
export=("$unet3d" export --checkpoint="$net")
quiet "${export[@]}" --output="$work/a.onnx"
(cd "$work" && quiet "${export[@]}" --format=onnx && cmp model.onnx a.onnx) || fail "--format=onnx without a name"
expect_failure 2 "exists already" "${export[@]}" --output="$work/a.onnx"
expect_failure 2 "ends as a file of onnx" "${export[@]}" --output="$work/b.onnx" --format=safetensors
expect_failure 2 "ends as a file of safetensors" "${export[@]}" --output="$work/b.safetensors" --format=onnx
expect_failure 2 "--physical is for --format=onnx" "${export[@]}" --output="$work/b.safetensors" --physical
[ "$(find "$work" -name 'b.*')" = "" ] || fail "a refused export left a file"

"$python" -B "$values" --probe || { echo "onnx: skipped: no onnxruntime (BORA_ONNX_PYTHON names a python that has it)"; exit 77; }

# ---- a network after two updates, so that no weight and no running mean is what it began with
triples=()
compare() {  # NAME, sizes, settings of train...
  local name=$1 sizes=$2
  shift 2
  quiet "$unet3d" train --data.root="$data" --split.validation=0.2 --split.test=0.65 --optim.lr=3e-3 --train.max_updates=2 \
    --output.dir="$work/$name" "$@"
  quiet "$unet3d" export --checkpoint="$work/$name/last.h5" --output="$work/$name.onnx"
  quiet "$unet3d" export --checkpoint="$work/$name/last.h5" --output="$work/$name-ms.onnx" --physical
  # shellcheck disable=SC2086  # sizes are words
  quiet "$bin/network_output" "$work/$name/last.h5" "$work/$name.safetensors" $sizes
  triples+=("$work/$name.onnx" "$work/$name.safetensors" output "$work/$name-ms.onnx" "$work/$name.safetensors" physical)
}
sizes="2x13x18x9 1x16x7x63"
tiny=(--data.shape=16x16x8 --model.base=4 --model.levels=2)
for norm in group instance batch; do
  for up in trilinear transposed; do
    compare "$norm-$up" "$sizes" "${tiny[@]}" --model.norm=$norm --model.up=$up
  done
done
compare sync_batch "$sizes" "${tiny[@]}" --model.norm=sync_batch
compare deep_average "1x9x8x10" --data.shape=16x16x8 --model.levels=3 --model.base=4 --model.deep_supervision=2 --train.ema=0.5
compare one_level "2x5x2x3" --data.shape=16x16x8 --model.levels=1 --model.base=6 --model.dropout=0.5
compare six_levels "1x64x65x67" --data.shape=64x64x64 --model.levels=6 --model.base=1 --model.up=transposed
compare angles "1x9x8x10" --data.shape=16x16x8 --model.levels=3 --model.base=2 --data.angle_channels=true --data.normalisation=none
# Weights in a file of their own, as beyond 2 GiB; as a user would, from another folder.
triples+=("$work/group-trilinear.safetensors.onnx" "$work/group-trilinear.safetensors" output)
"$python" -B "$values" "${triples[@]}" || fail "onnxruntime's values"
echo "onnx: all as it should be"
