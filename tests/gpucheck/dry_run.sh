#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# dry_run.sh dry_run|planted_fault|hanging_stage|interrupted|crashing_stage|lost_device BUILD: scripts/gpu_check.sh without a GPU: clean, with a
# kernel whose result is spoiled, with a stage that never ends, with one that crashes and one that writes no JSON, and with a kernel
# that took the device with it.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "dry_run.sh: $1" >&2; cat "$work/log" >&2; exit 1; }
if [ "$1" = hanging_stage ]; then
  mkdir "$work/build"
  # shellcheck disable=SC2016  # the wrapper's own
  printf '#!/bin/sh\nif [ "$1" = kernels ]; then exec sleep 600; fi\nexec "%s" "$@"\n' "$(realpath "$2")/bin/gpucheck" \
    >"$work/build/gpucheck"
  chmod +x "$work/build/gpucheck"
  rc=0
  scripts/gpu_check.sh --build "$work/build" --out "$work/run.json" --seconds 30 >"$work/log" 2>&1 || rc=$?
  [ "$rc" = 1 ] || fail "exit code $rc, wanted 1"
  grep -q '^| kernels | timed_out' "$work/log" || fail "the table does not say that kernels were stopped"
  grep -q '^| training | not_wanted' "$work/log" || fail "the table does not say what was left out"
  grep -q '"status": "timed_out"' "$work/run.json" || fail "the result does not say so"
  exit 0
fi
if [ "$1" = interrupted ]; then
  mkdir "$work/build"
  # shellcheck disable=SC2016  # the wrapper's own
  printf '#!/bin/sh\nif [ "$1" = kernels ]; then echo $$ >"%s/pid"; exec sleep 600; fi\nexec "%s" "$@"\n' "$work" "$(realpath "$2")/bin/gpucheck" \
    >"$work/build/gpucheck"
  chmod +x "$work/build/gpucheck"
  : >"$work/log"
  scripts/gpu_check.sh --build "$work/build" --out "$work/run.json" >"$work/log" 2>&1 &
  script=$!
  for _ in $(seq 200); do [ ! -s "$work/pid" ] || break; sleep 0.1; done
  [ -s "$work/pid" ] || fail "the stage did not begin"
  kill "$script"
  rc=0
  wait "$script" || rc=$?
  [ "$rc" = 143 ] || fail "exit code $rc, wanted 143"
  for _ in $(seq 50); do kill -0 "$(cat "$work/pid")" 2>/dev/null || break; sleep 0.1; done
  if kill -0 "$(cat "$work/pid")" 2>/dev/null; then fail "the stage goes on without the script"; fi
  rc=0
  "$2/bin/gpucheck" report "$work/run.json" >"$work/again" || rc=$?
  [ "$rc" = 1 ] || fail "the result of a run that was broken off counts as right"
  grep -q "BROKEN OFF" "$work/again" || fail "the result does not say that the run was broken off"
  # What cannot be done is refused before anything runs.
  for wrong in "--stages=kernels training" "--stages=," "--stages=kernel" "--out=$work/pid/x.json" "--seconds=0"; do
    rc=0
    scripts/gpu_check.sh --build "$work/build" "${wrong%%=*}" "${wrong#*=}" >"$work/log" 2>&1 || rc=$?
    [ "$rc" = 2 ] || fail "$wrong: exit code $rc, wanted 2"
  done
  exit 0
fi
real=$(realpath "$2")/bin/gpucheck
# Instead of gpucheck, a script with these lines for the command "kernels", and one more for others.
pretend() {
  mkdir "$work/build"
  # shellcheck disable=SC2016  # the wrapper's own
  printf '%s\n' '#!/bin/bash' "real='$real'" 'for a in "$@"; do case $a in --out=*) out=${a#--out=} ;; esac; done' \
    "if [ \"\$1\" = kernels ]; then" "$1" 'fi' "$2" 'exec "$real" "$@"' >"$work/build/gpucheck"
  chmod +x "$work/build/gpucheck"
  rc=0
  scripts/gpu_check.sh --build "$work/build" --out "$work/run.json" --seconds 400 --stages "$3" >"$work/log" 2>&1 || rc=$?
  [ "$rc" = 1 ] || fail "exit code $rc, wanted 1"
}
if [ "$1" = crashing_stage ]; then
  # shellcheck disable=SC2016
  pretend '"$real" kernels --device=cpu --tiny --only=relu_forward --name=kernels --out="$out"; mv "$out" "$out.so_far"
echo "doing the last thing"; kill -SEGV $$' 'if [ "$1" = training ]; then echo "{ no JSON" >"$out"; exit 0; fi' kernels,training
  grep -qE '^\| kernels \| error \| cpu \| [^|]* \| ([1-9][0-9]*)/\1 \| exit code 139' "$work/log" ||
    fail "the table does not say that kernels crashed, with what it had found"
  grep -q 'doing the last thing' "$work/run.json" || fail "the result does not hold the last words of the crash"
  grep -q 'doing the last thing' "$work/run.log" || fail "the log does not hold them"
  grep -qE '^\| [0-9]*-training \| error' "$work/log" || fail "the table does not say that training wrote no JSON"
  grep -q '^| throughput' "$work/log" && fail "a stage ran that was not asked for"
  exit 0
fi
if [ "$1" = lost_device ]; then
  # shellcheck disable=SC2016
  pretend 'case "$*" in *--skip=relu_forward*) exec "$real" kernels --device=cpu --tiny --only=relu --skip=relu_forward --name="kernels without" --out="$out" ;; esac
printf "%s" "{\"schema\": \"bora.gpu_check.stage/1\", \"name\": \"kernels\", \"status\": \"failed\", \"seconds\": 1, \"facts\": {
  \"device lost in\": \"relu_forward\"
}}" >"$out"; exit 1' '' kernels
  grep -q '^| kernels | failed' "$work/log" || fail "the table has no failed stage"
  grep -q '^| kernels without | passed' "$work/log" || fail "the other kernels were not looked at"
  exit 0
fi
case $1 in
  dry_run) plant=() wanted=0 ;;
  planted_fault) plant=(--plant leaky_relu_backward) wanted=1 ;;
  *) echo "dry_run.sh: unknown case '$1'" >&2; exit 2 ;;
esac
rc=0
scripts/gpu_check.sh --dry-run --build "$2" --out "$work/run.json" "${plant[@]}" >"$work/log" 2>&1 || rc=$?
[ "$rc" = "$wanted" ] || fail "exit code $rc, wanted $wanted"
for stage in environment kernels sanitizer cudnn training throughput ncu; do
  grep -q "\"name\": \"$stage" "$work/run.json" || fail "the result has no stage '$stage'"
  grep -q "| $stage" "$work/log" || fail "the table has no stage '$stage'"
done
# Somewhere the kernels were really run.
grep -qE '"op": "norm_forward"' "$work/run.json" || fail "no kernel was checked"
if [ "$wanted" = 1 ]; then
  grep -q "FAULTS FOUND" "$work/log" || fail "the table does not say that there are faults"
  grep -q "kernels.*: leaky_relu_backward" "$work/log" || fail "the table does not name the kernel"
else
  grep -q "no fault found" "$work/log" || fail "the table does not say that there is no fault"
fi
# The result can be rendered again.
"$2/bin/gpucheck" report "$work/run.json" >"$work/again" || [ "$wanted" = 1 ] || fail "report of the joined result"
grep -q '^| kernels' "$work/again" || fail "the joined result renders otherwise"
