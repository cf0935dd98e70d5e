#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Which checkpoints a run writes, and when (features 138, 160): last, best, periodic ones of which the newest stay; by updates,
# epochs and rank 0's clock, on 1 and 2 ranks; and which one a damaged run goes on from (140, 145).
# shellcheck source=tests/e2e/common.sh
source "$(dirname "$0")/common.sh"

train() {  # train RANKS DIR ARGS...
  local n=$1 dir=$2
  shift 2
  mpirun -n "$n" "$bin/unet3d" train "${small[@]}" --train.patience=0 --output.dir="$dir" "$@" >"$dir.log" 2>&1 ||
    { cat "$dir.log" >&2; fail "train $n $dir $*"; }
}
files() { (cd "$1" && find . -name '*.h5*' | sed 's#./##' | sort | xargs); }
saved() { sed -n 's/.*"kind":"checkpoint","update":\([0-9]*\),.*"file":"'"$2"'".*/\1/p' "$1/metrics.jsonl" | sort -n | xargs; }
damage() { dd if=/dev/zero of="$1" bs=1 count=64 seek=5000 conv=notrunc status=none; }

# 7 updates an epoch on 1 rank: saves after every third and after each epoch, of which four stay.
run=$work/run
train 1 "$run" --train.epochs=2 --output.checkpoint_updates=3 --output.keep=4
want="best.h5 last.h5 last.prev.h5 update-00000007.h5 update-00000009.h5 update-00000012.h5 update-00000014.h5"
[ "$(files "$run")" = "$want" ] || fail "keep=4: $(files "$run")"
[ "$(saved "$run" last.h5)" = "3 6 7 9 12 14" ] || fail "last.h5 saved after updates $(saved "$run" last.h5)"
[ "$(saved "$run" 'update-.*')" = "3 6 7 9 12 14" ] || fail "periodic saves after $(saved "$run" 'update-.*')"
grep -q '"save_s":[0-9.e-]*,"write_s":[0-9.e-]*,"bytes":[1-9]' "$run/metrics.jsonl" || fail "no cost of saves in the log"
"$bin/compare_checkpoints" "$run/last.h5" "$run/update-00000014.h5" >/dev/null || fail "update-00000014.h5 is not the last state"

# By the clock, at least every 0.03 s: more saves than those of the epochs, on all ranks' agreement; also where each epoch saves
# a best.h5 sooner.
for n in 1 2; do
  train $n "$work/clock$n" --train.epochs=8 --output.checkpoint_epochs=100 --output.checkpoint_minutes=0.0005
  [ "$(saved "$work/clock$n" last.h5 | wc -w)" -ge 2 ] || fail "$n ranks: saves by the clock after updates $(saved "$work/clock$n" last.h5)"
  train $n "$work/rare$n" --train.epochs=8 --output.checkpoint_epochs=100 --output.checkpoint_minutes=0
  [ "$(saved "$work/rare$n" last.h5 | wc -w)" -eq 1 ] || fail "$n ranks: saves without a clock after updates $(saved "$work/rare$n" last.h5)"
  "$bin/compare_checkpoints" "$work/clock$n/last.h5" "$work/rare$n/last.h5" >/dev/null || fail "$n ranks: saves change the bits"
done

# File by file damaged, the next one is taken, with a word on those before it; best.h5 is the last resort.
goes_on_from() {  # goes_on_from FILE
  cp -r "$run" "$work/try"
  train 1 "$work/try" --train.epochs=2 --resume
  grep -q "resumed from $work/try/$1" "$work/try.log" || { cat "$work/try.log" >&2; fail "it does not go on from $1"; }
  "$bin/compare_checkpoints" "$run.last" "$work/try/last.h5" >/dev/null || fail "from $1: not the bits of the whole run"
  rm -rf "$work/try"
}
cp "$run/last.h5" "$run.last"
for f in last.h5 last.prev.h5 update-00000014.h5 update-00000012.h5 update-00000009.h5 update-00000007.h5; do
  goes_on_from $f
  damage "$run/$f"
done
goes_on_from best.h5
damage "$run/best.h5"
expect_failure 1 "no usable checkpoint in '$run'" "$bin/unet3d" train "${small[@]}" --train.epochs=2 --train.patience=0 --output.dir="$run" --resume
grep -q "update-00000009.h5.*corrupt" "$work/out" || { cat "$work/out" >&2; fail "the reasons are not told"; }

# A folder with nothing but a periodic file holds a run; --overwrite removes all of it, and nothing else.
mkdir "$work/held" && cp "$run.last" "$work/held/update-00000014.h5" && echo mine >"$work/held/notes.txt"
expect_failure 2 "holds a run already (update-00000014.h5)" "$bin/unet3d" train "${small[@]}" --output.dir="$work/held"
train 1 "$work/held" --train.epochs=1 --overwrite
[ "$(files "$work/held")" = "best.h5 last.h5" ] || fail "after --overwrite: $(ls "$work/held")"
[ -f "$work/held/notes.txt" ] || fail "--overwrite removes files of others"

# A limit on the size of files (shell's ulimit, batch systems) is told as a full disk is: rank 0 is not killed by SIGXFSZ.
(
  ulimit -f 30
  expect_failure 1 "File too large" "$bin/bora_launch" -n 2 "$bin/unet3d" train "${small[@]}" --train.epochs=1 --output.dir="$work/limit"
)

# One run a folder: a second one is refused while the first works, and neither waits for one that was killed.
train_two() { "$bin/unet3d" train "${small[@]}" --train.patience=0 --train.epochs=200 --output.dir="$work/two" "$@"; }
train_two >"$work/two.log" 2>&1 &
for _ in $(seq 200); do [ -f "$work/two/last.h5" ] && break; sleep 0.1; done
for way in --resume --overwrite; do
  expect_failure 2 "another run is at work in it (process $(ranks_of "$work/two") on host" \
    "$bin/unet3d" train "${small[@]}" --output.dir="$work/two" $way
done
kill -KILL "$(ranks_of "$work/two")"
wait
train_two --train.max_updates=1 --resume >"$work/two.log" 2>&1 || { cat "$work/two.log" >&2; fail "a dead run's lock keeps others out"; }
[ ! -e "$work/two/run.lock" ] || fail "the lock is left behind"
echo "saves: all as it should be"
