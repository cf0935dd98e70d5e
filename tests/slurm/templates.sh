#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The batch template for GPUs on a real Slurm whose nodes have one (made-up) GPU each: one task a GPU, each task sees index 0, and
# without a device that CUDA knows the job ends at once, says why, and does not requeue itself. Ranks that srun starts without a
# protocol of this MPI speak by TCP. Features 5, 11, 166, 170. Exit code 77: no Slurm here.
root=$(cd "$(dirname "$0")/../.." && pwd)
# shellcheck source=tests/slurm/cluster.sh
source "$root/tests/slurm/cluster.sh"
slurm_possible || exit 77
# shellcheck source=tests/e2e/common.sh
source "$root/tests/e2e/common.sh"
trap 'slurm_stop "$work/slurm"; rm -rf "$work"' EXIT
slurm_start "$work/slurm" gpus || fail "Slurm did not start"
cd "$work"

job=$(UNET3D="$bin/unet3d" sbatch --parsable --nodes=2 --ntasks-per-node=1 --gpus-per-task=1 --cpus-per-task=1 --time=2 \
  --output="$work/gpu.out" "$root/slurm/unet3d-gpu.sbatch" "${small[@]}" --output.dir="$work/gpu")
for _ in $(seq 150); do
  [ -n "$(squeue -h -j "$job" 2>/dev/null)" ] || break
  sleep 0.2
done
cat "$work/gpu.out"
[ -z "$(squeue -h -j "$job" 2>/dev/null)" ] || fail "the job for GPUs did not end"
grep -q "device=cuda: there is no CUDA device here: " "$work/gpu.out" || fail "the missing device is not told"
if grep -q "requeueing" "$work/gpu.out"; then fail "a usage error was requeued"; fi
# Each task has the one GPU of its node, as index 0.
# shellcheck disable=SC2016  # the task's variable
gpus=$(srun -N 2 -n 2 --gpus-per-task=1 --mpi=none bash -c 'echo "gpu $CUDA_VISIBLE_DEVICES"') || fail "srun with GPUs"
[ "$(grep -c '^gpu 0$' <<<"$gpus")" -eq 2 ] || fail "not one GPU a task: $gpus"

# An array job (166): each task has the arguments of its line, a log of its own, and a log for each of its ranks where that is asked for;
# one that is stopped requeues itself and no other.
printf '%s\n' "--train.seed=1 --output.dir=$work/sweep1 --train.max_updates=2" \
  "--train.seed=2 --output.dir=$work/sweep2 --train.max_hours=0.000001" >"$work/sweep.txt"
job=$(SWEEP=$work/sweep.txt TASK_LOGS=$work/ranks UNET3D="$bin/unet3d" sbatch --parsable --array=1-3 --nodes=1 --ntasks-per-node=1 \
  --cpus-per-task=1 --time=2 --output="$work/sweep-%A_%a.out" "$root/slurm/unet3d-cpu.sbatch" "${small[@]}" --train.epochs=1)
# Under load a task that has been submitted first may run last: all three have their say before the array is ended.
for _ in $(seq 450); do
  if grep -qs "requeueing" "$work/sweep-${job}_2.out" && grep -qs "there is no line 3" "$work/sweep-${job}_3.out" &&
    grep -qs "trained 2 updates" "$work"/ranks/*-0.log; then break; fi
  sleep 0.2
done
grep -q "requeueing job ${job}_2" "$work/sweep-${job}_2.out" || { cat "$work"/sweep*.out >&2; fail "the stopped task did not requeue itself"; }
scancel "$job"
if grep -q "requeueing" "$work/sweep-${job}_1.out"; then fail "a task that had ended was requeued"; fi
grep -q "there is no line 3" "$work/sweep-${job}_3.out" || fail "a task without a line is not told"
grep -q "seed = 2" "$work/sweep2/config.toml" || fail "the task has not its line's arguments"
grep -q "trained 2 updates" "$work"/ranks/*-0.log || fail "no log of a rank"

# Without PMI: Slurm's own variables, TCP. (n1 and n2 are this host, under names that nobody resolves.)
MASTER_ADDR=127.0.0.1 srun -N 2 -n 2 --mpi=none "$bin/unet3d" train "${small[@]}" --train.epochs=1 --train.max_updates=2 \
  --output.dir="$work/tcp" >"$work/tcp.log" 2>&1 || { cat "$work/tcp.log" >&2; fail "srun --mpi=none"; }
grep -q "speak by TCP" "$work/tcp.log" || { cat "$work/tcp.log" >&2; fail "TCP is not told"; }
mpirun -n 2 "$bin/unet3d" train "${small[@]}" --train.epochs=1 --train.max_updates=2 --output.dir="$work/mpi" >"$work/mpi.log" 2>&1 ||
  { cat "$work/mpi.log" >&2; fail "mpirun"; }
"$bin/compare_checkpoints" "$work/mpi/last.h5" "$work/tcp/last.h5" || fail "srun by TCP: not mpirun's bits"
echo "slurm templates: all as it should be"
