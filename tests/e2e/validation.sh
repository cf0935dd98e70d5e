#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Validation is shared among the ranks and gives one rank's numbers (feature 136); best, last and periodic checkpoints (138); early
# stopping ends all ranks in the same epoch (146).
# shellcheck source=tests/e2e/common.sh
source "$(dirname "$0")/common.sh"

field() { sed -n "s/.*\"kind\":\"validation\".*\"$2\":\([0-9.eE+-]*\).*/\1/p" "$1/metrics.jsonl"; }

# The same weights scored by 1, 2 and 4 ranks (more ranks than some shares have cases): learning rate 0 leaves them as they start.
for n in 1 2 4; do
  mpirun -n $n "$bin/unet3d" train --data.root="$data" "${settings[@]/--optim.lr=3e-3/--optim.lr=0}" --train.epochs=1 \
    --output.dir="$work/n$n" 2>"$work/log" || { cat "$work/log" >&2; fail "$n ranks"; }
done
for key in loss mae_m_s rmse_m_s; do
  for n in 2 4; do
    awk -v a="$(field "$work/n1" $key)" -v b="$(field "$work/n$n" $key)" \
      'BEGIN { d = a - b; exit !(a > 0 && (d < 0 ? -d : d) <= 1e-6 * a) }' || fail "$key differs on $n ranks"
  done
done

# No better loss for 2 epochs (the rate is 0): the run ends after epoch 3 of 50 on both ranks, and best.h5 is that of epoch 1.
mpirun -n 2 "$bin/unet3d" train --data.root="$data" "${settings[@]/--optim.lr=3e-3/--optim.lr=0}" --train.epochs=50 \
  --train.patience=2 --output.dir="$work/early" 2>"$work/log" || { cat "$work/log" >&2; fail "early stopping"; }
[ "$(field "$work/early" epoch | tail -n 1)" -eq 3 ] || fail "stopped after epoch $(field "$work/early" epoch | tail -n 1)"
grep -q "no better validation loss" "$work/log" || fail "the reason is not told"
# It has ended: resuming trains no further, and says why.
mpirun -n 2 "$bin/unet3d" train --data.root="$data" "${settings[@]/--optim.lr=3e-3/--optim.lr=0}" --train.epochs=50 \
  --train.patience=2 --output.dir="$work/early" --resume 2>"$work/log" || fail "resuming an ended run"
[ "$(field "$work/early" epoch | tail -n 1)" -eq 3 ] || fail "an ended run went on"
grep -q "nothing to do: this run has ended, .*train.patience above that" "$work/log" || { cat "$work/log" >&2; fail "not told why"; }

# Periodic saves inside an epoch: last.h5 is there when the run is killed before the epoch's end.
(
  mpirun -n 2 "$bin/unet3d" train "${small[@]}" --train.epochs=200 --train.patience=0 --output.dir="$work/periodic" \
    --output.checkpoint_updates=1 2>"$work/log2" &
  pid=$!
  for _ in $(seq 200); do [ -s "$work/periodic/last.prev.h5" ] && break; sleep 0.1; done
  kill -KILL $pid
  wait $pid 2>/dev/null
) || true
[ -s "$work/periodic/last.h5" ] || fail "no periodic checkpoint"
pkill -f "$work/periodic" || true
sleep 1
mpirun -n 2 "$bin/unet3d" train "${small[@]}" --train.epochs=200 --train.patience=0 --output.dir="$work/periodic" \
  --train.max_updates=1 --resume 2>"$work/log" || { cat "$work/log" >&2; fail "resuming after a kill"; }
grep -q "resumed from" "$work/log" || { cat "$work/log" >&2; fail "did not resume after a kill"; }

# A save never falls between an epoch's last update and its validation: whatever save a resumed run starts from, it validates as
# often as the straight one and finds the same best loss.
mpirun -n 2 "$bin/unet3d" train "${small[@]}" --train.epochs=2 --output.dir="$work/whole" --output.checkpoint_updates=1 \
  2>"$work/log" || fail "the straight run"
mpirun -n 2 "$bin/unet3d" train "${small[@]}" --train.epochs=2 --output.dir="$work/parts" --output.checkpoint_updates=1 \
  2>"$work/log" || fail "the run in parts"
mv "$work/parts/last.prev.h5" "$work/parts/last.h5"
mpirun -n 2 "$bin/unet3d" train "${small[@]}" --train.epochs=2 --output.dir="$work/parts" --output.checkpoint_updates=1 --resume \
  2>"$work/log" || { cat "$work/log" >&2; fail "resuming from the save before the last"; }
[ "$(field "$work/whole" loss)" = "$(field "$work/parts" loss)" ] || fail "a validation was lost on resume"

# Saves come as often as they are asked for, and their cost is told (feature 160): in whole/, after each of the updates inside the two
# epochs and after each epoch; with checkpoint_epochs=2, after every second epoch and at the end.
saves() { sed -n 's/.*"kind":"checkpoint","update":\([0-9]*\),.*"file":"last.h5","save_s":[0-9.e-]*,.*/\1/p' "$1/metrics.jsonl" | sort -n; }
updates=$(sed -n 's/.*trained \([0-9]*\) updates.*/\1/p' "$work/log")
seq "$updates" | cmp - <(saves "$work/whole") || fail "saves after updates $(saves "$work/whole" | xargs)"
mpirun -n 2 "$bin/unet3d" train "${small[@]}" --train.epochs=5 --output.dir="$work/rare" --output.checkpoint_epochs=2 2>"$work/log" ||
  { cat "$work/log" >&2; fail "rare saves"; }
u=$((updates / 2))
printf '%s\n' $((2 * u)) $((4 * u)) $((5 * u)) | cmp - <(saves "$work/rare") || fail "saves after updates $(saves "$work/rare" | xargs)"
grep -qE "saves: training waited [0-9.e-]+ s for them, [0-9.e-]+ % of the run" "$work/log" || { cat "$work/log" >&2; fail "no cost of saves"; }

# Without validation cases nothing is called a validation loss.
mpirun -n 2 "$bin/unet3d" train "${small[@]/--split.validation=0.2/--split.validation=0}" --train.epochs=1 --output.dir="$work/blind" 2>"$work/log" ||
  { cat "$work/log" >&2; fail "no validation cases"; }
grep -q "; without validation cases best.h5 is the last whole epoch" "$work/log" || { cat "$work/log" >&2; fail "no word on best.h5"; }
if grep -qi "validation loss" "$work/log" "$work/blind/report.html"; then fail "a validation loss without validation cases"; fi
[ -s "$work/blind/best.h5" ] || fail "no best.h5 without validation cases"

for f in best.h5 last.h5; do [ -s "$work/n2/$f" ] || fail "$f is missing"; done
echo "validation: all as it should be"
