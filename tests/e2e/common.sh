# shellcheck shell=bash disable=SC2034
# SPDX-License-Identifier: Apache-2.0
# What the end-to-end tests share. Sourced; wants $1 = the folder of the programs.
set -euo pipefail
bin=$(cd "$1" && pwd)
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
data=$root/samples/urban-wind

# A network and windows so small that an epoch takes a second.
settings=(--data.shape=32x32x16 --model.base=4 --model.levels=2 --optim.lr=3e-3
          --split.validation=0.2 --split.test=0.65)
small=(--data.root="$data" "${settings[@]}")

fail() { echo "FAILED: $*" >&2; exit 1; }

# expect_failure CODE TEXT COMMAND...: the command must end with CODE within 30 s and print TEXT, in the one error message of
# all its ranks.
expect_failure() {
  local code=$1 text=$2 got=0
  shift 2
  timeout 30 "$@" >"$work/out" 2>&1 || got=$?
  [ "$got" -eq "$code" ] || { cat "$work/out" >&2; fail "exit code $got instead of $code: $*"; }
  grep -qF -- "$text" "$work/out" || { cat "$work/out" >&2; fail "'$text' is not in the output of: $*"; }
  [ "$(grep -c 'error: ' "$work/out")" -eq 1 ] || { cat "$work/out" >&2; fail "not one error message from: $*"; }
}

# ranks_of DIR: the processes of a run with --output.dir=DIR, its ranks; not its launcher.
ranks_of() {
  local pid
  for pid in $(pgrep -f "unet3d train .*--output.dir=$1( |$)" || true); do
    if [ "$(cat "/proc/$pid/comm" 2>/dev/null)" = unet3d ]; then echo "$pid"; fi
  done
}
