#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Finds out on a machine with a GPU what the tests cannot: whether kernels and training are right there, and how fast they are.
# At most 8 minutes. docs/gpu.md says what each stage means and how to build for it.
#
#   scripts/gpu_check.sh [--build DIR] [--out FILE] [--seconds N] [--stages LIST] [--python PYTHON] [--dry-run]
#
#   --build DIR      where gpucheck is: DIR/bin/gpucheck or DIR/gpucheck, or the archive of scripts/pack_gpu_check.sh.
#                    Default: build/cuda; with --dry-run build/emu, build/cuda or build/cpu-release, whichever is there
#   --out FILE       the joined result (JSON), written anew after each stage; beside it -plans.json and .log (what the stages said).
#                    Default: docs/gpu/<date>-<gpu>-<commit>.json; with --dry-run none is kept
#   --seconds N      time for all of it (480). Below 300, without --stages: kernels by halves, no sanitizer, training or ncu, PyTorch in one layout
#   --stages LIST    only these, with commas, to look at something again: kernels, sanitizer, cudnn, nccl, training, throughput, ncu
#   --python PYTHON  with torch, and the folder of cuDNN if it came as a wheel. Default: python3
#   --plant KERNEL   for the test of this script: spoils this kernel's result
#   --dry-run        runs what needs no GPU: the emulated device's stages where it was built, else the table on the CPU, the
#                    PyTorch script on the CPU, joining and table; the rest reports no_device
#
# The exit code says whether results are right: 0, or 1 if a stage that judges them failed, broke off, ran out of time or (without
# --dry-run) found no GPU. Speed never changes it. 2: wrong use.
set -uo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
fail() { echo "gpu_check.sh: $1" >&2; exit 2; }
build="" out="" seconds="" stages="" python=python3 dry=false plant=()
while [ $# -gt 0 ]; do
  case $1 in
    --build | --out | --seconds | --stages | --python)
      [ $# -ge 2 ] || fail "$1 wants a value"
      case $1 in --build) build=$2 ;; --out) out=$2 ;; --seconds) seconds=$2 ;; --stages) stages=$2 ;; --python) python=$2 ;; esac
      shift 2 ;;
    --plant) [ $# -ge 2 ] || fail "$1 wants a value"; plant=(--plant="$2"); shift 2 ;;
    --dry-run) dry=true; shift ;;
    -h | --help) sed -n '3,/^set -u/{/^#/s/^# \{0,1\}//p}' "$0"; exit 0 ;;
    *) fail "unknown option '$1' (--help lists them)" ;;
  esac
done
# Without a GPU no time is dear, and the machine may be busy.
if [ -z "$seconds" ]; then seconds=$($dry && echo 3000 || echo 480); fi
[[ $seconds =~ ^[1-9][0-9]*$ ]] || fail "--seconds $seconds: wanted a positive number"
only_measures=false
if [ -n "$stages" ]; then only_measures=true; fi
[[ $stages =~ ^([a-z]+(,[a-z]+)*)?$ ]] || fail "--stages '$stages': wanted names with commas between, as kernels,training"
for name in ${stages//,/ }; do
  case $name in throughput | ncu) ;; *) only_measures=false ;; esac
  case $name in
    kernels | sanitizer | cudnn | nccl | training | throughput | ncu) ;;
    *) fail "--stages: '$name' is none (--help lists them)" ;;
  esac
done
if [ -z "$build" ]; then
  candidates=(cuda)
  $dry && candidates=(emu cuda cpu-release)
  for name in "${candidates[@]}"; do
    if [ -x "$root/build/$name/bin/gpucheck" ]; then build=$root/build/$name; break; fi
  done
  [ -n "$build" ] || fail "no gpucheck in ${candidates[*]/#/build/}; build it (docs/gpu.md), or give --build"
fi
if [ -n "$out" ]; then { mkdir -p "$(dirname "$out")" && : >>"$out"; } 2>/dev/null || fail "--out $out cannot be written"; fi
work=$(mktemp -d)
torch_pid="" stage_pid=""
# What runs goes, too: a stage holds the GPU.
# shellcheck disable=SC2317  # called by the trap
end() {
  local pid
  for pid in $stage_pid $torch_pid; do kill "$pid" 2>/dev/null; done
  if [ -n "$stage_pid" ]; then wait "$stage_pid" 2>/dev/null; fi
  rm -rf "$work"
}
trap end EXIT
trap 'echo "gpu_check.sh: interrupted${out:+; what was found lies in $out}" >&2; exit 130' INT
trap 'exit 143' TERM
if [ -f "$build" ]; then
  mkdir "$work/pack"
  tar -xf "$build" -C "$work/pack" --strip-components=1 || fail "cannot unpack $build"
  build=$work/pack
