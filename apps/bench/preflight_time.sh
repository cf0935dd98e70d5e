#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Seconds of a pre-flight of a thousand small files in the page cache: preflight_time.sh BIN [REPEATS]. BIN: folder of the programs.
# Levels and numbers of ranks take turns, so that another load of the machine falls on all of them.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
bin=$(cd "${1:?usage: preflight_time.sh BIN [REPEATS]}" && pwd)
repeats=${2:-3}
# shellcheck source=scripts/mpi_env.sh
source "$root/scripts/mpi_env.sh"
bora_mpi_env 2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/wind_speed_filled" "$work/mask_buildings"
n=0
while [ "$n" -lt 500 ]; do
  for wind in "$root"/samples/urban-wind/wind_speed_filled/*_ws_filled.nc; do
    [ "$n" -lt 500 ] || break
    name=$(basename "$wind" _ws_filled.nc)
    cp "$wind" "$work/wind_speed_filled/${name}00${n}_ws_filled.nc"
    cp "$root/samples/urban-wind/mask_buildings/${name}_ws_building_mask.nc" "$work/mask_buildings/${name}00${n}_ws_building_mask.nc"
    n=$((n + 1))
  done
done
for ((i = 0; i < repeats; i++)); do
  for level in full headers; do
    for ranks in 1 2; do
      printf '%s rank(s): ' "$ranks"
      mpirun -n "$ranks" "$bin/unet3d" data check --data.root="$work" --level="$level" 2>/dev/null | head -n 1
    done
  done
done
