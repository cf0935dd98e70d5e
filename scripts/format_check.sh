#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# scripts/format_check.sh [--no-install] [--fix]
# Holds every tracked C++ and CUDA file against .clang-format, with clang-format 14 (other versions break
# lines differently). Installs it if it is missing, unless --no-install is given. --fix rewrites the files.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=scripts/bootstrap.sh
source scripts/bootstrap.sh

fix=0
bootstrap_arguments=(--dev)
for argument in "$@"; do
  case $argument in
    --fix) fix=1 ;;
    --no-install) bootstrap_arguments+=(--no-install) ;;
    -h | --help) sed -n '3,5s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" && exit 0 ;;
    *) echo "format_check: unknown argument '$argument' (see --help)" >&2 && exit 2 ;;
  esac
done

find_clang_format() {
  local candidate
  for candidate in clang-format-14 clang-format; do
    if "$candidate" --version 2>/dev/null | grep -q 'version 14\.'; then
      echo "$candidate"
      return
    fi
  done
}
clang_format=$(find_clang_format)
if [[ -z $clang_format ]]; then
  bora_bootstrap "${bootstrap_arguments[@]}"
  clang_format=$(find_clang_format)
fi
if [[ -z $clang_format ]]; then
  echo "format_check: clang-format 14 was not found" >&2
  exit 2
fi

mapfile -t files < <(git ls-files '*.hpp' '*.cpp' '*.cu' '*.cuh' '*.h' '*.c')
if ((${#files[@]} == 0)); then
  echo "format_check: git lists no C++ files: not a clone?" >&2
  exit 2
fi
if ((fix)); then
  "$clang_format" -i -- "${files[@]}"
  echo "format_check: rewrote where needed, ${#files[@]} files"
elif "$clang_format" --dry-run -Werror -- "${files[@]}"; then
  echo "format_check: ${#files[@]} files as .clang-format wants them"
else
  echo "format_check: scripts/format_check.sh --fix repairs this" >&2
  exit 1
fi