fi
check=""
for path in "$build/bin/gpucheck" "$build/gpucheck"; do
  if [ -x "$path" ]; then check=$path; break; fi
done
[ -n "$check" ] || fail "neither $build/bin/gpucheck nor $build/gpucheck can be run"

# CUDA's libraries: the toolkit's, else those of PyTorch's wheels. For our program only: PyTorch finds its own.
folders=()
if [ -d /usr/local/cuda/lib64 ]; then folders+=(/usr/local/cuda/lib64); fi
wheels=$("$python" -c '
import glob, sys
print("\n".join(f for p in sys.path for f in sorted(glob.glob(p + "/nvidia/*/lib"))))' 2>/dev/null) || wheels=""
while IFS= read -r folder; do
  if [ -n "$folder" ]; then folders+=("$folder"); fi
done <<<"$wheels"
# Tools that images keep off the path.
for folder in /usr/local/cuda/bin /opt/nvidia/nsight-compute/*; do
  if [ -d "$folder" ]; then PATH=$PATH:$folder; fi
done
libraries=$(IFS=:; echo "${folders[*]:-}")${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}

ulimit -c 0  # a crash would spend its time on writing memory to a disk
mkdir "$work/stages"
closing=15  # kept for joining and printing
left() { echo $((seconds - SECONDS - closing)); }
number=0

# check_it <argument>...: our program.
check_it() { LD_LIBRARY_PATH=$libraries "$check" "$@"; }
# mark <file> <stage> <status> <seconds> <text> [<log>]: the result of a stage that wrote none itself, with what it had found so far.
mark() {
  # 1 is the word on a stage that broke off.
  check_it mark --out="$1" --name="$2" --status="$3" --seconds="$4" --text="$5" ${6:+--log="$6"} --keep="$1.so_far" >/dev/null
  [ $? -le 1 ] || fail "$check does not know what this script asks of it; build it from the same source"
}
# join [<argument>...]: all results so far into one, as far as they go.
join() {
  local report=("$work/stages" "$@")
  $only_measures && report+=(--may_judge_nothing)
  $dry || report+=(--want_device)
  $dirty && report+=(--dirty)
  if [ -n "$out" ]; then report+=(--out="$out"); fi
  check_it report "${report[@]}"
}
# After a stage: whoever stops this script finds what was known by then.
keep() {
  if [ -z "$out" ]; then return; fi
  join --unfinished >/dev/null
  if [ -s "$work/$number.log" ]; then
    { echo "== $1"; tail -c 200000 "$work/$number.log"; } >>"${out%.json}.log"
  fi
}
# Whether a stage is wanted.
wanted() {
  [ -z "$stages" ] || [[ ,$stages, == *,$1,* ]]
}
# stage <name> <most seconds> <command>...: runs it with --out=FILE behind; whatever happens, FILE is there afterwards.
stage() {
  local name=$1 limit=$2 begin rc file log
  shift 2
  number=$((number + 1))
  file=$work/stages/$(printf '%02d' "$number")-${name//[^a-zA-Z0-9_]/-}.json
  log=$work/$number.log
  if $dry; then limit=$((limit * 5)); fi
  if [ "$(left)" -lt "$limit" ]; then limit=$(left); fi
  if [ "$limit" -lt 5 ]; then
    mark "$file" "$name" left_out 0 "no time was left"
    echo "$name: left out, no time was left"
    return
  fi
  begin=$SECONDS
  # Programs that can stop by themselves do so earlier, and keep what they have.
  # In the background, since a trap waits for a command in the foreground; timeout hands a TERM on.
  BUDGET=$((limit * 85 / 100)) timeout --kill-after=5 "$limit" "$@" --out="$file" >"$log" 2>&1 &
  stage_pid=$!
  wait "$stage_pid"
  rc=$?
  stage_pid=""
  grep -v '^doing ' "$log" | tail -n 3
  case $rc in
    0) ;;
    124 | 137)
      mark "$file" "$name" timed_out "$((SECONDS - begin))" "stopped after $limit s" "$log" ;;
    *)  # Its own word counts, unless that was written before it broke off (as under a sanitizer).
      if ! grep -qsE '"status": "(failed|error)"' "$file"; then
        mark "$file" "$name" error "$((SECONDS - begin))" "exit code $rc" "$log"
      fi ;;
  esac
  if [ ! -s "$file" ]; then mark "$file" "$name" error "$((SECONDS - begin))" "wrote no result" "$log"; fi
  keep "$name"
}
# own <name> <most seconds> <gpucheck argument>...
own() { run_own "$check" "$@"; }
run_own() {  # run_own <program> <name> <most seconds> <argument>...
  local program=$1 name=$2 limit=$3
  shift 3
  # shellcheck disable=SC2016  # the inner shell's
  stage "$name" "$limit" env LD_LIBRARY_PATH="$libraries" bash -c '"$0" "$@" --budget="$BUDGET"' "$program" "$@" --name="$name" "${tiny[@]}"
}
absent() {  # absent <name> <status> <text>
  number=$((number + 1))
  mark "$work/stages/$(printf '%02d' "$number")-${1//[^a-zA-Z0-9_]/-}.json" "$1" "$2" 0 "$3"
  echo "$1: $2, $3"
}

check_it --help >/dev/null || fail "$check does not start here: $(LD_LIBRARY_PATH=$libraries ldd "$check" 2>&1 | grep 'not found' | tr '\n' ' ')"
tiny=()
$dry && tiny=(--tiny)
dirty=false
if git -C "$root" rev-parse HEAD >/dev/null 2>&1 && [ -n "$(git -C "$root" status --porcelain 2>/dev/null)" ]; then dirty=true; fi
short=false
# Who names stages has decided already what is worth the time.
[ "$seconds" -lt 300 ] && [ -z "$stages" ] && short=true
smi=$(nvidia-smi --query-gpu=name,driver_version,clocks.sm,clocks.mem,clocks.max.sm,power.limit --format=csv,noheader 2>/dev/null) ||
  smi=""
# The first to start the driver and the libraries, from a disk that is cold.
own environment 60 environment --text="$smi"
# PyTorch's gigabytes are read while our stages compute.
timeout 120 "$python" -c 'import torch' >/dev/null 2>&1 &
torch_pid=$!
gpu=false
grep -q '"device": "gpu"' "$work/stages/01-environment.json" && gpu=true
if ! $gpu && ! $dry; then echo "gpu_check.sh: no GPU; --dry-run runs what needs none" >&2; fi

if [ -z "$out" ] && ! $dry; then
  name=$(sed -n 's/.*"gpu": "\(.*\)".*/\1/p' "$work/stages/01-environment.json" | head -n 1 | tr -c 'A-Za-z0-9\n' '-')
  commit=$(git -C "$root" rev-parse --short=12 HEAD 2>/dev/null || echo unknown)
  mkdir -p "$root/docs/gpu"
  out=$root/docs/gpu/$(date -u +%Y-%m-%d)-${name:-none}-$commit.json
fi
if [ -n "$out" ]; then rm -f "${out%.json}.log"; fi
plans=${out:-$work/run.json}
plans=${plans%.json}-plans.json

most=65
$short && most=30
if wanted kernels; then
  own kernels $most kernels "${plant[@]}"
  # A kernel that took the device with it has hidden those behind it.
  skip=""
  for _ in 1 2 3; do
    bad=$(sed -n 's/.*"device lost in": "\(.*\)".*/\1/p' "$work/stages/$(printf '%02d' "$number")"-kernels*.json 2>/dev/null)
    [ -n "$bad" ] || break
    skip=$skip${skip:+,}$bad
    own "kernels without $skip" 40 kernels --skip="$skip" "${plant[@]}"
  done
fi
if $dry && grep -q '"status": "no_device"' "$work"/stages/02-kernels.json 2>/dev/null; then
  own "kernels on the CPU" 60 kernels --device=cpu "${plant[@]}"
fi

# Whether <tool> can be used; else the stage says why not.
usable() {
  if ! wanted "$1"; then return 1; fi
  if $short; then absent "$1" not_wanted "less than 300 s were given"; return 1; fi
  if ! command -v "$2" >/dev/null; then absent "$1" not_available "$2 is not installed"; return 1; fi
  if ! $gpu; then absent "$1" no_device "it looks at kernels on a GPU"; return 1; fi
}
if usable sanitizer compute-sanitizer; then
  for tool in memcheck racecheck; do
    checks=()  # calls that fail are found by the program itself
    [ "$tool" = memcheck ] && checks=(--report-api-errors no)
    # shellcheck disable=SC2016
    stage "sanitizer $tool" 20 env LD_LIBRARY_PATH="$libraries" bash -c 'compute-sanitizer --tool "$0" "$@" --budget="$((BUDGET - 3))"' \
      "$tool" --error-exitcode 9 "${checks[@]}" "$check" kernels --tiny --runs=1 --name="sanitizer $tool" --only=norm_,pool,loss_sums,adamw,trilinear
    file=$(printf '%s/stages/%02d-sanitizer-%s.json' "$work" "$number" "$tool")
    # Some machines keep debuggers from the GPU: that is no fault of a kernel.
    if grep -qs 'not supported' "$work/$number.log" || grep -qs '"status": "no_device"' "$file"; then
      mark "$file" "sanitizer $tool" not_available 0 "compute-sanitizer cannot use this GPU" "$work/$number.log"
    fi
  done
fi

described=$root/tests/cudnn/devices/h200.json
[ -s "$described" ] || described=""
if wanted cudnn; then own cudnn $most cudnn ${described:+--prediction_file="$described"} --plan_file="$plans"; fi
if ! wanted nccl; then
  :
elif $short; then
  absent nccl not_wanted "less than 300 s were given"
else
  # MPI's own libraries do not look where the program says. Not for the other programs: they would take the carried C++ library along
  # into NVIDIA's tools.
  plain=$libraries
  libraries=$(realpath "$build")/lib:$plain
  if LD_LIBRARY_PATH=$libraries "${check}_nccl" --help >/dev/null 2>&1; then
    run_own "${check}_nccl" nccl 25
  else
    absent nccl not_available "${check}_nccl does not start: $(LD_LIBRARY_PATH=$libraries ldd "${check}_nccl" 2>&1 |
      grep 'not found' | tr -d '\t' | tr '\n' ' ')"
  fi
  libraries=$plain
