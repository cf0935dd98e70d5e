#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The programs with device=cuda in an emulator build, as a user runs them: what they say of the device, training, evaluation and
# prediction there and on the CPU with the same checkpoint (features 13, 47, 76, 114, 115, 145).
# shellcheck source=tests/e2e/common.sh
source "$(dirname "$0")/common.sh"
tiny=(--data.root="$data" --data.shape=9x8x6 --model.base=4 --model.levels=1 --optim.lr=3e-3 --split.validation=0.1 --split.test=0.8
      --train.batch=2 --output.log_every=1)
unet3d=$bin/unet3d

"$unet3d" info >"$work/info" 2>&1 || { cat "$work/info" >&2; fail "info"; }
grep -q "1 CUDA device: 0 emulated" "$work/info" || { cat "$work/info" >&2; fail "info does not tell the device"; }

train() {  # train NAME ARGS...
  "$unet3d" train "${tiny[@]}" --train.epochs="${epochs:-1}" --output.dir="$work/$1" "${@:2}" >"$work/$1.log" 2>&1 || { cat "$work/$1.log" >&2; fail "train $*"; }
}
train cpu
grep -q "device: cpu (the CUDA device of this build is an emulator" "$work/cpu.log" || { cat "$work/cpu.log" >&2; fail "auto does not say why"; }
# No byte of the device is touched by the host outside of copies.
BORA_EMULATOR_STRICT=1 train cuda --device=cuda
grep -q "device: cuda:0 emulated" "$work/cuda.log" || { cat "$work/cuda.log" >&2; fail "the device is not told"; }

# The CPU's curve within 1e-3 (tests/apps/device_trainer_test.cpp derives it).
losses() { sed -n 's/.*"kind":"\(train\|validation\)".*"loss":\([0-9.e+-]*\).*/\2/p' "$work/$1/metrics.jsonl"; }
paste <(losses cpu) <(losses cuda) | awk 'NF != 2 { exit 1 } { d = $2 / $1 - 1; if (d > 1e-3 || d < -1e-3) { print; exit 1 } } END { exit NR < 3 }' ||
  fail "another curve on the device"

# A checkpoint goes from device to device: the same scores, the same field.  One window a case: hundreds would take minutes here.
for device in cpu cuda; do
  "$unet3d" evaluate --checkpoint="$work/cuda/best.h5" --device=$device --part=validation --window=centred --output="$work/$device.csv" >"$work/out" 2>&1 ||
    { cat "$work/out" >&2; fail "evaluate on $device"; }
done
paste -d, <(grep '^pooled,unet3d' "$work/cpu.csv") <(grep '^pooled,unet3d' "$work/cuda.csv") |
  awk -F, '{ d = $5 / $20 - 1; if (d > 1e-4 || d < -1e-4) exit 1 } END { exit NR != 3 }' || fail "other scores on the device"
mask=$(find "$data/mask_buildings" -name '285VF2_*')
"$unet3d" predict --checkpoint="$work/cuda/best.h5" --device=cuda --window=centred --output="$work/p.nc" "$mask" >"$work/out" 2>&1 ||
  { cat "$work/out" >&2; fail "predict on the device"; }
[ -s "$work/p.nc" ] || fail "no prediction"
epochs=2 train cuda --resume --train.extend=hold --device=cpu

# What a device cannot do is refused with the key, before anything runs.
expect_failure 2 "comm.gradient_type=bf16" "$unet3d" train "${tiny[@]}" --train.epochs=1 --device=cuda --comm.gradient_type=bf16 \
  --output.dir="$work/bf16"
# Several ranks want NCCL between their devices, which a build without CUDA has not.
expect_failure 2 "NCCL communicator: this binary was built without CUDA" mpirun -n 2 "$unet3d" train "${tiny[@]}" \
  --train.epochs=1 --device=cuda --output.dir="$work/two"
"$bin/bench_step" --device=cuda --model.base=4 --model.levels=1 --size=6x5x4 --warmup=1 --repeats=2 --json="$work/bench.json" >"$work/out" 2>&1 ||
  { cat "$work/out" >&2; fail "bench_step"; }
grep -q "min 0.0" "$work/out" && fail "bench_step counts a step that took no time"
grep -q "device: cuda:0 emulated.*step replayed" "$work/out" || { cat "$work/out" >&2; fail "bench_step does not tell the device"; }
echo "device: all as it should be"
