#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What only looks leaves nothing behind, whatever cache the settings name: train --dry-run, data inspect, check, stats, split; and
# evaluate, which uses no cache (features 75, 89, 183). Compared: names, sizes and times of everything below the folder that holds data,
# home, temporary files and the working directory.
# shellcheck source=tests/e2e/common.sh
source "$(dirname "$0")/common.sh"
unet3d=$bin/unet3d
here=$work/here
mkdir -p "$here/home" "$here/tmp" "$here/data/wind_speed_filled" "$here/data/mask_buildings"
for c in 0VF20 0VF44 105VF54 105VF5 120VF10; do
  cp "$data/wind_speed_filled/${c}_ws_filled.nc" "$here/data/wind_speed_filled"
  cp "$data/mask_buildings/${c}_ws_building_mask.nc" "$here/data/mask_buildings"
done
"$bin/make_volumes" "$here/volumes" nii.gz 5 >/dev/null
few=(--model.base=4 --model.levels=1 --split.validation=0.2 --train.epochs=1 --output.dir="$here/run")
wind=(--data.root="$here/data" --data.shape=16x16x16)
# shellcheck disable=SC2034 # used by its name
brain=(--task=segmentation --volumes.root="$here/volumes" "--volumes.classes=background,ball,box" --volumes.patch=16x16x16)

# MPI's own folder for temporary files comes and goes, which leaves its mark in the time of $here/tmp.
listing() { find "$here" ! -path "$here/tmp" ! -path "$here/tmp/ompi.*" ! -path "$here/tmp/pmix*" -printf '%p %y %s %T@ %C@ %m\n' | sort; }
# leaves_no_trace COMMAND...
leaves_no_trace() {
  listing >"$work/before"
  (cd "$here" && HOME=$here/home TMPDIR=$here/tmp "$@") >"$work/out" 2>"$work/log" || { cat "$work/log" >&2; fail "$*"; }
  listing >"$work/after"
  diff "$work/before" "$work/after" || fail "this wrote: $*"
}

# A cache in a folder that is not there, in one that an earlier run has filled, and the other kinds.
for n in 1 2; do
  for cache in "disk --@.cache.folder=$here/deep/cache" "disk --@.cache.folder=$here/filled" ram none; do
    for task in wind brain; do
      declare -n of=$task
      table=data
      [ $task = brain ] && table=volumes
      # shellcheck disable=SC2206
      cached=(--$table.cache.kind=${cache//@/$table})
      leaves_no_trace mpirun -n $n "$unet3d" train --dry-run "${of[@]}" "${few[@]}" "${cached[@]}"
      if [[ $cache = disk* ]]; then
        grep -q "$table.cache: disk, only looked at, in '$here/" "$work/out" || { cat "$work/out" >&2; fail "the plan does not tell the cache"; }
      fi
      leaves_no_trace mpirun -n $n "$unet3d" data check "${of[@]}" "${cached[@]}"
      leaves_no_trace mpirun -n $n "$unet3d" data split "${of[@]}" --split.validation=0.2 "${cached[@]}"
      leaves_no_trace mpirun -n $n "$unet3d" data stats "${of[@]}" --split.validation=0.2 "${cached[@]}"
      # The first training fills the folder that the later looks find.
      if [[ $cache = *filled ]] && [ $n -eq 1 ]; then
        mpirun -n 2 "$unet3d" train "${of[@]}" "${few[@]}" --overwrite "${cached[@]}" 2>"$work/log" || { cat "$work/log" >&2; fail "training"; }
        [ "$(find "$here/filled" -name '*.boracache' | wc -l)" -gt 0 ] || fail "training keeps nothing"
        cp "$here/run/last.h5" "$here/$task.h5"
        rm -r "$here/run"
      fi
    done
  done
done
leaves_no_trace "$unet3d" data inspect data/wind_speed_filled/0VF20_ws_filled.nc volumes/case1_image.nii.gz

# Only the table, though the run's settings name a cache.
for task in wind brain; do
  rm -r "$here/filled" 2>/dev/null || true
  mpirun -n 2 "$unet3d" evaluate --checkpoint="$here/$task.h5" --part=all --output="$work/table.csv" >"$work/out" 2>&1 ||
    { cat "$work/out" >&2; fail "evaluate"; }
  [ ! -e "$here/filled" ] || fail "evaluate makes the cache's folder"
done

# What training would refuse is refused.
touch "$here/file"
expect_failure 2 "data.cache.folder '$here/file/a': '$here/file' is a file, wanted a folder" "$unet3d" train --dry-run "${wind[@]}" "${few[@]}" \
  --data.cache.kind=disk --data.cache.folder="$here/file/a"
echo "no_trace: all as it should be"
