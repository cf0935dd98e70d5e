#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# unet3d data inspect, check, stats, split as a user meets them: the same output on 1, 2 and 4 ranks, damage named, and the line of
# the pre-flight in a training's log (features 88, 89, 96, 102).
# shellcheck source=tests/e2e/common.sh
source "$(dirname "$0")/common.sh"
unet3d=$bin/unet3d
wind=wind_speed_filled/0VF20_ws_filled.nc mask=mask_buildings/0VF20_ws_building_mask.nc

# same NAME COMMAND...: prints what the command prints, the same on 1, 2 and 4 ranks but for times and threads.
same() {
  local name=$1 n
  shift
  for n in 1 2 4; do
    mpirun -n "$n" "$unet3d" data "$@" >"$work/$name.$n" 2>"$work/$name.$n.log" || { cat "$work/$name.$n.log" >&2; fail "$name on $n ranks"; }
    sed -i 's/ in [0-9.]* s by [0-9]* threads\?//' "$work/$name.$n"
    cmp -s "$work/$name.1" "$work/$name.$n" || { diff "$work/$name.1" "$work/$name.$n" >&2 || true; fail "$name: $n ranks print another text"; }
  done
  cat "$work/$name.1"
}
has() { grep -qF -- "$1" "$2" || { cat "$2" >&2; fail "'$1' is not in $2"; }; }

# A small copy, with manifest folders as they are.
mkdir -p "$work/data/wind_speed_filled" "$work/data/mask_buildings"
for c in 0VF20 0VF44 105VF54 105VF5 120VF10; do
  cp "$data/wind_speed_filled/${c}_ws_filled.nc" "$work/data/wind_speed_filled"
  cp "$data/mask_buildings/${c}_ws_building_mask.nc" "$work/data/mask_buildings"
done
set=(--data.root="$work/data" --split.test=0.2)

same inspect inspect "$work/data/$wind" "$work/data/$mask" >"$work/inspect"
has "NetCDF-4" "$work/inspect"
has "wind_speed (x 64, y 64, z 32) f32 in m s-1" "$work/inspect"
has "this looks like a wind speed in m/s" "$work/inspect"
has "2 distinct values: -1: " "$work/inspect"
has "this looks like a building mask: -1 building, 1 open" "$work/inspect"
has "no NaN" "$work/inspect"
"$unet3d" data inspect "$work/data/$wind" --variable=wind_speed --picture="$work/field.png" >"$work/out"
[ "$(head -c 4 "$work/field.png" | tail -c 3)" = PNG ] || fail "no picture"
for name in field.jpg field field.png.tif; do
  expect_failure 2 "picture '$work/$name': wanted a file name in .png" "$unet3d" data inspect "$work/data/$wind" --variable=wind_speed \
    --picture="$work/$name"
  [ ! -e "$work/$name" ] || fail "a picture in spite of its refusal: $name"
done
expect_failure 2 "picture '$work/inspect/a.png': '$work/inspect' is a file, wanted a folder" "$unet3d" data inspect "$work/data/$wind" \
  --variable=wind_speed --picture="$work/inspect/a.png"

same check check "${set[@]}" >"$work/check"
has "pre-flight: 10 files" "$work/check"
has "preflight = full: all values read, none bad" "$work/check"
has "0 problems, 5 good cases" "$work/check"

same stats stats "${set[@]}" >"$work/stats"
has "training part: 3 of 5 cases" "$work/stats"
has "suggested: data.normalisation=global: mean " "$work/stats"
# The mean is the one that training scales with.
"$unet3d" train "${set[@]}" --data.shape=32x32x32 --model.base=4 --model.levels=2 --train.max_updates=1 --output.dir="$work/run" \
  >"$work/train.log" 2>&1 || { cat "$work/train.log" >&2; fail train; }
has "pre-flight: 10 files" "$work/train.log"
mean=$(sed -n 's/.*data.normalisation=global: mean \([0-9.]*\), sigma \([0-9.]*\) m.*/\1/p' "$work/stats")
has "$mean" "$work/train.log"

