#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# comm.all_reduce=reproducible: 1, 2 and 4 ranks with the same global batch give the same bits: weights, optimizer, losses, norms
# and validation. And what a user sees of a run on several ranks (features 39, 173, 175, 178, 179).
# shellcheck source=tests/e2e/common.sh
source "$(dirname "$0")/common.sh"
export OMP_NUM_THREADS=1  # bits depend on the threads of a rank

train() {  # train RANKS DIR ARGS...
  local n=$1 dir=$2
  shift 2
  mpirun -n "$n" "$bin/unet3d" train "${small[@]}" --train.epochs=3 --model.dropout=0.1 --output.log_every=1 --output.dir="$dir" \
    "$@" >"$dir.log" 2>&1 || { cat "$dir.log" >&2; fail "train $n $dir $*"; }
}

# The log without what depends on the clock.
numbers() { sed -E '/"kind":"checkpoint"/d; s/"(samples_per_s|step_s|data_wait_share|comm_wait_share|slowest_rank|slowest_rank_s|median_rank_s|save_s|seconds)":[^,}]*//g' "$1/metrics.jsonl"; }

same() {  # same DIR DIR
  "$bin/compare_checkpoints" "$1/last.h5" "$2/last.h5" training.world_size || fail "$2: not the bits of $1"
  diff <(numbers "$1") <(numbers "$2") >&2 || fail "$2: not the log of $1"
}

# The global batch of 4 samples, shared in all ways that there are; the last window of an epoch holds fewer than 4.
repro=(--comm.all_reduce=reproducible)
train 1 "$work/one" --train.batch=1 --train.accumulate=4 "${repro[@]}"
grep -q ": 7 train," "$work/one.log" || fail "not 7 training cases: then the last window of an epoch may be a whole one"
grep -q '"kind":"validation"' "$work/one/metrics.jsonl" || fail "no validation"
train 1 "$work/batch2" --train.batch=2 --train.accumulate=2 "${repro[@]}"
train 2 "$work/two" --train.batch=1 --train.accumulate=2 "${repro[@]}"
train 4 "$work/four" --train.batch=1 --train.accumulate=1 "${repro[@]}"
for dir in batch2 two four; do same "$work/one" "$work/$dir"; done

# The control: without it the bits differ, so that the comparison says something.
train 2 "$work/plain" --train.batch=1 --train.accumulate=2
if "$bin/compare_checkpoints" "$work/one/last.h5" "$work/plain/last.h5" training.world_size 2>/dev/null; then
  fail "the default sums have the same bits: this test shows nothing"
fi

# Shards of two samples; 16-bit computation.
train 1 "$work/shard1" --train.batch=4 --comm.shard_samples=2 "${repro[@]}"
train 2 "$work/shard2" --train.batch=2 --comm.shard_samples=2 "${repro[@]}"
same "$work/shard1" "$work/shard2"
for precision in bf16 fp16; do
  train 1 "$work/$precision.1" --train.accumulate=4 --precision=$precision "${repro[@]}"
  train 4 "$work/$precision.4" --precision=$precision "${repro[@]}"
  same "$work/$precision.1" "$work/$precision.4"
done

# Stopped on 4 ranks, resumed on 2: still the straight run's bits.
train 4 "$work/moved" "${repro[@]}" --train.max_updates=3
train 2 "$work/moved" --train.accumulate=2 "${repro[@]}" --resume
"$bin/compare_checkpoints" "$work/one/last.h5" "$work/moved/last.h5" training.world_size || fail "moved: not the bits of one"

# What cannot be is refused.
for norm in batch sync_batch; do
  expect_failure 2 "model.norm=$norm: statistics over a batch" mpirun -n 2 "$bin/unet3d" train "${small[@]}" "${repro[@]}" \
    --model.norm=$norm --output.dir="$work/no"
done
expect_failure 2 "wanted 1, 2, 4, 8, ... shards a rank" mpirun -n 2 "$bin/unet3d" train "${small[@]}" "${repro[@]}" \
  --train.accumulate=3 --output.dir="$work/no"
expect_failure 2 "gradient_type=f16: its sums are formed in f32" mpirun -n 2 "$bin/unet3d" train "${small[@]}" "${repro[@]}" \
  --comm.gradient_type=f16 --output.dir="$work/no"

# Row 39: there is one device a process; a list of them is no setting.
expect_failure 2 "device" mpirun -n 2 "$bin/unet3d" train "${small[@]}" --train.devices=0,1 --output.dir="$work/no"

# Row 173: what 4 ranks write is written once, by rank 0. Row 178: 4 ranks count each validation case once (same() compared the
# losses, whose mean a case counted twice would move).
[ "$(ls "$work/one")" = "$(ls "$work/four")" ] || fail "4 ranks leave other files than one"
[ "$(wc -l <"$work/one/metrics.jsonl")" -eq "$(wc -l <"$work/four/metrics.jsonl")" ] || fail "4 ranks log other lines than one"

# Row 179: effective batch and learning rate are told, and what a linear rule made of it.
grep -q "effective batch 4, peak learning rate 0.003," "$work/four.log" || fail "effective batch or learning rate is not told"
train 2 "$work/linear" --optim.scale_lr=linear --train.max_updates=1
grep -q "effective batch 2, peak learning rate 0.006 (0.003 x 2 ranks)" "$work/linear.log" || fail "the scaled rate is not told"

# Row 175: batch norm on several ranks without joined statistics warns; joined, or alone, it does not. Row 60: so does batch 1.
train 2 "$work/plain_bn" --model.norm=batch --train.batch=2 --train.max_updates=1
grep -q "batch norm with 2 ranks: each rank normalises with its own statistics" "$work/plain_bn.log" || fail "no warning"
train 2 "$work/sync_bn" --model.norm=sync_batch --train.max_updates=1
if grep -q "batch norm with" "$work/sync_bn.log"; then fail "sync_batch warns"; fi
train 1 "$work/one_bn" --model.norm=batch --train.max_updates=1
grep -q "batch norm with batch 1" "$work/one_bn.log" || fail "no warning about batch 1"
if grep -q "1 ranks" "$work/one_bn.log"; then fail "one rank is warned about many"; fi
echo "reproducible: all as it should be"
