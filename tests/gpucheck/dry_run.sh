#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# dry_run.sh dry_run|planted_fault|hanging_stage BUILD: scripts/gpu_check.sh without a GPU: clean, with a kernel whose result is
# spoiled, and with a stage that never ends.
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
  grep -q '^| training | left_out' "$work/log" || fail "the table does not say what was left out"
  grep -q '"status": "timed_out"' "$work/run.json" || fail "the result does not say so"
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