fi
if ! wanted training; then
  :
elif $short; then
  absent training not_wanted "less than 300 s were given"
else
  own training 70 training
fi

# One process a way and round, ways in turn, the networks that matter most first.
has_torch=false
wait "$torch_pid" && has_torch=true
torch_pid=""
ways=(eager graph channels_last contiguous)
$short && ways=(graph channels_last)
rows=("mlperf 2" "mlperf 7" "mlperf 2" "wind 2")
$dry && rows=("mlperf 1" "wind 1")
if ! wanted throughput; then rows=(); fi
if ! $has_torch && wanted throughput; then absent "throughput torch" not_available "no torch in $python"; fi
torch_size=()
torch_device=cuda
if ! $gpu; then
  torch_size=(--base 1 --extent 64 --warmup 1 --steps 2)  # below 64 its instance norm refuses the deepest level
  torch_device=cpu
fi
reserve=$($gpu && ! $short && command -v ncu >/dev/null && echo 60 || echo 0)
for row in "${rows[@]}"; do
  read -r network batch <<<"$row"
  for way in "${ways[@]}"; do
    # PyTorch tries its algorithms in each process; ours keeps what it found in the plan file.
    case $way in eager | graph) limit=30 ;; *) limit=45 ;; esac
    if [ $(($(left) - reserve)) -lt $limit ]; then limit=$(($(left) - reserve)); fi
    case $way in
      eager | graph) own "throughput $network $way" $limit throughput --network="$network" --way="$way" --batch="$batch" \
        --plan_file="$plans" ;;
      *)
        if $has_torch && { $gpu || $dry; }; then
          stage "throughput $network torch $way" $limit "$python" "$root/apps/gpucheck/torch_throughput.py" --network "$network" \
            --layout "$way" --batch "$batch" --device $torch_device "${torch_size[@]}"
        fi ;;
    esac
  done
done
# Where the time of our step goes: launches wait for each other, so that an op's time is its kernels'.
if $gpu && ! $short && wanted throughput; then
  export CUDA_LAUNCH_BLOCKING=1
  own "throughput mlperf ops" 20 throughput --network=mlperf --way=ops --batch=2 --plan_file="$plans"
  unset CUDA_LAUNCH_BLOCKING
fi

metrics=dram__bytes.sum,gpu__time_duration.sum,dram__throughput.avg.pct_of_peak_sustained_elapsed
metrics+=,lts__t_sector_hit_rate.pct,sm__warps_active.avg.pct_of_peak_sustained_active
if usable ncu ncu; then
  # shellcheck disable=SC2016
  stage ncu 80 env LD_LIBRARY_PATH="$libraries" bash -c 'ncu --profile-from-start off --clock-control none --metrics "$0" --csv --log-file "$1.csv" \
    "$2" launch --only=norm_forward,norm_backward_sums,norm_backward_apply,max_pool3d_backward,adamw &&
    "$2" ncu --csv="$1.csv" "$3"' "$metrics" "$work/ncu" "$check"
fi

echo
join
rc=$?
echo
echo "gpu_check.sh: $SECONDS s${out:+, result in $out}"
exit $rc
