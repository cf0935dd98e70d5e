#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Weights out to safetensors and back (features 144, 145, 177); with PyTorch, where there is one, also through it.
# shellcheck source=tests/e2e/common.sh
source "$(dirname "$0")/common.sh"
unet3d=$bin/unet3d
mask=$(find "$data/mask_buildings" -name '285VF2_*')
quiet() { "$@" >"$work/log" 2>&1 || { cat "$work/log" >&2; fail "$*"; }; }

# A run that stays where it starts, and one with a rate from the same start.
quiet "$unet3d" train "${small[@]/--optim.lr=3e-3/--optim.lr=0}" --train.epochs=1 --output.dir="$work/still"
quiet "$unet3d" train "${small[@]}" --train.epochs=2 --train.max_updates=3 --output.dir="$work/run"
quiet "$unet3d" export --checkpoint="$work/still/last.h5" --output="$work/start.safetensors"
quiet "$unet3d" export --checkpoint="$work/run/last.h5" --output="$work/w.safetensors"
expect_failure 2 "exists already" "$unet3d" export --checkpoint="$work/run/last.h5" --output="$work/w.safetensors"
expect_failure 2 "wanted a name in .safetensors or .onnx" "$unet3d" export --checkpoint="$work/run/last.h5" --output="$work/w.weights"
expect_failure 2 "is the checkpoint itself" "$unet3d" export --checkpoint="$work/run/last.h5" --output="$work/run/last.h5" --overwrite

# There and back: the same tensors, with the settings of the file itself, of a checkpoint, and of a TOML file and its data.
for like in "" "$work/run/last.h5" "$work/run/config.toml"; do
  quiet "$unet3d" import --weights="$work/w.safetensors" --like="$like" --output="$work/back.h5" --overwrite
  quiet "$unet3d" export --checkpoint="$work/back.h5" --output="$work/again.safetensors" --overwrite
  # The count of updates made is the one thing that is not kept.
  cmp <(LC_ALL=C sed 's/"bora.updates":"3"/"bora.updates":"0"/' "$work/w.safetensors") "$work/again.safetensors" ||
    fail "export, import, export gives another file with --like=$like"
done

# The average of the weights goes out where there is one; heads that only training uses stay, and a run that begins with
# imported weights makes them anew.
deep=(--model.deep_supervision=1 --train.ema=0.5)
quiet "$unet3d" train "${small[@]}" "${deep[@]}" --train.epochs=2 --train.max_updates=3 --output.dir="$work/deep"
quiet "$unet3d" export --checkpoint="$work/deep/last.h5" --output="$work/average.safetensors"
grep -q "the average of the weights" "$work/log" || fail "export does not say that it wrote the average"
quiet "$unet3d" export --checkpoint="$work/deep/last.h5" --weights=model --output="$work/plain.safetensors"
for name in average plain; do
  grep -qa '"encoder0.conv1.weight"' "$work/$name.safetensors" || fail "$name.safetensors has no weights"
  ! grep -qa 'deep_head' "$work/$name.safetensors" || fail "$name.safetensors has heads that only training uses"
done
tail -c 20000 "$work/average.safetensors" >"$work/a" && tail -c 20000 "$work/plain.safetensors" >"$work/b"
! cmp -s "$work/a" "$work/b" || fail "--weights=model gives the average"
expect_failure 1 "has no average of the weights" "$unet3d" export --checkpoint="$work/run/last.h5" --weights=ema --output="$work/none.safetensors"
quiet "$unet3d" import --weights="$work/average.safetensors" --output="$work/deeper/last.h5"
grep -q "the heads of model.deep_supervision, .* made anew" "$work/log" || fail "import does not say which parameters are new"
quiet "$unet3d" train --config "$work/deep/config.toml" --output.dir="$work/deeper" --resume

# An imported start is the start of a run: training goes the way of the run that began there, bit for bit.
quiet "$unet3d" import --weights="$work/start.safetensors" --like="$work/run/config.toml" --output="$work/imported/last.h5"
quiet "$unet3d" train --config "$work/run/config.toml" --output.dir="$work/imported" --resume
"$bin/compare_checkpoints" "$work/run/last.h5" "$work/imported/last.h5" || fail "training from imported weights"

