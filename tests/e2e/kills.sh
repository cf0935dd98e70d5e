#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A run that is killed at random moments, also while it writes, loses nothing but the work since its last save (feature 140): after
# each kill every checkpoint is whole and none is older than one that the log calls durable; gone on with to its end, the run has the
# bits of one that was never killed. A full disk ends all ranks at once with one message and leaves all files as they were.
# kills.sh BIN [KILLS [SEED]]: half of the kills on 1 rank, half on 2.
# shellcheck source=tests/e2e/common.sh
source "$(dirname "$0")/common.sh"
kills=${2:-25}
# The short form draws the same moments each time, as far as the machine lets it; the long one looks for new ones.
seed=${3:-$((kills > 100 ? $(date +%s) : 1))}
echo "kills: $kills, seed $seed"
RANDOM=$seed in_write=0

# Every fourth case, so that a start is quick.
mkdir -p "$work/cases/mask_buildings" "$work/cases/wind_speed_filled"
for mask in $(find "$data/mask_buildings" -name '*.nc' | sort | awk 'NR % 4 == 1'); do
  case=$(basename "$mask" _ws_building_mask.nc)
  ln -s "$mask" "$work/cases/mask_buildings/"
  ln -s "$data/wind_speed_filled/${case}_ws_filled.nc" "$work/cases/wind_speed_filled/"
done
# A step takes about as long as writing three files: the writer is busy much of the time.
options=(--data.root="$work/cases" --data.shape=32x32x16 --model.base=8 --model.levels=2 --split.validation=0.15 --split.test=0.15 --train.patience=0 --model.dropout=0.1
         --output.log_every=1 --output.keep=3 --loader.threads=1)
every=(--output.checkpoint_updates=1)

start() {  # start RANKS DIR ARGS...: in the background, pid in $job
  local n=$1 dir=$2
  shift 2
  if [ "$n" -eq 1 ]; then
    "$bin/unet3d" train "${options[@]}" "${every[@]}" --output.dir="$dir" "$@" >>"$dir.log" 2>&1 &
  else
    mpirun -n "$n" "$bin/unet3d" train "${options[@]}" "${every[@]}" --output.dir="$dir" "$@" >>"$dir.log" 2>&1 &
  fi
  job=$!
}
processes_of() { pgrep -f "unet3d train .*--output.dir=$1( |$)" || true; }
ranks_of() { processes_of "$1" | { [ "$2" -eq 1 ] && cat || grep -vx "$job" || true; }; }
nap() { sleep "$(printf '%d.%03d' $(($1 / 1000)) $(($1 % 1000)))"; }
all_gone() {  # all_gone DIR: waits for the last of them
  for _ in $(seq 200); do
    [ -z "$(processes_of "$1")" ] && return
    sleep 0.05
  done
  fail "processes of $1 are left 10 s after the kill"
}

check_files() {  # check_files DIR: all whole; the newest is as new as the log says
  local dir=$1 durable files newest
  [ -d "$dir" ] || return 0
  files=$(find "$dir" -name '*.h5')
  [ -n "$files" ] || return 0
  # shellcheck disable=SC2086
  newest=$("$bin/compare_checkpoints" --whole $files) || { cat "$dir.log" >&2; fail "a file in $dir is not whole"; }
  durable=$(sed -n 's/.*"kind":"checkpoint","update":\([0-9]*\),.*"file":"last.h5",.*"skipped":false.*/\1/p' "$dir/metrics.jsonl" | sort -n | tail -n 1)
  [ "$newest" -ge "${durable:-0}" ] || fail "the newest file is of update $newest, the log has a durable one of $durable"
}

