#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The batch template on a real Slurm (features 166-168): a job whose time limit is shorter than its run saves, requeues itself and goes
# on, with the bits of a run that was never stopped. Exit code 77: no Slurm here.
root=$(cd "$(dirname "$0")/../.." && pwd)
# shellcheck source=tests/slurm/cluster.sh
source "$root/tests/slurm/cluster.sh"
slurm_possible || exit 77
# shellcheck source=tests/e2e/common.sh
source "$root/tests/e2e/common.sh"
trap 'slurm_stop "$work/slurm"; rm -rf "$work"' EXIT
slurm_start "$work/slurm" || fail "Slurm did not start"

# Far more epochs than the test has time for: the limit comes first, whatever the machine's speed.
options=("${small[@]}" --train.epochs=20000 --train.patience=0 --output.log_every=1)
lines() { grep -c "$1" "$2" 2>/dev/null || true; }
wait_for() {  # wait_for SECONDS WHAT COMMAND...
  local seconds=$1 what=$2
  shift 2
  for _ in $(seq $((seconds * 5))); do
    "$@" && return
    sleep 0.2
  done
  cat "$work/job.out" >&2
  tail -n 20 "$work"/slurm/log/slurm*.log >&2
  fail "after $seconds s: $what"
}

# Three minutes, signalled at least 90 s before their end and at most a minute earlier: after 30 to 90 s, so that each start makes
# updates (with two minutes each start was signalled as it began, and the job went round without any).
cd "$work"
job=$(UNET3D="$bin/unet3d" sbatch --parsable --nodes=2 --ntasks-per-node=1 --cpus-per-task=1 --time=3 --signal=USR1@90 \
  --output="$work/job.out" "$root/slurm/unet3d-cpu.sbatch" "${options[@]}" --output.dir="$work/run")
wait_for 150 "the job did not requeue itself" grep -qs "requeueing job $job" "$work/job.out"
grep -q "stopped by a signal after update" "$work/job.out" || fail "the time limit's signal was not obeyed"
wait_for 60 "the job was not started again" grep -q "restart [1-9]" "$work/job.out"
before=$(lines '"kind":"train"' "$work/run/metrics.jsonl")
# The limit's signal may come as early as the restarted program begins to listen: then there is a third start.
more() { [ "$(lines '"kind":"train"' "$work/run/metrics.jsonl")" -ge $((before + 5)) ]; }
wait_for 200 "the restarted job makes no updates" more
grep -q "resumed from" "$work/job.out" || fail "the restarted job did not resume"

# Cancelled: SIGTERM to the ranks, so it saves once more. One update more has the bits of a straight run of as many.
stops=$(lines "stopped by a signal after update" "$work/job.out")
scancel "$job"
stopped() { [ "$(lines "stopped by a signal after update" "$work/job.out")" -gt "$stops" ]; }
wait_for 30 "the cancelled run did not save" stopped
updates=$(sed -n 's/.*stopped by a signal after update \([0-9]*\) of.*/\1/p' "$work/job.out" | tail -n 1)
updates=$((updates + 1))
for run in run straight; do
  mpirun -n 2 "$bin/unet3d" train "${options[@]}" --resume --train.max_updates=$updates --output.dir="$work/$run" \
    >"$work/$run.log" 2>&1 || { cat "$work/$run.log" >&2; fail "the $run run"; }
done
"$bin/compare_checkpoints" "$work/straight/last.h5" "$work/run/last.h5" || fail "requeued: not the bits of the straight run"
echo "slurm: all as it should be, $(grep -c '^job ' "$work/job.out") starts, $updates updates"
