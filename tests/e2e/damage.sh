#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Files that are damaged while a run reads them, with every kind of cache (features 75, 88, 90): all ranks end within seconds, with exit
# code 1 and a message that names a file; nothing stays in /dev/shm. What becomes of a cache's own files does not end a run.
# damage.sh BIN [all]: all kinds of damage with all kinds of cache on 1 and 2 ranks, wind and volumes; else one of each cache.
# shellcheck source=tests/e2e/common.sh
source "$(dirname "$0")/common.sh"
all=${2:-}

mkdir -p "$work/wind/mask_buildings" "$work/wind/wind_speed_filled"
for mask in $(find "$data/mask_buildings" -name '*.nc' | sort | awk 'NR % 8 == 1'); do
  case=$(basename "$mask" _ws_building_mask.nc)
  cp "$mask" "$work/wind/mask_buildings/"
  cp "$data/wind_speed_filled/${case}_ws_filled.nc" "$work/wind/wind_speed_filled/"
done
"$bin/make_volumes" "$work/volumes" nii.gz 6 >/dev/null
wind=(--data.root="$work/data" --data.shape=16x16x16 --data.cache.folder="$work/cache")
volumes=(--task=segmentation --volumes.root="$work/data" --volumes.classes="background,ball,box" --volumes.patch=16x16x16
         --volumes.patches_per_volume=4 --volumes.cache.folder="$work/cache")
small=(--model.base=4 --model.levels=1 --split.validation=0.2 --train.patience=0 --output.log_every=1 --loader.threads=2
       --output.checkpoint_epochs=100000)

