#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Times one training step of UNet3d here and in PyTorch, in turn (A B C D A B C D ...), and prints the ratios.
#
#   apps/bench/compare_pytorch.sh [--rounds N] [--base B] [--size DxHxW] [--batch N] [--threads T] [--json FILE]
#
# PyTorch comes from pip into a virtual environment of its own ($BORA_TORCH_VENV, default ~/.cache/bora-torch); nothing else in
# this project needs it. "tuned" is PyTorch with an allocator that keeps its pages, which a careful user could set; "stock" is as
# installed. Times are medians of the rounds' medians; the machine should be otherwise idle.
set -euo pipefail

root=$(cd "$(dirname "$0")/../.." && pwd)
rounds=5 base=16 size=64x64x64 batch=1 threads=2 json=""
while [ $# -gt 0 ]; do
  case $1 in
    --rounds) rounds=$2; shift 2 ;;
    --base) base=$2; shift 2 ;;
    --size) size=$2; shift 2 ;;
    --batch) batch=$2; shift 2 ;;
    --threads) threads=$2; shift 2 ;;
    --json) json=$2; shift 2 ;;
    -h|--help) sed -n '3,10p' "$0"; exit 0 ;;
    *) echo "compare_pytorch.sh: unknown option '$1' (--help lists them)" >&2; exit 2 ;;
  esac
done

venv=${BORA_TORCH_VENV:-$HOME/.cache/bora-torch}
if ! "$venv/bin/python" -c 'import torch' 2>/dev/null; then
  echo "installing PyTorch into $venv (once)"
  python3 -m venv "$venv"
  "$venv/bin/pip" install --quiet torch numpy
fi
bench=${BORA_BENCH:-$root/build/cpu-release/bin/bench_step}
[ -x "$bench" ] || { echo "compare_pytorch.sh: $bench is missing; build it with ./check or 'cmake --build --preset cpu-release'" >&2; exit 1; }

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
args=(--base "$base" --size "$size" --batch "$batch" --threads "$threads")
torch() { "$venv/bin/python" "$root/apps/bench/unet3d_torch.py" "${args[@]}" "$@"; }
tuned() {
  GLIBC_TUNABLES=glibc.malloc.hugetlb=1 MALLOC_MMAP_MAX_=0 MALLOC_TRIM_THRESHOLD_=17179869184 \
    MALLOC_TOP_PAD_=268435456 torch "$@"
}
for round in $(seq "$rounds"); do
  echo "round $round of $rounds" >&2
  OMP_NUM_THREADS=$threads "$bench" --model.base="$base" --size="$size" --batch="$batch" --no-ops \
    --json="$work/ours.$round" >/dev/null
  tuned --json "$work/tuned.$round"
  tuned --channels-last --json "$work/tuned_channels_last.$round"
  torch --json "$work/stock.$round"
done
"$venv/bin/python" - "$work" "$rounds" "$json" "$base" "$size" "$batch" "$threads" <<'PY'
import json, statistics, sys
work, rounds, out, base, size, batch, threads = sys.argv[1], int(sys.argv[2]), *sys.argv[3:]
read = lambda name: [json.load(open(f"{work}/{name}.{r + 1}")) for r in range(rounds)]
names = ["ours", "tuned", "tuned_channels_last", "stock"]
runs = {n: read(n) for n in names}
median = {n: statistics.median(r["median_ms"] for r in runs[n]) for n in names}
best = min(names[1:3], key=median.get)
print(f"UNet3d base {base}, {size}, batch {batch}, f32, {threads} threads, {rounds} rounds; torch {runs['tuned'][0]['torch']}")
print(f"{'':22}{'median ms':>10}{'range of rounds':>20}{'theirs/ours':>13}{'range':>16}{'peak MiB':>10}")
rows = {}
for n in names:
    ms = [r["median_ms"] for r in runs[n]]
    ratio = [t / o["median_ms"] for t, o in zip(ms, runs["ours"])]
    rows[n] = {"median_ms": median[n], "rounds_ms": ms, "ratio": statistics.median(ratio), "ratios": ratio,
               "peak_mib": statistics.median(r["peak_mib"] for r in runs[n])}
    print(f"{n:22}{median[n]:10.1f}{min(ms):10.1f} -{max(ms):8.1f}{rows[n]['ratio']:13.2f}"
          f"{min(ratio):8.2f} -{max(ratio):6.2f}{rows[n]['peak_mib']:10.0f}")
print(f"PyTorch at its best ({best}) takes {rows[best]['ratio']:.2f} times our step")
if out:
    json.dump({"base": int(base), "size": size, "batch": int(batch), "threads": int(threads), "precision": "f32",
               "torch": runs["tuned"][0]["torch"], "best": best, "rows": rows}, open(out, "w"), indent=1)
PY
