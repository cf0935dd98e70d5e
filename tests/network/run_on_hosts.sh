#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Starts N ranks of a program under mpirun on several "hosts" of this machine (tests/network/hosts.sh), with a limited link if asked:
#
#   tests/network/run_on_hosts.sh [--rate 1gbit] [--per-host K] N PROGRAM [ARGUMENT...]
#
# A launcher like another, for what happens between hosts:
#   scripts/scaling_study.sh --ranks 1,2 --link --output study --launcher "tests/network/run_on_hosts.sh --rate 1gbit {n}"
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=tests/network/hosts.sh
source "$here/hosts.sh"
# shellcheck source=scripts/mpi_env.sh
source "$here/../../scripts/mpi_env.sh"
rate="" per_host=1
while [[ ${1:-} == --* ]]; do
  case $1 in
    --rate) rate=$2; shift 2 ;;
    --per-host) per_host=$2; shift 2 ;;
    *) echo "run_on_hosts.sh: unknown option '$1'" >&2; exit 2 ;;
  esac
done
[[ ${1:-} =~ ^[1-9][0-9]*$ ]] || { sed -n '3,6s/^# \{0,1\}//p' "$0" >&2; exit 2; }
ranks=$1
shift
[ $((ranks % per_host)) -eq 0 ] || { echo "run_on_hosts.sh: $ranks ranks are not $per_host a host" >&2; exit 2; }
hosts_possible >&2 || exit 77
count=$((ranks / per_host))
name=h$((RANDOM % 1000))
HOSTS_FOLDER=$(mktemp -d)
trap 'hosts_down "$name" "$count"; rm -rf "$HOSTS_FOLDER"' EXIT
bora_mpi_env "$ranks"
hosts_up "$name" "$count" "$rate"
hosts_mpirun "$name" "$count" "$per_host" "$@"