# What processes that have ended left there; other programs of this machine may have their own.
shm() {
  local file pid
  for file in $(find /dev/shm -name 'bora-*' -user "$(id -un)" -mmin -10 2>/dev/null | sort); do
    pid=${file#/dev/shm/bora-}
    [ -d "/proc/${pid%%-*}" ] || echo "$file"
  done
}

begin() {  # begin RANKS CACHE KIND DIR ARGS...: of wind or volumes, in the background, pid in $job; returns when an epoch is over
  local n=$1 cache=$2 kind=$3 task
  dir=$4
  shift 4
  rm -rf "$work/data"
  cp -r "$work/$kind" "$work/data"
  if [ "$kind" = wind ]; then task=("${wind[@]}" --data.cache.kind="$cache"); else task=("${volumes[@]}" --volumes.cache.kind="$cache"); fi
  timeout -k 5 120 mpirun -n "$n" "$bin/unet3d" train "${task[@]}" "${small[@]}" --output.dir="$dir" "$@" >"$dir.log" 2>&1 &
  job=$!
  for _ in $(seq 600); do
    if grep -q '"kind":"epoch"' "$dir/metrics.jsonl" 2>/dev/null; then return; fi
    kill -0 "$job" 2>/dev/null || { cat "$dir.log" >&2; fail "$dir: it does not begin"; }
    sleep 0.05
  done
  fail "$dir: no epoch in 30 s"
}
ends() {  # ends CODE SECONDS: with this code in time
  local code=0 i
  for ((i = 0; i < 20 * $2; ++i)); do
    kill -0 "$job" 2>/dev/null || break
    sleep 0.05
  done
  ((i < 20 * $2)) || { kill "$job"; cat "$dir.log" >&2; fail "$dir: still there after $2 s"; }
  wait "$job" || code=$?
  [ "$code" -eq "$1" ] || { cat "$dir.log" >&2; fail "$dir: exit code $code, wanted $1"; }
  [ -z "$(ranks_of "$dir")" ] || fail "$dir: ranks are left"
  [ -z "$(comm -13 <(echo "$shm_before") <(shm))" ] || fail "$dir: left in /dev/shm: $(shm)"
}

# Of the files that are read: the winds, or the images.
files() { find "$work/data" -name '*_ws_filled.nc' -o -name '*_image.nii.gz'; }
delete() { files | xargs rm; }
cut_short() { files | xargs truncate -s 200; }
replace() { files | while read -r f; do head -c 30000 /dev/urandom >"$work/other" && mv "$work/other" "$f"; done; }
make_pipes() { files | while read -r f; do rm "$f" && mkfifo "$f"; done; }
unmount() { mv "$work/data" "$work/elsewhere$RANDOM"; }
make_folders() { files | while read -r f; do rm "$f" && mkdir "$f"; done; }
link_to_itself() { files | while read -r f; do rm "$f" && ln -s "$f" "$f"; done; }

damage() {  # damage RANKS CACHE WHAT KIND
  shm_before=$(shm)
  begin "$1" "$2" "$4" "$work/$3-$2-$1-$4" --train.epochs=100000
  "$3"
  ends 1 20
  # Ranks that fail of themselves at once have a message each.
  local told
  told=$(grep -c 'error: ' "$dir.log")
  { [ "$told" -ge 1 ] && [ "$told" -le "$1" ]; } || { cat "$dir.log" >&2; fail "$dir: $told messages"; }
  [ "$(grep -c "error: .*'$work/data/[^']*\.\(nc\|nii\.gz\)'" "$dir.log")" -eq "$told" ] || { cat "$dir.log" >&2; fail "$dir: no file is named"; }
}

if [ -n "$all" ]; then
  for what in delete cut_short replace make_pipes unmount make_folders link_to_itself; do
    for cache in none ram shared disk; do
      for n in 1 2; do
        for kind in wind volumes; do damage $n $cache $what $kind; done
      done
    done
  done
else
  damage 2 none cut_short wind
  damage 2 shared unmount wind
  damage 2 disk replace volumes
  damage 2 ram make_pipes volumes
fi

# The folder of a cache is removed, or made read-only, while it is in use: the run goes on, with the same bits.  (A file that is cut is
# left alone, too: DiskCache.LeavesAFileThatWasCutOrRemovedWhileItIsUsed.  Cut in the moment of a read it ends the program by SIGBUS, so no
# test may cut files of a run that reads.)
whats=(remove)
[ -z "$all" ] || whats=(remove protect)
shm_before=$(shm)
begin 2 none wind "$work/plain" --train.epochs=6
ends 0 60
for what in "${whats[@]}"; do
  rm -rf "$work/cache"
  begin 2 disk wind "$work/cache-$what" --train.epochs=6
  case $what in
    remove) mv "$work/cache" "$work/gone" && rm -rf "$work/gone" ;; # at once: files are written meanwhile
    protect) chmod a-w "$work/cache" ;;
  esac
  ends 0 60
  [ "$what" != protect ] || chmod u+w "$work/cache"
  "$bin/compare_checkpoints" "$work/plain/last.h5" "$work/cache-$what/last.h5" >/dev/null || fail "$what: a damaged cache changes the bits"
done
[ -n "$all" ] || { echo "damage: all as it should be"; exit 0; }

# One rank of a run with a shared cache is killed: no rank and no memory is left.
begin 2 shared wind "$work/killed" --train.epochs=100000
kill -KILL "$(ranks_of "$work/killed" | tail -n 1)"
ends 137 30

# Two jobs that fill one disk cache at the same time have the bits of one without.
rm -rf "$work/cache"
begin 1 none wind "$work/alone" --train.epochs=3
ends 0 60
for i in 1 2; do
  "$bin/unet3d" train "${wind[@]}" --data.cache.kind=disk "${small[@]}" --train.epochs=3 --output.dir="$work/job$i" >"$work/job$i.log" 2>&1 &
  jobs[i]=$!
done
for i in 1 2; do
  wait "${jobs[i]}" || { cat "$work/job$i.log" >&2; fail "job $i of two with one cache"; }
  "$bin/compare_checkpoints" "$work/alone/last.h5" "$work/job$i/last.h5" >/dev/null || fail "job $i: not the bits of one alone"
done
echo "damage: all as it should be"
