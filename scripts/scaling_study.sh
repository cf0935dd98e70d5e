#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs the same training steps on several numbers of ranks and says how they scale.
#
#   scripts/scaling_study.sh --ranks 1,2,4 --output study [options] [--key=value ...]
#
#   --ranks LIST      numbers of ranks
#   --output FOLDER   study.jsonl (a line a job), scaling.csv, scaling.json, scaling.png, and each job's log
#   --mode LIST       weak (the batch of each rank stays; the default), strong (the batch of all ranks together stays: --global-batch)
#   --global-batch N  samples of all ranks together in strong scaling (the largest number of ranks)
#   --data LIST       off (noise; the default), on (samples from --data-root through the loader)
#   --data-root DIR   data set for --data on (samples/urban-wind)
#   --precision LIST  fp32 (the default), bf16, fp16
#   --accumulate LIST micro-steps an update (1)
#   --bucket-mib LIST gradients that are reduced together, MiB (0: automatic)
#   --rounds N        jobs of each setting (3): each round runs all of them, so that a slow hour hits all alike
#   --launcher TEXT   what starts N ranks; N is put in for {n}: "mpirun -n {n}" (the default), "srun --mpi=pmix -n {n}"
#   --link            also measure latency and bandwidth between the ranks, and predict the step by them
#   --report-only     only the tables and the plot of what is in FOLDER
#
# What is left goes to bench_scaling, whose --help lists its keys (--model.base=32, --size=96x96x96, --repeats=20, ...). A study that
# was broken off goes on where it stopped: jobs whose line is in study.jsonl are not run again. Inside a batch job give it the job's
# launcher; docs/clusters.md shows it.
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
fail() { echo "scaling_study.sh: $1" >&2; exit 2; }
ranks="" output="" modes=weak global=0 data=off data_root=$root/samples/urban-wind precisions=fp32 accumulates=1 buckets=0 rounds=3
launcher="mpirun -n {n}" report_only=false keys=()
while [ $# -gt 0 ]; do
  case $1 in
    --ranks|--output|--mode|--global-batch|--data|--data-root|--precision|--accumulate|--bucket-mib|--rounds|--launcher)
      [ $# -ge 2 ] || fail "$1 wants a value"
      case $1 in
        --ranks) ranks=$2 ;;
        --output) output=$2 ;;
        --mode) modes=$2 ;;
        --global-batch) global=$2 ;;
        --data) data=$2 ;;
        --data-root) data_root=$2 ;;
        --precision) precisions=$2 ;;
        --accumulate) accumulates=$2 ;;
        --bucket-mib) buckets=$2 ;;
        --rounds) rounds=$2 ;;
        --launcher) launcher=$2 ;;
      esac
      shift 2 ;;
    --link) keys+=(--link); shift ;;
    --report-only) report_only=true; shift ;;
    -h|--help) sed -n '3,/^set -e/{/^#/s/^# \{0,1\}//p}' "$0"; exit 0 ;;
    --*=*) keys+=("$1"); shift ;;
    *) fail "unknown option '$1' (--help lists them)" ;;
  esac
done
# shellcheck source=scripts/lists.sh
source "$root/scripts/lists.sh"
[ -n "$output" ] || fail "--output FOLDER is missing"
bin=${BORA_BIN:-$root/build/cpu-release/bin}
[ -x "$bin/bench_scaling" ] || fail "$bin/bench_scaling is missing; build it with ./check or 'cmake --build --preset cpu-release'"
study=$output/study.jsonl
if ! $report_only; then
  [ -n "$ranks" ] || fail "--ranks LIST is missing"
  [[ $launcher == *"{n}"* ]] || fail "--launcher '$launcher' has no place for {n}"
  ranks=$(list "$ranks" "$number")
  modes=$(list "$modes" 'weak|strong')
  data=$(list "$data" 'on|off')
  precisions=$(list "$precisions" 'fp32|fp16|bf16')
  accumulates=$(list "$accumulates" "$number")
  buckets=$(list "$buckets" '[0-9]+')
  rounds=$(list "$rounds" "$number")
  if [ "$global" = 0 ]; then global=$(sort -n <<<"$ranks" | tail -n 1); fi
  list "$global" "$number" >/dev/null
  # shellcheck source=scripts/mpi_env.sh
  source "$root/scripts/mpi_env.sh"
  user_threads=${OMP_NUM_THREADS:-}
  if [[ $launcher == mpirun* ]]; then
    # Every job with as many threads a rank as the largest has: else one rank would be compared with its share of the cores.
    bora_mpi_env "$(sort -n <<<"$ranks" | tail -n 1)"
    export OMP_NUM_THREADS=${user_threads:-$OMP_NUM_THREADS}
  fi
  mkdir -p "$output"
  touch "$study" "$output/done"
  # Jobs of other settings would be taken for done, or joined with these.
  settings="launcher $launcher; OMP_NUM_THREADS ${OMP_NUM_THREADS:-unset}; data $data_root; keys ${keys[*]}"
  if [ -s "$study" ] && [ "$(cat "$output/settings" 2>/dev/null)" != "$settings" ]; then
    fail "$output holds a study with other settings ($(cat "$output/settings" 2>/dev/null)): wanted those ($settings), or another --output"
  fi
  echo "$settings" >"$output/settings"
  trap 'echo "scaling_study.sh: stopped; the same command goes on" >&2; exit 130' INT TERM
  failed=0
  for round in $(seq "$rounds"); do
    for mode in $modes; do for feed in $data; do for precision in $precisions; do for accumulate in $accumulates; do for bucket in $buckets; do
      for n in $ranks; do
        job="${mode/strong/strong$global}-data_$feed-$precision-a$accumulate-b$bucket-n$n-round$round"
        if grep -qx "$job" "$output/done"; then continue; fi
        options=(--precision="$precision" --accumulate="$accumulate" --bucket_mib="$bucket" --json="$study" "${keys[@]}")
        if [ "$mode" = strong ]; then options+=(--global_batch="$global"); fi
        if [ "$feed" = on ]; then options+=(--data.root="$data_root"); fi
        echo "round $round of $rounds: $job" >&2
        read -ra start <<<"${launcher//\{n\}/$n}"
        code=0
        "${start[@]}" "$bin/bench_scaling" "${options[@]}" >"$output/$job.log" 2>&1 || code=$?
        # Ended by a signal: so is the study (a launcher may have taken a Ctrl-C for itself).
        if ((code == 130 || code == 143)); then kill -INT $$; fi
        if ((code == 0)); then
          echo "$job" >>"$output/done"
        else
          failed=$((failed + 1))
          echo "scaling_study.sh: $job ended with code $code: $(grep -m 1 'error' "$output/$job.log" || echo "see its log") (all of it in $output/$job.log)" >&2
        fi
      done
    done; done; done; done; done
  done
fi
"$bin/scaling_report" --study="$study" --output="$output"
if ! $report_only && [ "$failed" -gt 0 ]; then fail "$failed jobs failed; the same command runs them again"; fi
