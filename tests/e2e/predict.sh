#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Predict and evaluate as users do: folders, windows, bad files, earlier outputs, tables and pictures (features 18, 113-116).
# shellcheck source=tests/e2e/common.sh
source "$(dirname "$0")/common.sh"
run=$work/run

mpirun -n 2 "$bin/unet3d" train "${small[@]}" --train.epochs=1 --data.augment.flip_y --output.dir="$run" 2>"$work/log" ||
  { cat "$work/log" >&2; fail "training"; }
mkdir -p "$work/masks/deeper"
cp "$data"/mask_buildings/0VF*.nc "$work/masks"
cp "$data"/mask_buildings/28*.nc "$work/masks/deeper"
n_masks=$(find "$work/masks" -name '*.nc' | wc -l)
predict=("$bin/unet3d" predict --checkpoint="$run/best.h5")
quiet() { "$@" 2>"$work/log" || { cat "$work/log" >&2; fail "$*"; }; }

# A folder, also what lies deeper, by windows since the run was trained on such: the same files for any number of ranks, also
# with more ranks than masks; nothing but predictions.
for n in 1 2 8; do quiet mpirun -n "$n" "${predict[@]}" --output="$work/fields/$n" "$work/masks"; done
[ "$(find "$work/fields/1" -type f -name '*_prediction.nc' | wc -l)" -eq "$n_masks" ] || fail "not every mask has a prediction"
[ "$(find "$work/fields/1" -type f | wc -l)" -eq "$n_masks" ] || fail "more than predictions: $(ls "$work/fields/1")"
for n in 2 8; do diff -r "$work/fields/1" "$work/fields/$n" || fail "predictions differ between 1 and $n ranks"; done
grep -q "9 windows of 32x32x16, overlap 0.5, .*trained on windows of 32x32x16" "$work/log" || fail "the windows are not told"
# Other windows, mirror images and precisions give other fields; --mirror is --flips=y.
one=("${predict[@]}" "$work/masks/0VF20_ws_building_mask.nc")
i=0
for how in --window=auto --window=whole --window=48x48x0 --overlap=0.25 --flips=y --precision=bf16 --precision=fp16 --window=centred; do
  quiet "${one[@]}" $how --output="$work/how$((i += 1)).nc"
  for ((j = 1; j < i; ++j)); do
    if cmp -s "$work/how$j.nc" "$work/how$i.nc"; then fail "$how changes nothing"; fi
  done
done
quiet "${one[@]}" --mirror --output="$work/mirror.nc"
cmp "$work/mirror.nc" "$work/how5.nc" || fail "--mirror is not --flips=y"

# What was made before: replaced, left alone or refused.
quiet "${predict[@]}" --existing=skip --output="$work/fields/1" "$work/masks"
grep -q "$n_masks of $n_masks masks have a prediction already" "$work/log" || fail "--existing=skip"
expect_failure 2 "0VF20_prediction.nc' exists" "${predict[@]}" --existing=refuse --output="$work/fields/1" "$work/masks"
echo "not a field" >"$work/fields/1/0VF20_prediction.nc"
quiet "${predict[@]}" --output="$work/fields/1" "$work/masks"
diff -r "$work/fields/1" "$work/fields/2" || fail "an earlier output is not replaced"

# What cannot be is refused before anything is written, by all ranks with one message.
mkdir "$work/none"
two=(mpirun -n 2 "${predict[@]}" --output="$work/no")
expect_failure 2 "no mask in folder '$work/none': wanted files called <case>_ws_building_mask.nc" "${two[@]}" "$work/none"
expect_failure 2 "would write the same file" "${two[@]}" "$work/masks" "$work/masks/0VF20_ws_building_mask.nc"
expect_failure 2 "would replace the input" "${predict[@]}" --output="$work/masks/0VF20_ws_building_mask.nc" \
  "$work/masks/0VF20_ws_building_mask.nc"
expect_failure 2 "one file for" mpirun -n 2 "${predict[@]}" --output="$work/no/a.nc" "$work/masks"
expect_failure 2 "the wind blows along +x in every file" "${two[@]}" --flips=x "$work/masks"
expect_failure 2 "16 levels from the ground up" "${two[@]}" --window=32x32x8 "$work/masks"
expect_failure 2 "three extents like 64x64x0" "${two[@]}" --window=32 "$work/masks"
expect_failure 1 "without train.ema" "${two[@]}" --weights=ema "$work/masks"
touch "$work/file"
expect_failure 2 "--output=$work/no.h5: wanted a file name in .nc, or a folder" mpirun -n 2 "${predict[@]}" --output="$work/no.h5" "$work/masks"
expect_failure 2 "--output=$work/file/a: '$work/file' is a file, wanted a folder" mpirun -n 2 "${predict[@]}" --output="$work/file/a" "$work/masks"
expect_failure 2 "--output=$work/file/a.nc: '$work/file' is a file, wanted a folder" "${predict[@]}" --output="$work/file/a.nc" \
  "$work/masks/0VF20_ws_building_mask.nc"
expect_failure 2 "--picture=$work/a.jpg: wanted a file name in .png" "${predict[@]}" --output="$work/no" --picture="$work/a.jpg" \
  --truth="$data/wind_speed_filled/0VF20_ws_filled.nc" "$work/masks/0VF20_ws_building_mask.nc"
