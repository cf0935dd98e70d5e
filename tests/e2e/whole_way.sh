#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Train, evaluate, predict on real cases with the real program (features 18, 47, 111-116, 135-139, 147, 148).
# shellcheck source=tests/e2e/common.sh
source "$(dirname "$0")/common.sh"
run=$work/run

mpirun -n 2 "$bin/unet3d" train "${small[@]}" --train.epochs=6 --output.dir="$run" --output.log_every=4 2>"$work/log" ||
  { cat "$work/log" >&2; fail "training"; }
for f in config.toml metrics.jsonl best.h5 last.h5; do [ -s "$run/$f" ] || fail "$run/$f is missing"; done
# Only rank 0 speaks and writes (feature 18).
[ "$(grep -c 'parameters' "$work/log")" -eq 1 ] || { cat "$work/log" >&2; fail "more than one rank announces itself"; }
for f in report.html pictures/hardest.png; do [ -s "$run/$f" ] || fail "$run/$f is missing"; done
[ "$(find "$run" -name 'events.out.tfevents.*' | wc -l)" -eq 1 ] || fail "event files: $(ls "$run")"
[ "$(find "$run" -type f | wc -l)" -le 10 ] || fail "unexpected files: $(ls "$run" "$run/pictures")"

python_free_field() { sed -n "s/.*\"kind\":\"$1\".*\"$2\":\([0-9.eE+-]*\).*/\1/p" "$run/metrics.jsonl"; }
first=$(python_free_field validation loss | head -n 1)
last=$(python_free_field validation loss | tail -n 1)
awk -v a="$first" -v b="$last" 'BEGIN { exit !(b < a) }' || fail "the validation loss did not fall: $first -> $last"
for key in lr gradient_norm samples_per_s step_s data_wait_share comm_wait_share slowest_rank charbonnier gradient_plain; do
  grep -q "\"$key\":" "$run/metrics.jsonl" || fail "no $key in metrics.jsonl"
done

# The saved settings are complete: they alone start the same run.
mpirun -n 2 "$bin/unet3d" train --config "$run/config.toml" --output.dir="$work/again" 2>"$work/log" ||
  { cat "$work/log" >&2; fail "training from config.toml"; }
"$bin/compare_checkpoints" "$run/last.h5" "$work/again/last.h5" || fail "config.toml gives another run"

# The gradient norm is logged before clipping, also with clipping off; over 100 (times the clip) it is told (feature 127).
clipped() {  # clipped NAME ARGS...: one update; its norm and factor
  mpirun -n 2 "$bin/unet3d" train "${small[@]}" --train.max_updates=1 --output.dir="$work/$1" "${@:2}" 2>"$work/$1.log" ||
    { cat "$work/$1.log" >&2; fail "clip: $1"; }
  sed -n 's/.*"gradient_norm":\([0-9.e+-]*\),"clip_factor":\([0-9.e+-]*\),.*/\1 \2/p' "$work/$1/metrics.jsonl"
}
read -r norm factor < <(clipped off --optim.clip=0)
awk -v f="$factor" 'BEGIN { exit !(f == 1) }' || fail "clip=0 multiplies with $factor"
if grep -q "gradient norm" "$work/off.log"; then fail "a gradient norm of $norm is warned of"; fi
read -r same factor < <(clipped small --optim.clip=0.001)
[ "$norm" = "$same" ] || fail "the norm before clipping is $norm without and $same with a clip"
awk -v n="$norm" -v f="$factor" 'BEGIN { d = n * f / 0.001 - 1; exit !(d < 1e-3 && d > -1e-3) }' || fail "clipped $norm by $factor"
grep -q "update 1: gradient norm .* is over 100 times the clip of 0.001" "$work/small.log" || fail "no warning of the small clip"
clipped steep --optim.clip=0 --loss.gradient_weight=1e5 >/dev/null
grep -q "is over 100, and optim.clip is off" "$work/steep.log" || { cat "$work/steep.log" >&2; fail "no warning without a clip"; }

# Evaluation: the same numbers for any number of ranks.
for n in 1 2 4; do
  mpirun -n "$n" "$bin/unet3d" evaluate --checkpoint="$run/best.h5" --output="$work/eval$n.csv" >"$work/table$n" 2>"$work/log" ||
    { cat "$work/log" >&2; fail "evaluation with $n ranks"; }
done
cmp "$work/eval1.csv" "$work/eval2.csv" || fail "evaluation differs between 1 and 2 ranks"
cmp "$work/eval1.csv" "$work/eval4.csv" || fail "evaluation differs between 1 and 4 ranks"
[ "$(grep -c '^pooled,' "$work/eval1.csv")" -eq 12 ] || fail "pooled rows: $(grep -c '^pooled,' "$work/eval1.csv")"

# Prediction: on the mask's grid, 0 in buildings, alone and with the truth and a picture.
mask=$(find "$data/mask_buildings" -name '285VF2_*')
"$bin/unet3d" predict --checkpoint="$run/best.h5" --output="$work/p.nc" --truth="$data/wind_speed_filled/285VF2_ws_filled.nc" \
  --picture="$work/p.png" "$mask" 2>"$work/log" || { cat "$work/log" >&2; fail "prediction"; }
for f in p.nc p.png; do [ -s "$work/$f" ] || fail "$f is missing"; done
[ "$(head -c 4 "$work/p.png" | tail -c 3)" = PNG ] || fail "the picture is no PNG"
mpirun -n 2 "$bin/unet3d" predict --checkpoint="$run/best.h5" --output="$work/many" "$data"/mask_buildings/28*.nc 2>"$work/log" ||
  { cat "$work/log" >&2; fail "prediction of several"; }
[ "$(find "$work/many" -name '*_prediction.nc' | wc -l)" -eq "$(find "$data/mask_buildings" -name '28*.nc' | wc -l)" ] ||
  fail "not every mask has a prediction"
# A city that has no angle in its name, for a network that is told the angle (feature 114): the same field as from a file named so.
mpirun -n 2 "$bin/unet3d" train "${small[@]}" --data.angle_channels --train.epochs=1 --output.dir="$work/angles" 2>"$work/log" ||
  { cat "$work/log" >&2; fail "training with angles"; }
cp "$mask" "$work/city.nc"
predict=("$bin/unet3d" predict --checkpoint="$work/angles/last.h5")
expect_failure 1 "no wind angle in the name" "${predict[@]}" --output="$work/city_p.nc" "$work/city.nc"
expect_failure 2 "is not told the angle" "$bin/unet3d" predict --checkpoint="$run/best.h5" --angle=30 --output="$work/no.nc" "$mask"
"${predict[@]}" --output="$work/named.nc" "$mask" 2>"$work/log" || { cat "$work/log" >&2; fail "prediction by name"; }
for angle in 285 100; do
  "${predict[@]}" --output="$work/city$angle.nc" --angle=$angle "$work/city.nc" 2>"$work/log" ||
    { cat "$work/log" >&2; fail "prediction at $angle degrees"; }
done
cmp "$work/named.nc" "$work/city285.nc" || fail "--angle=285 is not the 285 of the name"
if cmp -s "$work/city285.nc" "$work/city100.nc"; then fail "the angle does not reach the network"; fi

"$bin/unet3d" info >"$work/info" || fail "info"
grep -q "5428801 parameters" "$work/info" || fail "info does not count the parameters"
grep -q "packages: .*oneDNN.*HDF5" "$work/info" || fail "info does not name the packages"
echo "whole way: all as it should be"