same split split "${set[@]}" --csv="$work/split.csv" >"$work/split"
has "5 cases in $work/data, 5 geometries" "$work/split"
has "geometries in two parts: none" "$work/split"
[ "$(wc -l <"$work/split.csv")" -eq 6 ] || fail "the manifest has not a row for each case"
has "0VF20,data/$wind,data/$mask,20," "$work/split.csv"
# The same from where a relative path is right, into a folder that is made, also behind a link; paths are told as they were given.
mkdir -p "$work/far/away"
ln -s far/away "$work/link"
for to in deep/er/split.csv link/split.csv "$work/link/more/split.csv"; do
  (cd "$work" && "$unet3d" data split --data.root=data --split.test=0.2 --csv="$to") >"$work/relative" 2>"$work/log" ||
    { cat "$work/log" >&2; fail "split --csv=$to"; }
  has "5 cases in data, 5 geometries" "$work/relative"
  has "wrote $to" "$work/log"
  case $to in /*) file=$to ;; *) file=$work/$to ;; esac
  "$unet3d" data split --data.root="$work/data" --data.files.list="$file" >"$work/again"
  diff <(sed 1d "$work/split") <(sed 1d "$work/again") || fail "the manifest $to gives another split"
  if grep -q "$work" "$file"; then fail "$to has absolute paths: $(head -2 "$file")"; fi
done
expect_failure 2 "--csv=$work/split.txt: wanted a file name in .csv" "$unet3d" data split "${set[@]}" --csv="$work/split.txt"
expect_failure 2 "--csv=$work/split/a.csv: '$work/split' is a file, wanted a folder" "$unet3d" data split "${set[@]}" --csv="$work/split/a.csv"
(cd "$root" && "$unet3d" data split --config configs/brain.toml) >"$work/brain"
has "files in two parts: 2 (samples/mri/head_image.nii.gz, samples/mri/head_label.nii.gz)" "$work/brain"
# Read back, the manifest says the same as the split that it was written from.
"$unet3d" data split --data.root="$work/data" --data.files.list="$work/split.csv" >"$work/again"
diff <(sed 1d "$work/split") <(sed 1d "$work/again") || fail "the manifest of a split gives another split"
"$unet3d" data split --data.root="$work/data" --split.by=case --split.validation_cases=105VF5 >"$work/split"
has "geometries in two parts: none" "$work/split"

# All of one case need no split, which one case alone cannot have.
mkdir -p "$work/one/wind_speed_filled" "$work/one/mask_buildings"
cp "$work/data/$wind" "$work/one/wind_speed_filled" && cp "$work/data/$mask" "$work/one/mask_buildings"
"$unet3d" data stats --data.root="$work/one" --part=all >"$work/out"
has "all part: 1 of 1 cases in $work/one" "$work/out"
# What terminals obey is escaped.
printf 'case,image,label\nb,\033]0;x\007b_image.nii,b_label.nii\n' >"$work/one/list.csv"
"$unet3d" data check --volumes.root="$work/one" --volumes.list=list.csv >"$work/out" 2>"$work/log" && fail "a file that is not there is good"
has "there is no image '$work/one/\\x1b]0;x\\x07b_image.nii'" "$work/out"

# Damage: listed whole, exit code 1 on all ranks, in text and JSON; skipped or refused in training.
printf 'no data set' >"$work/data/$wind"
rm "$work/data/mask_buildings/0VF44_ws_building_mask.nc"
for n in 1 2; do
  for form in "" --json; do
    got=0
    # shellcheck disable=SC2086
    mpirun -n "$n" "$unet3d" data check "${set[@]}" $form >"$work/bad" 2>"$work/bad.log" || got=$?
    [ "$got" -eq 1 ] || fail "data check $form of damaged files: exit code $got"
    has "$wind" "$work/bad"
    has "has no mask '0VF44_ws_building_mask.nc'" "$work/bad"
  done
  has '"good_cases":3,"problems":2' "$work/bad"
done
expect_failure 1 "$wind" mpirun -n 2 "$unet3d" data inspect "$work/data/$wind" "$work/data/wind_speed_filled/0VF44_ws_filled.nc"
expect_failure 1 "2 problem(s) with the files in" mpirun -n 2 "$unet3d" data split "${set[@]}"
"$unet3d" data split "${set[@]}" --data.files.on_bad_files=skip >"$work/split" 2>"$work/log"
has "3 cases in" "$work/split"
has "These cases are left out" "$work/log"

# Usage.
expect_failure 2 "data: no command" "$unet3d" data
expect_failure 2 "data: unknown command 'chekc'" "$unet3d" data chekc
expect_failure 2 "data inspect: no file given" "$unet3d" data inspect
expect_failure 1 "$work/none.nc': No such file" "$unet3d" data inspect "$work/none.nc"
expect_failure 1 "is a folder, wanted a file" "$unet3d" data inspect "$work"
none=$root/tests/reference/data/no_cells.nc
"$unet3d" data inspect "$none" >"$work/none.txt" # of each field by its own
grep -q "cannot be read as a volume: '$none', variable 'building_mask': dimension 'z' has no cells" "$work/none.txt" ||
  { cat "$work/none.txt" >&2; fail "inspect does not tell an axis without cells"; }
expect_failure 1 "$none', variable 'steps': dimension 'time' has no cells" "$unet3d" data inspect "$none" --variable=steps
expect_failure 1 "has no variable 'speed'" "$unet3d" data inspect "$work/data/wind_speed_filled/0VF44_ws_filled.nc" --variable=speed
expect_failure 2 "picture: wanted one file" "$unet3d" data inspect "$work/a.nc" "$work/b.nc" --picture="$work/p.png"
expect_failure 2 "neither data.root nor volumes.root is set" "$unet3d" data check
expect_failure 1 "no case among the volumes in '$work'" "$unet3d" data check --volumes.root="$work" # the root says the task
(cd "$root" && "$unet3d" data check --volumes.root=samples/mri --volumes.list=cases.csv --volumes.classes=other,brain) >"$work/volumes"
has "0 problems, 2 good cases" "$work/volumes"
expect_failure 2 "level" "$unet3d" data check "${set[@]}" --level=some
expect_failure 2 "part" "$unet3d" data stats "${set[@]}" --part=none
expect_failure 1 "$work/nowhere" "$unet3d" data check --data.root="$work/nowhere"
expect_failure 2 "data.files.range wants two numbers" "$unet3d" data check "${set[@]}" --data.files.range=5
for c in "" inspect check stats split; do
  # shellcheck disable=SC2086
  "$unet3d" data $c --help | grep "unet3d data" >/dev/null || fail "no help: $c"
done
echo "data: all as it should be"
