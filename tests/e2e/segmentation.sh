#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Segmentation as users do it: train, validate, evaluate, predict, resume, export, on the sample of an MRI (features 114, 115, 141, 142;
# Dice and cross-entropy of spec 2; docs/segmentation.md).
# shellcheck source=tests/e2e/common.sh
source "$(dirname "$0")/common.sh"
mri=$root/samples/mri
any=(--task=segmentation --volumes.root="$mri" --volumes.list=cases.csv --volumes.patch=48x48x48 --volumes.foreground=0.5
     --volumes.transforms.flip_x=0.5 --volumes.normalisation=global --model.base=4 --model.norm=instance --model.activation=leaky_relu --optim.lr=1e-2)
brain=(--volumes.classes="background,brain")
small=("${any[@]}" "${brain[@]}" --model.levels=2 --volumes.patches_per_volume=16 --train.epochs=3)
quiet() { "$@" 2>"$work/log" || { cat "$work/log" >&2; fail "$*"; }; }
# column NAME CASE CLASS FILE
column() {
  awk -F, -v name="$1" -v of="$2" -v class="$3" \
    'NR == 1 { for (i = 1; i <= NF; ++i) if ($i == name) c = i } $1 == of && $2 == class { print $c }' "$4"
}

# Two ranks train, 24 updates: the brain is found better than by calling every cell brain (Dice 0.63 in this box).
run=$work/run
quiet mpirun -n 2 "$bin/unet3d" train "${small[@]}" --output.dir="$run"
grep -q "task: segmentation" "$work/log" || fail "the start does not say the task"
grep -q "classes: 0 background, 1 brain" "$work/log" || fail "the start does not say the classes"
grep -q "validation loss .* Dice 0\." "$work/log" || fail "no Dice in the validation's line"
grep -q '"kind":"validation".*"dice":0\..*"dice_pooled":0\..*"dice_loss".*"cross_entropy"' "$run/metrics.jsonl" ||
  fail "the log lacks scores or parts of the loss: $(tail -2 "$run/metrics.jsonl")"
evaluate=("$bin/unet3d" evaluate --checkpoint="$run/best.h5" --part=all)
for n in 1 2 3; do
  quiet mpirun -n "$n" "${evaluate[@]}" --output="$work/e$n.csv" --json="$work/e$n.json" --pictures="$work/p$n" >"$work/table$n"
  cmp "$work/e1.csv" "$work/e$n.csv" || fail "the table differs between 1 and $n ranks"
  cmp <(grep -v '^"wall_s"' "$work/e1.json") <(grep -v '^"wall_s"' "$work/e$n.json") || fail "the JSON differs with $n ranks"
  diff -r "$work/p1" "$work/p$n" || fail "the pictures differ with $n ranks"
done
dice=$(column dice front 1 "$work/e1.csv")
awk -v d="$dice" 'BEGIN { exit !(d > 0.7) }' || { cat "$work/table1" >&2; fail "Dice $dice of the validation case, wanted above 0.7"; }
# One millimetre a side: as many mm^3 as voxels.
[ "$(column voxels front 1 "$work/e1.csv")" = "$(column volume_mm3 front 1 "$work/e1.csv")" ] || fail "volumes are not in mm^3"

# The prediction has the image's own form and cells: as the label of the image it is the network's own opinion, and Dice is 1.
quiet "$bin/unet3d" predict --checkpoint="$run/best.h5" --probabilities --output="$work/masks" "$mri/head_image.nii.gz"
ls "$work/masks/head_prediction.nii.gz" "$work/masks/head_probabilities.nii.gz" >/dev/null
mkdir "$work/own"
cp "$mri/head_image.nii.gz" "$work/own"
cp "$work/masks/head_prediction.nii.gz" "$work/own/head_label.nii.gz"
printf 'case,image,label\nhead,head_image.nii.gz,head_label.nii.gz\n' >"$work/own/cases.csv"
quiet "${evaluate[@]}" --root="$work/own" --output="$work/own.csv" >/dev/null
[ "$(column dice head 1 "$work/own.csv")" = 1 ] || { cat "$work/own.csv" >&2; fail "the prediction read back is another one"; }
for n in 1 2; do
  quiet mpirun -n "$n" "$bin/unet3d" predict --checkpoint="$run/best.h5" --output="$work/masks$n" "$mri"
  cmp "$work/masks/head_prediction.nii.gz" "$work/masks$n/head_prediction.nii.gz" || fail "predictions differ with $n ranks"
done

