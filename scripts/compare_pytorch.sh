#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Times one training step here and in PyTorch, in turn (ours, theirs, ours, theirs, ...), and prints medians, spread and ratios.
#
#   scripts/compare_pytorch.sh [--quick | --full] [--json FILE] [filters]
#
#   (nothing)    both networks at base 16 and 32, 64x64x64, batch 1 and 2, fp32 and bf16, 2 threads: an hour or more
#   --quick      both networks at base 16, 64x64x64, batch 1, fp32 and bf16, 2 threads, 2 rounds: a few minutes
#   --full       as without, also 96x96x96 and 1 thread: many hours
#   --json FILE  also write the result, after each row: {"torch", "settings", "machine", "rows": [{case, base, size, batch,
#                precision, threads, ours_ms, torch_best_ms, torch_stock_ms, ratio_best, ratio_stock, ours_peak_mib, ...}]}
#   --rounds N   rounds of each row (5): each runs every program once, in a process of its own
#   --steps N    counted steps of a process (5), after 2 that are not
#
# Filters replace what the choice above says, and take lists (--base 16,32):
#   --case unet3d,plain   --base B   --size DxHxW   --batch N   --precision fp32,bf16   --threads T
#
# Networks: unet3d is the trainer's own, plain the usual 3-D U-Net (docs/benchmarking.md). Settings of PyTorch:
#   best   an allocator that keeps its pages (environment variables that a careful user could set), and contiguous tensors or
#          channels_last_3d, whichever has the smaller median; bf16 by torch.autocast
#   stock  as installed: no environment variables, contiguous; fewer steps, since it can be ten times slower
# Ratios are theirs / ours: above 1 we are faster. The machine should be otherwise idle.
#
# PyTorch comes from pip into a virtual environment of its own ($BORA_TORCH_VENV, default ~/.cache/bora-torch); nothing else in
# this project needs it. Our program is build/cpu-release/bin/bench_step, or $BORA_BENCH.
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
fail() { echo "compare_pytorch.sh: $1" >&2; exit 2; }
cases=unet3d,plain bases=16,32 sizes=64x64x64 batches=1,2 precisions=fp32,bf16 threads_list=2
rounds=5 steps=5 json="" pilot=false
chosen=()  # explicit filters, applied after --quick or --full
while [ $# -gt 0 ]; do
  case $1 in
    --quick) bases=16 batches=1 rounds=2 steps=3 pilot=true; shift ;;
    --full) sizes=64x64x64,96x96x96 threads_list=1,2; shift ;;
    --case|--base|--size|--batch|--precision|--threads|--rounds|--steps|--json)
      [ $# -ge 2 ] || fail "$1 wants a value"
      chosen+=("$1" "$2"); shift 2 ;;
    -h|--help) sed -n '3,/^set -e/{/^#/s/^# \{0,1\}//p}' "$0"; exit 0 ;;
    *) fail "unknown option '$1' (--help lists them)" ;;
  esac
done
# shellcheck source=scripts/lists.sh
source "$root/scripts/lists.sh"
for ((i = 0; i < ${#chosen[@]}; i += 2)); do
  value=${chosen[i + 1]}
  case ${chosen[i]} in
    --case) cases=$value ;;
    --base) bases=$value ;;
    --size) sizes=$value ;;
    --batch) batches=$value ;;
    --precision) precisions=$value ;;
    --threads) threads_list=$value ;;
    --rounds) rounds=$value ;;
    --steps) steps=$value ;;
    --json) json=$value ;;
  esac
done
cases=$(list "$cases" 'unet3d|plain')
bases=$(list "$bases" "$number")
sizes=$(list "$sizes" "${number}x${number}x$number")
batches=$(list "$batches" "$number")
precisions=$(list "$precisions" 'fp32|bf16')
threads_list=$(list "$threads_list" "$number")
rounds=$(list "$rounds" "$number")
steps=$(list "$steps" "$number")

bench=${BORA_BENCH:-$root/build/cpu-release/bin/bench_step}
[ -x "$bench" ] || fail "$bench is missing; build it with ./check or 'cmake --build --preset cpu-release'"
venv=${BORA_TORCH_VENV:-$HOME/.cache/bora-torch}
if ! "$venv/bin/python" -c 'import torch' 2>/dev/null; then
  echo "installing PyTorch into $venv (once)" >&2
  python3 -m venv "$venv"
  "$venv/bin/pip" install --quiet torch numpy
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
plain_env=(env -u GLIBC_TUNABLES -u MALLOC_MMAP_MAX_ -u MALLOC_TRIM_THRESHOLD_ -u MALLOC_TOP_PAD_ -u LD_PRELOAD)
pages_env=(GLIBC_TUNABLES=glibc.malloc.hugetlb=1 MALLOC_MMAP_MAX_=0 MALLOC_TRIM_THRESHOLD_=17179869184
  MALLOC_TOP_PAD_=268435456)

# ours <file>, theirs <file> <variable=value>... -- <option>...: one process, its figures into the file. For the row in $network,
# $base, $size, $batch, $precision, $threads.
ours() {
  "${plain_env[@]}" OMP_NUM_THREADS="$threads" "$bench" --case="$network" --model.base="$base" --size="$size" \
    --batch="$batch" --precision="$precision" --warmup=2 --repeats="$steps" --no-ops --json="$1" >/dev/null
}
theirs() {
  local file=$1 variables=()
  shift
  while [ "$1" != -- ]; do variables+=("$1"); shift; done
  shift
  "${plain_env[@]}" "${variables[@]}" OMP_NUM_THREADS="$threads" "$venv/bin/python" "$root/apps/bench/unet3d_torch.py" \
    --case "$network" --base "$base" --size "$size" --batch "$batch" --precision "$precision" --threads "$threads" \
    --json "$file" "$@"
}

row=0
while read -r threads size network base batch precision; do
  row=$((row + 1))
  folder=$work/$(printf '%03d' "$row")
  mkdir "$folder"
  layouts=(contiguous channels_last)
  for round in $(seq "$rounds"); do
    echo "row $row, round $round of $rounds: $network base $base, $size, batch $batch, $precision, $threads threads" >&2
    ours "$folder/ours.$round.json"
    for layout in "${layouts[@]}"; do
      options=(--warmup 2 --repeats "$steps")
      if [ "$layout" = channels_last ]; then options+=(--channels-last); fi
      theirs "$folder/$layout.$round.json" "${pages_env[@]}" -- "${options[@]}"
    done
    theirs "$folder/stock.$round.json" -- --warmup 1 --repeats 3
    if $pilot && [ "$round" = 1 ]; then
      # Quick: the layout that lost the first round is left out of the others.
      mapfile -t layouts < <("$venv/bin/python" "$root/apps/bench/compare_report.py" --faster "$folder")
    fi
  done
  report=("$venv/bin/python" "$root/apps/bench/compare_report.py" "$work")
  if [ -n "$json" ]; then report+=(--json "$json"); fi
  "${report[@]}" >"$work/table.txt"
done < <(
  for threads in $threads_list; do for size in $sizes; do for network in $cases; do for base in $bases; do
    for batch in $batches; do for precision in $precisions; do
      echo "$threads $size $network $base $batch $precision"
    done; done
  done; done; done; done
)
cat "$work/table.txt"
