#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Wrong data and wrong settings about data, as a user of a parallel job meets them: all ranks end within seconds with one message, which
# names the file or the key, what was found and what was wanted (features 88, 90, 96). What changes while a run reads: damage.sh.
# shellcheck source=tests/e2e/common.sh
source "$(dirname "$0")/common.sh"
unet3d=$bin/unet3d
two=(mpirun -n 2 "$unet3d")
mkdir -p "$work/data/mask_buildings" "$work/data/wind_speed_filled"
for c in 0VF20 0VF44 105VF54 105VF5 120VF10 0VF83; do
  cp "$data/wind_speed_filled/${c}_ws_filled.nc" "$work/data/wind_speed_filled"
  cp "$data/mask_buildings/${c}_ws_building_mask.nc" "$work/data/mask_buildings"
done
few=(--model.base=4 --model.levels=1 --split.validation=0.2 --train.epochs=1 --output.dir="$work/run" --overwrite)
wind=("${two[@]}" train --data.root="$work/data" --data.shape=16x16x16 "${few[@]}")
"$bin/make_volumes" "$work/volumes" nii.gz 5 >/dev/null
brain=(train --task=segmentation --volumes.root="$work/volumes" --volumes.classes="background,ball,box" --volumes.patch=16x16x16)
volumes=("${two[@]}" "${brain[@]}" "${few[@]}")
list() { printf '%b' "$2" >"$work/$1"; }

# Lists of wind cases: the place of each mistake.
expect_failure 1 "none.csv': No such file" "${wind[@]}" --data.files.list=none.csv
list data/missing.csv 'case\n0VF20\n7VF9\n'
expect_failure 1 "missing.csv', line 3: case '7VF9': there is no mask file '" "${wind[@]}" --data.files.list=missing.csv
list data/short.csv 'case,angle\n0VF20,0\n0VF44\n'
expect_failure 2 "short.csv', line 3: too few cells: 1, the header has 2 columns" "${wind[@]}" --data.files.list=short.csv
list data/empty.txt '# nothing\n'
expect_failure 2 "empty.txt' lists no case: wanted one path or name a line" "${wind[@]}" --data.files.list=empty.txt
list data/part.csv 'case,part\n0VF20,test\n0VF44,tset\n'
expect_failure 1 "line 3: case '0VF44': column 'part' is 'tset', wanted training" "${wind[@]}" --data.files.list=part.csv

# Lists of volumes.
listed=("${volumes[@]}" --volumes.list=list.csv)
list volumes/list.csv 'case,box\ncase1,"0:99,,"\n'
expect_failure 1 "list.csv', line 2: box 0:99,0:20,0:16 is not inside the grid of 24x20x16 cells of '" "${listed[@]}"
list volumes/list.csv 'case,lable\ncase1,x\n'
expect_failure 2 "list.csv' has a column 'lable' that means nothing here; there may be case, image, label" "${listed[@]}"
list volumes/list.csv 'case,image\ncase1,none.nii.gz\n'
expect_failure 1 "list.csv', line 2: there is no image '$work/volumes/none.nii.gz'" "${listed[@]}"
list volumes/list.csv 'case,label\ncase1,case2_image.nii.gz\n'
expect_failure 1 "case2_image.nii.gz': cell (0, 0, 0) is 86.6343, wanted a whole number" "${listed[@]}"
list volumes/list.csv 'case,sample_weight\ncase1,many\n'
expect_failure 2 "line 2: column 'sample_weight' is 'many', wanted a number" "${listed[@]}"
rm "$work/volumes/list.csv"

# Settings.
expect_failure 2 "clip wants two numbers, the lower first, or none; it has 2: 5, 1" "${wind[@]}" --data.clip=5,1
expect_failure 2 "data.files.mask_building and data.files.mask_open are equal, -1" "${wind[@]}" --data.files.mask_open=-1
expect_failure 2 "augment.flip_x would make the labels false" "${wind[@]}" --data.augment.flip_x=true
expect_failure 2 "volumes.classes has the name 'ball' twice" "${volumes[@]/,box/,ball}"
expect_failure 2 "volumes.percentiles has 1 numbers; wanted the lowest and the highest" "${volumes[@]}" --volumes.normalisation=percentile \
  --volumes.percentiles=5
expect_failure 2 "volumes.label_map: '7' has no colon" "${volumes[@]}" --volumes.label_map=7
expect_failure 2 "volumes.transforms.zoom has 2 numbers, the larger first" "${volumes[@]}" --volumes.transforms.zoom=2,1
expect_failure 2 "case 'nobody' of the test list is not among the data" "${wind[@]}" --split.test_cases=nobody
expect_failure 2 "volumes.cache.kind=disk wants volumes.cache.folder" "${volumes[@]}" --volumes.cache.kind=disk
expect_failure 2 "data.cache.folder '/proc/bora'" "${wind[@]}" --data.cache.kind=disk --data.cache.folder=/proc/bora
touch "$work/file"
expect_failure 2 "volumes.cache.folder '$work/file'" "${volumes[@]}" --volumes.cache.kind=disk --volumes.cache.folder="$work/file"