torment() {  # torment RANKS KILLS
  local n=$1 left=$2 epochs=$((($2 + 1) / 2)) dir=$work/killed$1 code victims
  [ "$epochs" -ge 3 ] || epochs=3
  start "$n" "$work/straight$n" --train.epochs="$epochs"
  wait "$job" || { cat "$work/straight$n.log" >&2; fail "the straight run"; }
  while [ "$left" -gt 0 ]; do
    start "$n" "$dir" --train.epochs="$epochs" --resume
    # Now and then while it starts; mostly after it has begun to save.
    if [ $((RANDOM % 6)) -gt 0 ]; then
      for _ in $(seq 100); do
        [ -n "$(find "$dir" -name '*.tmp-*' 2>/dev/null)" ] && break
        kill -0 "$job" 2>/dev/null || break
        sleep 0.02
      done
    fi
    nap $((RANDOM % 300))
    victims=$(ranks_of "$dir" "$n")
    if [ -n "$victims" ]; then
      case $((RANDOM % 3)) in
        0) victims=$(shuf -n 1 --random-source=<(yes "$RANDOM") <<<"$victims") ;;  # one rank: the others must end too
        *) victims+=" $job" ;;
      esac
      if [ $((RANDOM % 2)) -eq 0 ]; then  # in the midst of a file, which takes a millisecond: nothing slow between the look and the kill
        for _ in $(seq 3000); do compgen -G "$dir/*.h5.tmp-*" >/dev/null && break; done
      fi
      # shellcheck disable=SC2086
      kill -KILL $victims 2>/dev/null || true
      left=$((left - 1))
    fi
    code=0
    wait "$job" 2>/dev/null || code=$?
    all_gone "$dir"
    [ -z "$(find "$dir" -name '*.tmp-*' 2>/dev/null)" ] || in_write=$((in_write + 1))
    check_files "$dir"
    if [ "$code" -eq 0 ]; then  # it was faster
      compare "$n" "$dir"
      rm -rf "$dir"
    fi
  done
  start "$n" "$dir" --train.epochs="$epochs" --resume
  wait "$job" || { cat "$dir.log" >&2; fail "the run after the last kill"; }
  compare "$n" "$dir"
}

compare() {  # compare RANKS DIR: with the straight run
  for f in last.h5 best.h5; do
    "$bin/compare_checkpoints" "$work/straight$1/$f" "$2/$f" >/dev/null || fail "$1 ranks: $f has not the bits of the straight run"
  done
  # The log has each update once, and nothing half written is left.
  cmp <(updates_of "$work/straight$1") <(updates_of "$2") || fail "$1 ranks: other updates in the log than the straight run's"
  [ -z "$(find "$2" -name '*.tmp-*')" ] || fail "half written files are left in $2: $(find "$2" -name '*.tmp-*')"
  [ "$(find "$2" -name 'update-*.h5' | wc -l)" -eq 3 ] || fail "not 3 periodic files in $2"
}
updates_of() { sed -n 's/.*"kind":"train","update":\([0-9]*\),.*/\1/p' "$1/metrics.jsonl"; }

full_disk() {  # full_disk RANKS: in the midst of a run files can no longer be larger than 300 kB
  local n=$1 dir=$work/full$1 code=0 begin rank
  # On 2 ranks saves are rare: that one failed is learned from the talk about signals, not from the next save.
  local every=(--output.checkpoint_updates=1)
  [ "$n" -eq 1 ] || every=(--output.checkpoint_minutes=0.005 --output.checkpoint_epochs=1000)
  start "$n" "$dir" --train.epochs=30
  for _ in $(seq 200); do
    [ -f "$dir/last.prev.h5" ] && break
    sleep 0.05
  done
  begin=$SECONDS
  for rank in $(ranks_of "$dir" "$n"); do prlimit --pid "$rank" --fsize=300000:; done
  wait "$job" || code=$?
  [ "$code" -eq 1 ] || { cat "$dir.log" >&2; fail "full disk, $n ranks: exit code $code"; }
  echo "full disk, $n ranks: ended within $((SECONDS - begin + 1)) s"
  [ $((SECONDS - begin)) -le 10 ] || fail "full disk, $n ranks: all ranks ended after $((SECONDS - begin)) s"
  all_gone "$dir"
  [ "$(grep -c 'error: ' "$dir.log")" -eq 1 ] || { cat "$dir.log" >&2; fail "full disk, $n ranks: not one error message"; }
  grep -q "error: .*saving checkpoint '$dir/.*File too large.*--resume goes on" "$dir.log" || { cat "$dir.log" >&2; fail "full disk: what is not told"; }
  check_files "$dir"
  [ -z "$(find "$dir" -name '*.tmp-*')" ] || fail "full disk: half written files are left"
  # Some updates further than it has come, however fast this machine is.
  local target
  target=$(($(sed -n 's/.*"kind":"checkpoint","update":\([0-9]*\),.*/\1/p' "$dir/metrics.jsonl" | sort -n | tail -n 1) + 6))
  start "$n" "$dir" --train.epochs=30 --train.max_updates="$target" --resume
  wait "$job" || { cat "$dir.log" >&2; fail "the run after the full disk"; }
  start "$n" "$work/free$n" --train.epochs=30 --train.max_updates="$target"
  wait "$job" || fail "the run on a free disk"
  "$bin/compare_checkpoints" "$work/free$n/last.h5" "$dir/last.h5" >/dev/null || fail "full disk, $n ranks: not the bits of the run on a free disk"
}

for n in 1 2; do full_disk $n; done
torment 1 $(((kills + 1) / 2))
torment 2 $((kills / 2))
echo "$in_write of $kills kills came while a file was written"
echo "kills: all as it should be"
