#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Reading while training: every kind of cache gives the bits of none; file systems without locks and files that others have
# locked are read; one that hangs ends the run and is named; nothing starts a process after MPI_Init (features 75, 87, 90).
# $2: the library of reading_faults.cpp.
# shellcheck source=tests/e2e/common.sh
source "$(dirname "$0")/common.sh"
faults=$2

train() {  # train RANKS DIR ARGS...
  local n=$1 dir=$2
  shift 2
  mpirun -n "$n" "$bin/unet3d" train "${small[@]}" --train.epochs="${epochs:-3}" --output.dir="$dir" "$@" >"$dir.log" 2>&1 ||
    { cat "$dir.log" >&2; fail "train $n $dir $*"; }
}
same() { "$bin/compare_checkpoints" "$work/$1/last.h5" "$work/$2/last.h5" || fail "$2: not the bits of $1"; }

# The same bits from each cache, with any number of reading threads; nothing stays in /dev/shm.
for n in 1 2; do
  train "$n" "$work/none$n" --loader.threads=0
  for kind in ram shared disk; do
    train "$n" "$work/$kind$n" --data.cache.kind=$kind --data.cache.folder="$work/cache" --loader.threads=$((n + 1))
    same none"$n" "$kind$n"
    grep -q "data.cache: $kind .*all of them fit" "$work/$kind$n.log" || { cat "$work/$kind$n.log" >&2; fail "the log does not tell the cache"; }
  done
done
# Those of other tests that run beside this one have living makers, or are taken away in a moment.
left_in_memory() {
  local file pid
  while read -r file; do
    pid=${file#/dev/shm/bora-} pid=${pid%%-*}
    if [ ! -d "/proc/$pid" ]; then echo "$file"; fi
  done < <(find /dev/shm -name 'bora-*-cache-*' -user "$(id -un)" -mmin -10 2>/dev/null || true)
}
for _ in $(seq 50); do
  left=$(left_in_memory)
  [ -n "$left" ] || break
  sleep 0.2
done
[ -z "$left" ] || fail "left in shared memory: $left"
train 2 "$work/little" --data.cache.kind=shared --data.cache.limit_gib=0.0005
same none2 little
grep -q "of the reads come from it" "$work/little.log" || fail "a cache that is too small is not told"
expect_failure 2 "data.cache.kind=disk wants data.cache.folder" mpirun -n 2 "$bin/unet3d" train "${small[@]}" --data.cache.kind=disk \
  --output.dir="$work/no"

# Locks that fail with ENOTSUP (95), ENOLCK (37) or as on some clusters (524); a file that somebody else has locked.
for code in 95 37 524; do
  epochs=1 LD_PRELOAD=$faults BORA_FLOCK=$code train 1 "$work/lock$code"
done
cp -r "$data" "$work/copy"
held=$(find "$work/copy/wind_speed_filled" -name '*.nc' | head -n 1)
flock -x "$held" sleep 60 &
holder=$!
small[0]=--data.root=$work/copy
epochs=1 train 1 "$work/held"
kill "$holder"
wait "$holder" 2>/dev/null || true

# No process is started once MPI is up: reading, training, validation, pictures, checkpoints.
BORA_NO_FORK=1 mpirun -n 2 -x LD_PRELOAD="$faults" -x BORA_NO_FORK "$bin/unet3d" train "${small[@]}" --train.epochs=1 \
  --output.dir="$work/fork" >"$work/fork.log" 2>&1 || { cat "$work/fork.log" >&2; fail "a process was started after MPI_Init"; }

# A file system that hangs after the start, in some epoch: the run ends within its bound and names the file; so too where
# rank 0 waits for a checkpoint behind the lock of HDF5 that the read has.
export BORA_HANG=_ws_filled.nc
for n in 1 2; do
  BORA_HANG_FROM=$((2 * $(find "$data" -name '*_ws_filled.nc' | wc -l) / n + 40))
  export BORA_HANG_FROM
  code=0
  timeout 60 mpirun -n "$n" -x LD_PRELOAD="$faults" -x BORA_HANG -x BORA_HANG_FROM "$bin/unet3d" train "${small[@]}" \
    --train.epochs=1000 --train.patience=0 --loader.timeout_s=2 --output.dir="$work/hang$n" >"$work/out" 2>&1 || code=$?
  [ "$code" -eq 1 ] || { cat "$work/out" >&2; fail "a file that hangs on $n ranks: exit code $code"; }
  grep -Eq "loader.timeout_s = 2 has passed: waiting for sample|longer than loader.timeout_s = 2" "$work/out" ||
    { cat "$work/out" >&2; fail "the wait that is over is not told"; }
  grep -Eq "(being read: [^ ]+ \('[^']*_mask.nc', '|read of ')[^']*_ws_filled.nc'" "$work/out" ||
    { cat "$work/out" >&2; fail "the file that hangs is not named"; }
done
