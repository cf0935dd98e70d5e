#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# planted.sh REPLAY: the driver finds a crash, a hang and an over-allocation, and goes on behind each.
set -euo pipefail
replay=$1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mkdir "$folder/corpus"
for byte in a c h m z; do printf '%s' "$byte" >"$folder/corpus/$byte"; done
code=0
ASAN_OPTIONS=allocator_may_return_null=0:max_allocation_size_mb=4096 \
  "$replay" "$folder/corpus" --seconds 1 --save "$folder/faults" >"$folder/out" 2>/dev/null || code=$?
cat "$folder/out"
[[ $code == 1 ]] || { echo "exit code $code, wanted 1"; exit 1; }
grep -q 'file 1 of the corpus: ' "$folder/out"        # crashes
grep -q 'file 2 of the corpus: hangs' "$folder/out"
grep -q 'file 3 of the corpus: ' "$folder/out"        # asks for 8 GiB
grep -q '5 files and 0 mutations, 3 faults' "$folder/out"
[[ $(find "$folder/faults" -type f | wc -l) == 3 ]]
