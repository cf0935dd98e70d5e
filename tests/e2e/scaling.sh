#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The benchmarks of several ranks and the scaling study, small: that they run, count right and say what is wrong. Features 35, 161-165.
# Times are not judged here.
# shellcheck source=tests/e2e/common.sh
source "$(dirname "$0")/common.sh"
export BORA_BIN=$bin
study=("$root/scripts/scaling_study.sh" --output "$work/study" --rounds 1 --model.base=4 --model.levels=2 --size=32x32x16 --warmup=1 --repeats=2)

"${study[@]}" --ranks 1,2 --mode weak,strong --data on,off --link >"$work/table" 2>"$work/log" || { cat "$work/log" "$work/table" >&2; fail "the study"; }
[ "$(wc -l <"$work/study/study.jsonl")" -eq 8 ] || fail "not 8 jobs in study.jsonl"
grep -q "unet3d base 4, 32x32x16, fp32, weak, batch 1 a rank, 1 thread, data from files" "$work/table" || { cat "$work/table" >&2; fail "no weak table"; }
grep -q "strong, batch 2, 1 thread" "$work/table" || { cat "$work/table" >&2; fail "no strong table"; }
grep -q "PREDICTION, not measured" "$work/table" || fail "no prediction"
grep -qE "^ *1024 " "$work/table" || fail "no prediction for 1024 ranks"
for file in scaling.csv scaling.json scaling.png; do [ -s "$work/study/$file" ] || fail "$file is missing"; done
[ "$(wc -l <"$work/study/scaling.csv")" -eq 9 ] || fail "not a row a job in scaling.csv"
for key in efficiency peak_mib exposed_ms; do head -n 1 "$work/study/scaling.csv" | grep -q "$key" || fail "no $key in scaling.csv"; done
grep -q "step / max(computing, reductions)" "$work/study/weak-data_off-fp32-a1-b0-n2-round1.log" || fail "the job's log"

# Broken off: the job that is missing is run, the others are not run again.
sed -i '/^strong2-data_on-fp32-a1-b0-n2-round1$/d' "$work/study/done"
"${study[@]}" --ranks 1,2 --mode weak,strong --data on,off --link >"$work/table" 2>"$work/log" || { cat "$work/log" >&2; fail "going on"; }
[ "$(grep -c 'round 1 of 1' "$work/log")" -eq 1 ] || { cat "$work/log" >&2; fail "not one job run again"; }

# A job that fails is named, the others are reported.
code=0
"${study[@]}" --ranks 1 --mode strong --model.norm=instance >"$work/table" 2>"$work/log" || code=$?
[ "$code" -eq 2 ] || fail "code $code for other settings in the same folder"
grep -q "holds a study with other settings" "$work/log" || { cat "$work/log" >&2; fail "the other settings are not named"; }
# A bad list ends it at once, and makes nothing.
for bad in "--ranks 1,x" "--ranks 1 --mode wek" "--ranks 0" "--ranks 1 --rounds 0"; do
  code=0
  # shellcheck disable=SC2086  # two words or four
  "${study[@]}" --output "$work/bad" $bad >"$work/out" 2>&1 || code=$?
  [ "$code" -eq 2 ] || { cat "$work/out" >&2; fail "code $code for $bad"; }
  [ ! -e "$work/bad" ] || fail "$bad left a folder"
done
code=0
"${study[@]}" --output "$work/odd" --ranks 1,2 --mode strong --global-batch 3 >"$work/table" 2>"$work/log" || code=$?
[ "$code" -eq 2 ] || fail "code $code for a batch that does not divide"
grep -q "global_batch=3 does not divide among 2 ranks" "$work/log" || { cat "$work/log" >&2; fail "the failed job's reason"; }
if BORA_BIN=/nowhere "${study[@]}" --ranks 1 >"$work/out" 2>&1; then fail "a missing program"; fi
grep -q "bench_scaling is missing" "$work/out" || fail "the missing program is not named"

mpirun -n 2 "$bin/bench_collectives" --algorithms auto,chunked_ring --smallest 1024 --largest 65536 --step 64 --repeats 2 --seconds 0.02 \
  --json "$work/collectives.json" >"$work/collectives" 2>&1 || { cat "$work/collectives" >&2; fail "bench_collectives"; }
for way in MPI_Allreduce auto "auto, shared tensor" chunked_ring; do
  [ "$(grep -c "^$way  *[0-9]" "$work/collectives")" -eq 2 ] || { cat "$work/collectives" >&2; fail "no two sizes of $way"; }
done
grep -q '"bus_bytes_per_s' "$work/collectives.json" || { head -n 3 "$work/collectives.json" >&2; fail "no bandwidth in the JSON"; }
echo "scaling: all as it should be"