score=(mpirun -n 2 "$bin/unet3d" evaluate --checkpoint="$run/best.h5" --part=validation)
expect_failure 2 "--output=$work/no.txt: wanted a file name in .csv or .json" "${score[@]}" --output="$work/no.txt"
expect_failure 2 "--json=$work/no.csv: wanted a file name in .json" "${score[@]}" --output="$work/no.csv" --json="$work/no.csv"
expect_failure 2 "--output=$work/file/a.csv: '$work/file' is a file, wanted a folder" "${score[@]}" --output="$work/file/a.csv"
expect_failure 2 "--pictures=$work/no.png: wanted a folder; the pictures there are PNG files" "${score[@]}" --output="$work/no.csv" \
  --pictures="$work/no.png"
expect_failure 2 "--pictures=$work/file: '$work/file' is a file, wanted a folder" "${score[@]}" --output="$work/no.csv" --pictures="$work/file"
[ -z "$(find "$work" -maxdepth 1 -name 'no*' ! -name none)" ] || fail "something was written: $(find "$work" -name 'no*')"

# A bad mask: nothing is predicted, or the others are, and the exit code tells either way.
head -c 3000 "$work/masks/0VF20_ws_building_mask.nc" >"$work/masks/cut_ws_building_mask.nc"
expect_failure 1 "cut_ws_building_mask.nc" "${two[@]}" "$work/masks"
[ ! -e "$work/no" ] || fail "predictions in spite of a bad mask"
expect_failure 1 "no prediction for 1 of $((n_masks + 1)) masks" "${two[@]}" --on_bad_files=skip "$work/masks"
diff -r "$work/no" "$work/fields/2" || fail "--on_bad_files=skip does not predict the others"
# One whose fault is in its values, which are read later: the others are stopped, or go on.
rm -r "$work/masks/cut_ws_building_mask.nc" "$work/no"
cp "$work/masks/0VF20_ws_building_mask.nc" "$work/masks/torn_ws_building_mask.nc"
printf 'XXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXX' | dd of="$work/masks/torn_ws_building_mask.nc" bs=1 seek=6000 conv=notrunc 2>/dev/null
expect_failure 1 "torn_ws_building_mask.nc" "${two[@]}" "$work/masks"
expect_failure 1 "no prediction for 1 of $((n_masks + 1)) masks" "${two[@]}" --on_bad_files=skip "$work/masks"
grep -q "torn_ws_building_mask.nc.*chunk at" "$work/out" || { cat "$work/out" >&2; fail "the reason is not told"; }
diff -r "$work/no" "$work/fields/2" || fail "--on_bad_files=skip does not predict the others, or leaves something behind"

# Evaluation: windows by default, since the run was trained on such; tables and pictures, the same for any number of ranks, also
# more than there are cases.
mkdir -p "$work/six/wind_speed_filled" "$work/six/mask_buildings"
for name in 0VF20 0VF44 0VF83 285VF2 105VF54 15VF1; do
  cp "$data/wind_speed_filled/${name}_ws_filled.nc" "$work/six/wind_speed_filled"
  cp "$data/mask_buildings/${name}_ws_building_mask.nc" "$work/six/mask_buildings"
done
evaluate=("$bin/unet3d" evaluate --checkpoint="$run/best.h5" --root="$work/six" --part=all)
for n in 1 2 8; do
  quiet mpirun -n "$n" "${evaluate[@]}" --output="$work/e$n.csv" --json="$work/e$n.json" --pictures="$work/pictures$n" >"$work/table$n"
  cmp "$work/e1.csv" "$work/e$n.csv" || fail "the table differs between 1 and $n ranks"
  cmp <(grep -v '^"wall_s"' "$work/e1.json") <(grep -v '^"wall_s"' "$work/e$n.json") || fail "the JSON differs with $n ranks"
  diff -r "$work/pictures1" "$work/pictures$n" || fail "the pictures differ with $n ranks"
done
for kind in best median worst; do
  [ "$(find "$work/pictures1" -name "${kind}_*.png" | wc -l)" -eq 1 ] || fail "no picture of the $kind case"
done
quiet "${evaluate[@]}" --output="$work/same.json" >/dev/null
cmp <(grep -v '^"wall_s"' "$work/e1.json") <(grep -v '^"wall_s"' "$work/same.json") || fail "--output=*.json is no JSON"
quiet "${evaluate[@]}" --window=centred --output="$work/centred.csv" >/dev/null
if cmp -s "$work/e1.csv" "$work/centred.csv"; then fail "--window=centred changes nothing"; fi
if command -v python3 >/dev/null; then
  python3 - "$work/e2.json" "$work/e2.csv" <<'PY' || fail "a JSON reader finds other numbers than the CSV's"
import csv, json, sys
found = json.load(open(sys.argv[1]))
assert found["settings"]["n_cases"] == 6 and set(found["wall_s"]) == {r["case"] for r in found["scores"]} - {"pooled"}
for row, wanted in zip(found["scores"], csv.DictReader(open(sys.argv[2])), strict=True):
    for key, value in wanted.items():
        assert str(row[key]) == value or float(row[key]) == float(value), (key, row[key], value)
PY
else
  echo "no python3: the JSON is not read by another reader"
fi
echo "predict: all as it should be"
