#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The batch template on a real Slurm (features 166-168): a job whose time limit comes before its end saves, requeues itself, goes on and
# ends, done, with the bits of a run that was never stopped. Exit code 77: no Slurm here.
root=$(cd "$(dirname "$0")/../.." && pwd)
# shellcheck source=tests/slurm/cluster.sh
source "$root/tests/slurm/cluster.sh"
slurm_possible || exit 77
# shellcheck source=tests/e2e/common.sh
source "$root/tests/e2e/common.sh"
trap 'thaw; slurm_stop "$work/slurm"; rm -rf "$work"' EXIT
frozen=()
thaw() { if ((${#frozen[@]} > 0)); then kill -CONT "${frozen[@]}" 2>/dev/null || true; fi; }
slurm_start "$work/slurm" || fail "Slurm did not start"

options=("${small[@]}" --train.epochs=12 --train.patience=0 --model.dropout=0.1 --output.log_every=1)
wait_for() {  # wait_for SECONDS WHAT COMMAND...
  local seconds=$1 what=$2
  shift 2
  for _ in $(seq $((seconds * 5))); do
    "$@" && return
    sleep 0.2
  done
  cat "$work"/*.out >&2
  tail -n 20 "$work"/slurm/log/slurm*.log >&2
  fail "after $seconds s: $what"
}
rows() { [ -f "$work/run/metrics.jsonl" ] && [ "$(grep -c '"kind":"train"' "$work/run/metrics.jsonl")" -ge "$1" ]; }
signalled() {  # whether SIGUSR1 (bit 9) waits for a rank, or has been obeyed: this Slurm thaws what it signals
  local pid mask
  if grep -qs "requeueing job" "$work/job.out"; then return 0; fi
  for pid in "${frozen[@]}"; do
    mask=$(sed -n 's/^ShdPnd:[[:space:]]*//p' "/proc/$pid/status" 2>/dev/null)
    if ((0x${mask:-0} & 0x200)); then return 0; fi
  done
  return 1
}
gone() { [ -z "$(squeue -h -j "$job" 2>/dev/null)" ]; }

# One minute, Slurm's shortest limit; it looks every half minute, so the signal comes 30 to 60 s after the start. The run is far shorter:
# its ranks are frozen after some updates until the signal waits for them. So the test does not depend on the machine's speed.
cd "$work"
job=$(UNET3D="$bin/unet3d" sbatch --parsable --nodes=2 --ntasks-per-node=1 --cpus-per-task=1 --time=1 --signal=USR1@1 \
  --output="$work/job.out" "$root/slurm/unet3d-cpu.sbatch" "${options[@]}" --output.dir="$work/run")
wait_for 30 "the job makes no updates" rows 3
mapfile -t frozen < <(ranks_of "$work/run")
[ "${#frozen[@]}" -eq 2 ] || fail "${#frozen[@]} ranks instead of 2"
kill -STOP "${frozen[@]}"
# Meanwhile the run that is never stopped.
mpirun -n 2 "$bin/unet3d" train "${options[@]}" --output.dir="$work/straight" >"$work/straight.log" 2>&1 ||
  { cat "$work/straight.log" >&2; fail "the straight run"; }
wait_for 90 "Slurm did not signal the ranks" signalled
thaw
wait_for 30 "the job did not requeue itself" grep -qs "requeueing job $job" "$work/job.out"
grep -q "stopped by a signal after update" "$work/job.out" || { cat "$work/job.out" >&2; fail "the time limit's signal was not obeyed"; }
wait_for 60 "the job did not end" gone
[ "$(grep -c 'restart [1-9]' "$work/job.out")" -eq 1 ] || { cat "$work/job.out" >&2; fail "not one restart"; }
grep -q "resumed from" "$work/job.out" || fail "the restarted job did not resume"
state=$(scontrol show job "$job")
if ! grep -q "JobState=COMPLETED" <<<"$state" || ! grep -q "ExitCode=0:0" <<<"$state"; then fail "the job did not end well: $state"; fi
for file in last best; do
  "$bin/compare_checkpoints" "$work/straight/$file.h5" "$work/run/$file.h5" || fail "requeued: $file.h5 has not the bits of the straight run"
done

# A job that is cancelled saves and does not requeue itself.
frozen=()
job=$(UNET3D="$bin/unet3d" sbatch --parsable --nodes=1 --ntasks-per-node=1 --cpus-per-task=1 --time=5 --output="$work/cancelled.out" \
  "$root/slurm/unet3d-cpu.sbatch" "${options[@]/--train.epochs=12/--train.epochs=20000}" --output.dir="$work/cancelled")
cancelled() { grep -qs "$1" "$work/cancelled.out" "$work/cancelled/metrics.jsonl"; }
wait_for 30 "the second job makes no updates" cancelled '"update":3'
scancel "$job"
wait_for 30 "the cancelled run did not save" cancelled "stopped by a signal after update"
wait_for 30 "the cancelled job did not end" gone
if grep -q "requeueing" "$work/cancelled.out"; then fail "a cancelled job was requeued"; fi
echo "slurm: all as it should be, signalled at the time limit after $(sed -n 's/.*stopped by a signal after update \([0-9]*\) of.*/\1/p' \
  "$work/job.out") updates"
