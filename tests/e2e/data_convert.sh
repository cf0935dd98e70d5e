#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# unet3d data convert and bench_data as users run them (rows 87, 91).
# shellcheck source=tests/e2e/common.sh
source "$(dirname "$0")/common.sh"
few=$work/few
mkdir -p "$few/wind_speed_filled" "$few/mask_buildings"
cp "$data"/wind_speed_filled/0VF*.nc "$few/wind_speed_filled"
cp "$data"/mask_buildings/0VF*.nc "$few/mask_buildings"
n=$(find "$few" -name '*.nc' | wc -l)
convert=("$bin/unet3d" data convert)
how=(--patch=64x64x32 --codec=deflate4+shuffle)
wind=(--data.root="$few" "${how[@]}")
quiet() { "$@" >"$work/log" 2>&1 || { cat "$work/log" >&2; fail "$*"; }; }

# Wind pairs: the schema's folders and names; the same bytes for any number of ranks; good as input again.
for ranks in 1 2; do quiet mpirun -n $ranks "${convert[@]}" "${wind[@]}" --to="$work/fast$ranks"; done
diff -r "$work/fast1" "$work/fast2" || fail "the files depend on the number of ranks"
[ "$(find "$work/fast1" -type f | wc -l)" -eq "$n" ] || fail "not every file was converted, or something else is there"
quiet "${convert[@]}" --data.root="$work/fast1" "${how[@]}" --to="$work/again"
diff -r "$work/fast1" "$work/again" || fail "converting the result changes it"

# What is there already, and what cannot be.
expect_failure 2 "exists; --existing=replace" "${convert[@]}" "${wind[@]}" --to="$work/fast1"
quiet "${convert[@]}" "${wind[@]}" --to="$work/fast1" --existing=skip
grep -q "$n of $n files are there already" "$work/log" || fail "skip does not say what it left out"
quiet "${convert[@]}" "${wind[@]}" --to="$work/fast1" --existing=replace
expect_failure 2 "wanted auto, none, deflate1" "${convert[@]}" "$few" --codec=zstd --to="$work/x"
expect_failure 2 "is one of the inputs" "${convert[@]}" "${wind[@]}" --to="$few" --existing=replace
expect_failure 2 "where to?" "${convert[@]}" "${wind[@]}"
expect_failure 2 "no files named" "${convert[@]}" --to="$work/x"

# Where it cannot write: told before anything is read, with what is in the way and what is written.
touch "$work/file"
expect_failure 2 "--to=$work/file: '$work/file' is a file, wanted a folder" "${convert[@]}" "${wind[@]}" --to="$work/file"
expect_failure 2 "--to=$work/file/a/b: '$work/file' is a file, wanted a folder" mpirun -n 2 "${convert[@]}" "${wind[@]}" --to="$work/file/a/b"
expect_failure 2 "--to=/proc/bora: the folder '/proc/bora" "${convert[@]}" "${wind[@]}" --to=/proc/bora
for name in out.h5 out.nc out.nii.gz out.zarr.npy; do
  expect_failure 2 "--to=$work/$name: wanted a folder; files there are named by their cases, in .h5 (HDF5), of wind cases in .nc" \
    "${convert[@]}" "${wind[@]}" --to="$work/$name"
  [ ! -e "$work/$name" ] || fail "--to=$name is made in spite of its refusal"
done
mkdir -p "$work/taken/wind_speed_filled/0VF20_ws_filled.nc"
expect_failure 2 "0VF20_ws_filled.nc' is a folder, wanted to write a file" "${convert[@]}" "${wind[@]}" --to="$work/taken" --existing=replace

# Single files, the codec measured and told; HDF5 again as input, under another name.
one=$(find "$few/wind_speed_filled" -name '0VF20_*')
quiet "${convert[@]}" "$one" --patch=32x32x32 --to="$work/one"
grep -q "deflate6+shuffle" "$work/log" || fail "the table of codecs is missing"
[ "$(grep -c -- '<- chosen' "$work/log")" -eq 1 ] || fail "it is not told which codec was chosen"
quiet "${convert[@]}" "$work/one/0VF20_ws_filled.h5" --codec=none --to="$work/two"
# Wind cases in HDF5 are not written as such: named, with what is.
mkdir -p "$work/hdf5/wind_speed_filled" "$work/hdf5/mask_buildings"
quiet "${convert[@]}" "$(find "$few/mask_buildings" -name '0VF20_*')" --codec=none --to="$work/one"
cp "$work/one/0VF20_ws_filled.h5" "$work/hdf5/wind_speed_filled"
cp "$work/one/0VF20_ws_building_mask.h5" "$work/hdf5/mask_buildings"
expect_failure 2 "0VF20_ws_building_mask.h5' is an HDF5 file of a wind case; wind cases are written as NetCDF-4 (.nc)" "${convert[@]}" \
  --data.root="$work/hdf5" --data.files.wind_suffix=_ws_filled.h5 --data.files.mask_suffix=_ws_building_mask.h5 --data.files.wind_variable=raw \
  --data.files.mask_variable=raw --data.files.order=xyz "${how[@]}" --to="$work/three"
# A truncated file is named, and nothing is left of its output.
head -c 20000 "$one" >"$work/broken.nc"
expect_failure 1 "broken.nc" "${convert[@]}" "$work/broken.nc" --codec=none --to="$work/three"
[ -z "$(find "$work/three" -type f)" ] || fail "a failed conversion leaves $(ls "$work/three")"

# The bench, small: it warns of chunks that do not fit, and writes its report.
quiet "$bin/bench_data" --samples="$data" --size=128 --patch=32 --patches=4 --rounds=2 --n_files=1 \
  --chunks=32x32x32,1x128x128 --folder="$work" --json="$work/bench.json"
grep -q "chunks of 1x128x128 do not fit" "$work/log" || fail "no warning of chunks that do not fit"
[ "$(grep -c '"kind": *"chunked"' "$work/bench.json")" -eq 2 ] || fail "the report is not whole"
