#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Times the start of a run: from the start of its processes (and of mpirun) to the end of the first training step, without data.
#
#   apps/bench/start_time.sh [--ranks N] [--rounds N] [--key=value ...]
#
# Runs bench_start on N ranks (2) under mpirun, --rounds times (3), and prints the parts of each round. Other flags (--model.base=16,
# --size=64x64x64, --precision=bf16, ...) go to bench_start, whose --help lists them.
set -euo pipefail

root=$(cd "$(dirname "$0")/../.." && pwd)
# shellcheck source=scripts/mpi_env.sh
source "$root/scripts/mpi_env.sh"
ranks=2 rounds=3 flags=()
while [ $# -gt 0 ]; do
  case $1 in
    --ranks) ranks=$2; shift 2 ;;
    --rounds) rounds=$2; shift 2 ;;
    -h|--help) sed -n '3,9{s/^# \{0,1\}//;p}' "$0"; exit 0 ;;
    *) flags+=("$1"); shift ;;
  esac
done
start=${BORA_BENCH_START:-$root/build/cpu-release/bin/bench_start}
if ! [ -x "$start" ]; then
  echo "start_time.sh: $start is missing; build it with ./check or 'cmake --build --preset cpu-release'" >&2
  exit 2
fi
bora_mpi_env "$ranks"
for round in $(seq "$rounds"); do
  echo "round $round of $rounds"
  mpirun -n "$ranks" "$start" "--launched=$(date +%s.%N)" "${flags[@]}"
done