# Faults.
head -c 40000 "$work/w.safetensors" >"$work/short.safetensors"
import=("$unet3d" import --output="$work/none.h5")
expect_failure 2 "--weights" "${import[@]}"
expect_failure 1 "$work/none.safetensors" "${import[@]}" --weights="$work/none.safetensors"
expect_failure 1 "short.safetensors" "${import[@]}" --weights="$work/short.safetensors"
expect_failure 1 "run/last.h5" "${import[@]}" --weights="$work/run/last.h5"
expect_failure 2 "exists already" "$unet3d" import --weights="$work/w.safetensors" --output="$work/run/last.h5"
expect_failure 2 "does not say" "${import[@]}" --weights="$root/tests/reference/data/torch_group.safetensors"
sed 's/base = 4/base = 8/' "$work/run/config.toml" >"$work/other.toml"
expect_failure 2 "model.base: 4 in" mpirun -n 2 "${import[@]}" --weights="$work/w.safetensors" --like="$work/other.toml"
[ ! -e "$work/none.h5" ] || fail "a refused import left a file"

# PyTorch's weights of the reference are a network of these settings.
quiet "$unet3d" import --weights="$root/tests/reference/data/torch_group.safetensors" --like="$work/run/last.h5" --output="$work/torch.h5"
quiet "$unet3d" predict --checkpoint="$work/torch.h5" --output="$work/torch.nc" "$mask"

python=${BORA_TORCH_PYTHON:-python3}
if ! "$python" -c 'import torch, numpy' 2>/dev/null; then
  echo "exchange: all as it should be; no PyTorch in $python, so the page's script did not run (BORA_TORCH_PYTHON names another)"
  exit 0
fi
# Every kind of network gives PyTorch's output, and its weights come back through PyTorch with their bits.
triples=()
for norm in group instance batch sync_batch; do
  for up in trilinear transposed; do
    name=$norm-$up
    quiet "$unet3d" train "${small[@]/--data.shape=32x32x16/--data.shape=16x16x8}" --train.max_updates=2 --output.dir="$work/$name" \
      --model.norm=$norm --model.up=$up
    quiet "$unet3d" export --checkpoint="$work/$name/last.h5" --output="$work/$name.safetensors"
    quiet "$bin/network_output" "$work/$name/last.h5" "$work/$name.values" 2x13x18x9 1x16x7x23
    triples+=("$work/$name.safetensors" "$work/$name.values" "$work/$name.torch")
  done
done
"$python" -B "$root/tests/e2e/torch_values.py" "${triples[@]}" || fail "PyTorch's output"
for ((i = 0; i < ${#triples[@]}; i += 3)); do
  quiet "$unet3d" import --weights="${triples[i + 2]}" --output="$work/back.h5" --overwrite
  quiet "$unet3d" export --checkpoint="$work/back.h5" --output="$work/again.safetensors" --overwrite
  cmp <(LC_ALL=C sed 's/"bora.updates":"2"/"bora.updates":"0"/' "${triples[i]}") "$work/again.safetensors" ||
    fail "${triples[i]} through PyTorch and back"
done
if ! "$python" -c 'import h5py' 2>/dev/null; then
  echo "exchange: all as it should be, through PyTorch too; no h5py, so the page's program did not run"
  exit 0
fi
quiet "$unet3d" predict --checkpoint="$work/run/last.h5" --output="$work/p.nc" "$mask"
"$python" -B "$root/docs/torch_unet3d.py" "$work/w.safetensors" "$mask" --compare "$work/p.nc" --save "$work/torch.safetensors" ||
  fail "PyTorch's prediction"
quiet "$unet3d" import --weights="$work/torch.safetensors" --output="$work/back.h5" --overwrite
quiet "$unet3d" export --checkpoint="$work/back.h5" --output="$work/again.safetensors" --overwrite
cmp <(LC_ALL=C sed 's/"bora.updates":"3"/"bora.updates":"0"/' "$work/w.safetensors") "$work/again.safetensors" ||
  fail "through the page's program and back"
echo "exchange: all as it should be, through PyTorch too"