expect_failure 2 "--output=$work/a.png: wanted a file name in .nii.gz, .nii, .h5, .hdf5 or .nc, or a folder" "$bin/unet3d" predict \
  --checkpoint="$run/best.h5" --output="$work/a.png" "$mri/head_image.nii.gz"

# The checkpoint knows how the axes of its volumes run (RAS). Those of a mirrored header are told, by predict and evaluate.
grep -q "axes of" "$work/log" && fail "a warning for volumes that run alike: $(cat "$work/log")"
mkdir "$work/mirrored"
cp "$work/own/cases.csv" "$work/mirrored"
for file in head_image head_label; do
  gunzip -c "$work/own/$file.nii.gz" >"$work/mirrored/$file.nii"
  printf '\000\000\200\277' | dd of="$work/mirrored/$file.nii" bs=1 seek=280 conv=notrunc 2>/dev/null # srow_x[0] = -1
  gzip "$work/mirrored/$file.nii"
done
quiet "$bin/unet3d" predict --checkpoint="$run/best.h5" --output="$work/mirrored" "$work/mirrored/head_image.nii.gz"
grep -q "1 of 1 image run otherwise than those of the volumes that the network of $run/best.h5 was trained on (RAS): '$work/mirrored/head_image.nii.gz' (LAS)" \
  "$work/log" || { cat "$work/log" >&2; fail "predict does not warn of another orientation"; }
grep -q "unet3d data convert --orientation=ras turns them" "$work/log" || fail "what helps is not told"
quiet mpirun -n 2 "${evaluate[@]}" --root="$work/mirrored" --output="$work/mirrored.csv" >/dev/null
[ "$(grep -c "run otherwise than those of the volumes .* (RAS): '$work/mirrored/head_image.nii.gz' (LAS)" "$work/log")" -eq 1 ] ||
  { cat "$work/log" >&2; fail "evaluate does not warn of another orientation, once"; }

mkdir "$work/three"
for n in a b c; do cp "$work/mirrored/head_image.nii.gz" "$work/three/${n}_image.nii.gz"; done
quiet mpirun -n 2 "$bin/unet3d" predict --checkpoint="$run/best.h5" --output="$work/three" "$work/three"
[ "$(grep "run otherwise than" "$work/log" | grep -c "axes of 3 of 3 images")" -eq 1 ] ||
  { cat "$work/log" >&2; fail "predict on two ranks does not warn once of all images"; }

# A run that stops and goes on has the bits of one that does not; other settings of what is scored are refused.
quiet mpirun -n 2 "$bin/unet3d" train "${small[@]}" --output.dir="$work/half" --train.max_updates=11
quiet mpirun -n 2 "$bin/unet3d" train "${small[@]}" --output.dir="$work/half" --resume
"$bin/compare_checkpoints" "$run/last.h5" "$work/half/last.h5" >/dev/null || fail "resumed is not straight"
expect_failure 2 "segmentation.empty_class" "$bin/unet3d" train "${small[@]}" --segmentation.empty_class=one --output.dir="$run" --resume

# A class that no case has: not counted, one or zero, as segmentation.empty_class says.
for policy in skip one zero; do
  quiet "$bin/unet3d" train "${any[@]}" --volumes.classes="background,brain,tumour" --model.levels=2 --train.epochs=1 \
    --volumes.patches_per_volume=2 --segmentation.empty_class=$policy --output.dir="$work/$policy"
  quiet "$bin/unet3d" evaluate --checkpoint="$work/$policy/last.h5" --part=validation --output="$work/$policy.csv" >"$work/$policy.txt"
  predicted=$(column voxels_predicted front 2 "$work/$policy.csv") found=$(column dice front 2 "$work/$policy.csv")
  case $policy in skip) wanted=nan ;; one) wanted=1 ;; zero) wanted=0 ;; esac
  [ "$predicted" -gt 0 ] && wanted=0
  [ "$found" = "$wanted" ] || fail "empty_class=$policy: Dice $found of a class without cells, wanted $wanted ($predicted predicted)"
done

# HDF5 files with raw, label and weight in one, three classes, a split by share; predicted into HDF5 and read back as a label.
"$bin/make_volumes" "$work/balls" h5 5 >"$work/names"
balls=(--task=segmentation --volumes.root="$work/balls" --volumes.image_suffix=.h5 --volumes.label_suffix=.h5
       --volumes.weight_suffix=.h5 --volumes.classes="background,ball,box" --split.validation=0.2 --model.base=4 --model.levels=2
       --model.norm=instance --train.batch=2 --optim.lr=1e-2 --train.epochs=6)