# Files of both kinds that the pre-flight looks into.
mask=mask_buildings/0VF44_ws_building_mask.nc speed=wind_speed_filled/0VF44_ws_filled.nc image=case2_image.nii.gz
spoil() {  # spoil FOLDER FILE: kept as $work/kept
  cp "$work/$1/$2" "$work/kept"
  spoilt=$work/$1/$2
}
mend() { rm -r "$spoilt" && mv "$work/kept" "$spoilt"; }
spoil data $mask
cp "$work/data/$speed" "$spoilt"
expect_failure 1 "$mask' has no variable 'building_mask'; it has " "${wind[@]}"
rm "$spoilt"
mkfifo "$spoilt"
expect_failure 1 "$mask' is a pipe, wanted a file" "${wind[@]}"
mend
spoil volumes $image
printf 'II*\0____' | cat - "$spoilt" >"$work/tiff"
mv "$work/tiff" "$spoilt"
expect_failure 1 "$image': this is a TIFF picture, wanted NIfTI, NetCDF-4, HDF5 or .npy" "${volumes[@]}"
: >"$spoilt"
expect_failure 1 "$image' is empty (0 bytes)" "${volumes[@]}"
mend

# Damage that headers do not show, met by the fit or by the loader's threads, whatever keeps what was read.
spoil volumes $image
head -c 2000 /dev/zero | dd of="$spoilt" bs=1 seek=$(($(stat -c %s "$spoilt") / 2)) conv=notrunc status=none
expect_failure 1 "$image" "${volumes[@]}"
unseen=("${volumes[@]/validation=0.2/validation=0}" --volumes.preflight=headers)
for kind in none ram shared disk; do
  expect_failure 1 "reading '$spoilt'" "${unseen[@]}" --volumes.normalisation=zscore --volumes.cache.kind=$kind \
    --volumes.cache.folder="$work/cache"
done
expect_failure 1 "reading '$spoilt'" "${unseen[@]}" --volumes.normalisation=global
mend

# A host whose shared memory is too small, and a cache's disk that is full: told at once, and told while it goes on.  Wants namespaces of
# users and mounts, which some machines forbid.
if unshare -rm true 2>/dev/null; then
  # In a folder, with so much room: FOLDER SIZE COMMAND...  MPI's own shared memory has no place there.
  # shellcheck disable=SC2016,SC2054
  small_place=(env OMPI_MCA_btl=self,tcp unshare -rm bash -c 'mount -t tmpfs -o size="$1" none "$0" && shift && exec "$@"')
  expect_failure 2 "/dev/shm of host $(hostname) has 0 MiB free" "${small_place[@]}" /dev/shm 200k "${wind[@]}" --data.cache.kind=shared
  mkdir "$work/small"
  timeout 60 "${small_place[@]}" "$work/small" 300k "${wind[@]}" --data.cache.kind=disk --data.cache.folder="$work/small" >"$work/out" 2>&1 ||
    { cat "$work/out" >&2; fail "a full disk ends the run"; }
  grep -q "is not kept but read each time: cache: taking room for '$work/small/.*: No space left on device; no more is kept" "$work/out" ||
    { cat "$work/out" >&2; fail "a full disk is not told"; }
else
  echo "small /dev/shm and a full disk: not tested, this machine has no namespaces for users"
fi

# The other commands.
rm -rf "$work/run"
"${wind[@]}" --data.normalisation=per_sample 2>"$work/log" || { cat "$work/log" >&2; fail train; }
trained=(--checkpoint="$work/run/last.h5")
expect_failure 2 "predict: of what? Give building masks or images" "${two[@]}" predict "${trained[@]}"
expect_failure 2 "--mirror is --flips=y, but --flips=x is given too" "${two[@]}" predict "${trained[@]}" --mirror --flips=x "$work/data/$mask"
expect_failure 2 "--probabilities is for task=segmentation" "${two[@]}" predict "${trained[@]}" --probabilities "$work/data/$mask"
expect_failure 2 "--picture compares with the truth; give its file with --truth=FILE" "${two[@]}" predict "${trained[@]}" \
  --picture="$work/p.png" "$work/data/$mask"
expect_failure 2 "--angle wants one number, 2 are given" "${two[@]}" predict "${trained[@]}" --angle=1,2 "$work/data/$mask"
expect_failure 2 "--truth and --picture go with one mask file, 6 are given" "${two[@]}" predict "${trained[@]}" --truth="$work/data/$speed" \
  "$work/data/mask_buildings"
# The truth would give the scale, but is not there; of another run, the mask is cut off.
expect_failure 1 "$work/none.nc" "${two[@]}" predict "${trained[@]}" --truth="$work/none.nc" "$work/data/$mask"
"${wind[@]}" 2>"$work/log" || { cat "$work/log" >&2; fail train; }
head -c 9000 "$work/data/$mask" >"$work/cut_ws_building_mask.nc"
expect_failure 1 "predict: nothing was predicted, for 1 of 1 mask" "${two[@]}" predict "${trained[@]}" "$work/cut_ws_building_mask.nc"
"${wind[@]}" --data.normalisation=per_sample 2>"$work/log" || { cat "$work/log" >&2; fail train; }
"${two[@]}" evaluate "${trained[@]}" --part=all --output="$work/e.csv" >"$work/log" 2>&1 || { cat "$work/log" >&2; fail evaluate; }
grep -q "was trained with per_sample normalisation: its fields are scaled" "$work/log" || fail "per_sample is not warned of"
expect_failure 2 "two inputs would be written to '$work/to/0VF44_ws_filled.h5'" "${two[@]}" data convert "$work/data/$speed" "$work/data/$speed" \
  --codec=none --to="$work/to"
expect_failure 2 "--to=FOLDER is not set" "${two[@]}" data convert "$work/data/$speed"
expect_failure 2 "no case in the test part (split.validation, split.test); choose another --part" "${two[@]}" data stats \
  --data.root="$work/data" --split.test=0 --part=test
echo "bad input data: all as it should be"
