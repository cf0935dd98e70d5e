#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Data as people have them: a folder for each patient whose files are all called alike, spaces and accents in names, a manifest out of a
# spreadsheet (byte order mark, CRLF, blank lines, quotes); through every command (features 71, 88, 114).
# shellcheck source=tests/e2e/common.sh
source "$(dirname "$0")/common.sh"
unet3d=$bin/unet3d
quiet() { "$@" >"$work/log" 2>&1 || { cat "$work/log" >&2; fail "$*"; }; }
has() { grep -qF -- "$1" "$work/log" || { cat "$work/log" >&2; fail "'$1' is not told"; }; }

"$bin/make_volumes" "$work/flat" nii.gz 4 >/dev/null
for i in 1 2 3 4; do
  folder="$work/data/patient $i/día"
  mkdir -p "$folder"
  cp "$work/flat/case${i}_image.nii.gz" "$folder/_image.nii.gz"
  cp "$work/flat/case${i}_label.nii.gz" "$folder/_label.nii.gz"
done
few=(--task=segmentation --volumes.classes="background,ball,box" --volumes.patch=16x16x16 --model.base=4 --model.levels=1 --train.epochs=1
     --train.patience=0)
quiet mpirun -n 2 "$unet3d" train "${few[@]}" --volumes.root="$work/data" --split.validation=0.25 --volumes.cache.kind=ram --output.dir="$work/run"
[ "$(grep -c 'volumes.cache: ram' "$work/log")" -eq 1 ] || { cat "$work/log" >&2; fail "the cache is not told once"; }
quiet mpirun -n 2 "$unet3d" evaluate --checkpoint="$work/run/last.h5" --part=all --output="$work/e.csv" --pictures="$work/pictures"
grep -q "^patient 3/día,1," "$work/e.csv" || fail "no row of 'patient 3/día'"
[ "$(find "$work/pictures" -path '*patient ?/día.png' | wc -l)" -ge 2 ] || fail "no pictures of cases in folders"
# Of a folder each case is predicted, as each was trained on: here four of one name, which is told, one by one it goes.
expect_failure 2 "would write the same file" "$unet3d" predict --checkpoint="$work/run/last.h5" --output="$work/all" "$work/data"
for i in 1 2; do
  quiet "$unet3d" predict --checkpoint="$work/run/last.h5" --output="$work/of$i" "$work/data/patient $i"
  [ -f "$work/of$i/día_prediction.nii.gz" ] || fail "no prediction of patient $i"
done
quiet "$unet3d" data convert --task=segmentation --volumes.root="$work/data" --volumes.classes="background,ball,box" --to="$work/converted" \
  --codec=none --patch=16x16x16
[ "$(find "$work/converted" -path '*patient ?/día.h5' | wc -l)" -eq 4 ] || fail "not all cases are converted"

# The manifest of a spreadsheet.
printf '\xef\xbb\xbfcase,image,label,sample_weight,part\r\n\r\n"one, first",../data/patient 1/día/_image.nii.gz,"../data/patient 1/día/_label.nii.gz",1,training\r\n  \r\n"the ""second""" ,  ../data/patient 2/día/_image.nii.gz  ,,3,training\r\nthird,../data/patient 3/día/_image.nii.gz,,,validation' >"$work/flat/cases.csv"
quiet "$unet3d" data split "${few[@]}" --volumes.root="$work/flat" --volumes.list=cases.csv
has 'one, first'
has 'the "second"'
[ "$(grep -c '^training .*\(one, first\|the "second"\)$' "$work/log")" -eq 2 ] || { cat "$work/log" >&2; fail "other cases train"; }
# A weighted epoch is the same on 1, 2 and 4 ranks, and goes on on another number.
weighted=("${few[@]/epochs=1/epochs=2}" --volumes.root="$work/flat" --volumes.list=cases.csv --train.sampling=weighted
          --volumes.patches_per_volume=6 --train.global_batch=4)
losses() { sed -n 's/.*"kind":"validation".*"loss":\([0-9.]*\).*/\1/p' "$1/metrics.jsonl"; }
for n in 1 2 4; do
  quiet mpirun -n "$n" "$unet3d" train "${weighted[@]}" --output.dir="$work/w$n"
  quiet mpirun -n 2 "$unet3d" train "${weighted[@]}" --train.max_updates=2 --output.dir="$work/half$n"
  quiet mpirun -n "$n" "$unet3d" train "${weighted[@]}" --resume --output.dir="$work/half$n"
  has "2 of 6 updates done, epoch 0, 8 samples into it"
  # Sums over ranks round otherwise.
  for run in "w$n" "half$n"; do
    paste <(losses "$work/w1") <(losses "$work/$run") | awk '{ d = $1 - $2; if (d < 0) d = -d; bad += !($1 > 0 && d < 1e-4) } END { exit NR != 2 || bad }' ||
      { paste <(losses "$work/w1") <(losses "$work/$run") >&2; fail "$run: other losses than one rank"; }
  done
done
echo "odd data: all as it should be"