quiet mpirun -n 2 "$bin/unet3d" train "${balls[@]}" --output.dir="$work/h5"
for n in 1 2; do
  quiet mpirun -n "$n" "$bin/unet3d" evaluate --checkpoint="$work/h5/best.h5" --part=all --output="$work/h5_$n.csv" >/dev/null
done
cmp "$work/h5_1.csv" "$work/h5_2.csv" || fail "the table of HDF5 volumes differs between 1 and 2 ranks"
quiet mpirun -n 2 "$bin/unet3d" predict --checkpoint="$work/h5/best.h5" --probabilities --output="$work/balls_out" "$work/balls"
[ "$(find "$work/balls_out" -name 'case*_prediction.h5' | wc -l)" -eq 5 ] || fail "not every HDF5 volume has a prediction"
[ "$(find "$work/balls_out" -name 'case*_probabilities.h5' | wc -l)" -eq 5 ] || fail "no probabilities"
printf 'case,image,label,weight\n' >"$work/balls_out/own.csv"
while read -r name; do
  printf '%s,%s,%s,%s\n' "$name" "$work/balls/$name.h5" "${name}_prediction.h5" "$work/balls/$name.h5"
done <"$work/names" >>"$work/balls_out/own.csv"
quiet "$bin/unet3d" train "${balls[@]}" --volumes.list="$work/balls_out/own.csv" --train.max_updates=1 --output.dir="$work/own_run"
quiet "$bin/unet3d" evaluate --checkpoint="$work/own_run/last.h5" --part=all --output="$work/own5.csv" >/dev/null
for k in 0 1 2; do
  [ "$(column voxels_predicted pooled $k "$work/h5_1.csv")" = "$(column voxels pooled $k "$work/own5.csv")" ] ||
    fail "class $k has another number of cells when it is read back from HDF5"
done

# What cannot be is refused by name, by all ranks with one message.
two=(mpirun -n 2 "$bin/unet3d" train "${small[@]}" --output.dir="$work/no")
expect_failure 2 "data.root is set, but task=segmentation does not use the table [data]" "${two[@]}" --data.root="$data"
expect_failure 2 "loss.kind is set, but task=segmentation" "${two[@]}" --loss.kind=mse
expect_failure 2 "volumes.patch is set, but task=wind" mpirun -n 2 "$bin/unet3d" train --data.root="$data" --volumes.patch=32x32x32 --output.dir="$work/no"
expect_failure 2 "volumes.root is not set" mpirun -n 2 "$bin/unet3d" train --task=segmentation --output.dir="$work/no"
expect_failure 2 "model.deep_supervision with task=segmentation" "${two[@]}" --model.deep_supervision=1
expect_failure 2 "are both 0" "${two[@]}" --segmentation.dice_weight=0 --segmentation.cross_entropy_weight=0
expect_failure 1 "head_label.nii.gz" "${two[@]}" --volumes.label_map=7:1
expect_failure 1 "too small for a network of 6 levels" mpirun -n 2 "$bin/unet3d" train "${any[@]}" "${brain[@]}" --model.levels=6 --output.dir="$work/no"
expect_failure 2 "task=wind" "$bin/unet3d" predict --checkpoint="$run/best.h5" --flips=y "$mri/head_image.nii.gz"
expect_failure 2 "task=wind" "$bin/unet3d" predict --checkpoint="$run/best.h5" --height=3 "$mri/head_image.nii.gz"
expect_failure 2 "task=wind" "$bin/unet3d" evaluate --checkpoint="$run/best.h5" --hit_threshold=1 --part=all
expect_failure 2 "task=wind" "$bin/unet3d" export --checkpoint="$run/best.h5" --physical --output="$work/a.onnx"
[ ! -e "$work/no" ] || fail "a refused run left $(find "$work/no")"

# Weights leave and come back: the same table.
quiet "$bin/unet3d" export --checkpoint="$run/best.h5" --output="$work/a.safetensors"
quiet "$bin/unet3d" import --weights="$work/a.safetensors" --output="$work/back/last.h5"
quiet "$bin/unet3d" evaluate --checkpoint="$work/back/last.h5" --part=all --output="$work/back.csv" >/dev/null
cmp "$work/e1.csv" "$work/back.csv" || fail "imported weights score otherwise"
quiet "$bin/unet3d" export --checkpoint="$run/best.h5" --output="$work/a.onnx"
quiet "$bin/unet3d" train "${small[@]}" --output.dir="$work/plan" --dry-run >"$work/plan.txt"
grep -q "task: segmentation" "$work/plan.txt" || { cat "$work/plan.txt" >&2; fail "the dry run does not say the task"; }
echo "segmentation: all as it should be"
