#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# keep_ptx.sh FOLDER BUDGET [ccache] NVCC ARGS...: the launcher of nvcc where BORA_KEEP_PTX=ON. What the source files named in BUDGET
# (tests/cuda/ptx_budget.txt) become on the way to their object, PTX and ptxas' report, stays in FOLDER/<file>/ for cmake/check_ptx.cmake, which
# would else have to compile them again. These files go past ccache, which has no room for what is kept.
set -euo pipefail
folder=$1 budget=$2
shift 2
source=""
arguments=("$@")
for ((i = 0; i + 1 < $#; ++i)); do
  if [[ ${arguments[i]} == -c ]]; then source=${arguments[i + 1]}; fi
done
name=""
while read -r word file; do
  if [[ $word == source && $source == */$file ]]; then name=$file; fi
done <"$budget"
[[ -n $name ]] || exec "$@"
if [[ ${1##*/} == ccache ]]; then shift; fi
kept=$folder/${name//[^A-Za-z0-9]/_}
rm -rf "$kept"
mkdir -p "$kept"
code=0
"$@" -keep -keep-dir "$kept" -Xptxas -v 2>"$kept/ptxas.txt" || code=$?
# Warnings and errors, without the report.
grep -vE '^ptxas info|^ +[0-9]+ bytes (stack|cumulative)' "$kept/ptxas.txt" >&2 || true
# Preprocessed sources are tens of MB a file.
find "$kept" -type f ! -name '*.ptx' ! -name ptxas.txt -delete
if ((code)); then rm -rf "$kept"; fi
exit "$code"
