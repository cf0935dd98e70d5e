#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The one list of Debian packages that Bora needs, and their installation.
#   scripts/bootstrap.sh [--no-install] [--dev] [--slurm] [--browser]     run it
#   source scripts/bootstrap.sh                     or take its functions: bora_bootstrap, bora_jobs
# Nothing is installed when nothing is missing. Exit code 2: something is missing and was not installed.

# Builds of several clones and build folders share one compiler cache: paths count from the clone's root.
export CCACHE_BASEDIR="${CCACHE_BASEDIR:-$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)}"
export CCACHE_NOHASHDIR="${CCACHE_NOHASHDIR:-1}"

BORA_PACKAGES=(
  g++ cmake ninja-build pkg-config ccache git
  libopenmpi-dev openmpi-bin
  libdnnl-dev libeigen3-dev
  libhdf5-dev zlib1g-dev libdeflate-dev
  libpng-dev libcairo2-dev fonts-dejavu-core
  libcli11-dev libtomlplusplus-dev nlohmann-json3-dev
  libgtest-dev libgmock-dev
)
# For those who change the code: format, shell and file-format checks, fuzzing.
BORA_DEV_PACKAGES=(clang-format-14 shellcheck netcdf-bin iproute2 clang-14 libclang-rt-14-dev libomp-14-dev)
# For the test of the batch template, which starts a Slurm of its own (skipped where these are missing).
BORA_SLURM_PACKAGES=(slurm-wlm munge)
# For the test that looks at report.html in a browser (skipped where it is missing).
BORA_BROWSER_PACKAGES=(chromium)

# bora_missing <package>...: the packages that are not installed, one a line.
bora_missing() {
  local package
  for package in "$@"; do
    # shellcheck disable=SC2016  # a format of dpkg-query's, not a shell variable
    dpkg-query -W -f='${db:Status-Status}\n' "$package" 2>/dev/null | grep -qx installed ||
      echo "$package"
  done
}

# bora_bootstrap [--no-install] [--dev] [--slurm] [--browser]
bora_bootstrap() {
  local install=1 wanted=("${BORA_PACKAGES[@]}") missing=() argument
  for argument in "$@"; do
    case $argument in
      --no-install) install=0 ;;
      --dev) wanted+=("${BORA_DEV_PACKAGES[@]}") ;;
      --slurm) wanted+=("${BORA_SLURM_PACKAGES[@]}") ;;
      --browser) wanted+=("${BORA_BROWSER_PACKAGES[@]}") ;;
      *)
        echo "bootstrap: unknown argument '$argument'; it takes --no-install, --dev, --slurm and --browser" >&2
        return 2
        ;;
    esac
  done
  if ! command -v dpkg-query >/dev/null; then
    if command -v c++ >/dev/null && command -v cmake >/dev/null && command -v mpirun >/dev/null; then
      echo "bootstrap: not a Debian system; going on with what is here (wanted, under Debian's names:" \
        "${wanted[*]})"
      return 0
    fi
    echo "bootstrap: not a Debian system. Please install these (Debian's names), then run again:" >&2
    echo "  ${wanted[*]}" >&2
    return 2
  fi
  mapfile -t missing < <(bora_missing "${wanted[@]}")
  if ((${#missing[@]} == 0)); then
    echo "bootstrap: all ${#wanted[@]} packages are installed"
    return 0
  fi
  echo "bootstrap: Bora needs these packages: ${wanted[*]}"
  echo "bootstrap: missing: ${missing[*]}"
  if ((!install)); then
    echo "bootstrap: nothing was installed, as --no-install asks. To install them:" >&2
    echo "  sudo apt-get install --no-install-recommends ${missing[*]}" >&2
    return 2
  fi
  local as_root=()
  if ((EUID != 0)); then
    if ! command -v sudo >/dev/null; then
      echo "bootstrap: neither root nor sudo here. Ask an administrator for:" >&2
      echo "  apt-get install --no-install-recommends ${missing[*]}" >&2
      return 2
    fi
    as_root=(sudo)
  fi
  local apt=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q
    -o DPkg::Lock::Timeout=300 -o Acquire::Retries=3)
  # A stale or partly unreachable index is no reason to stop: the installation itself decides.
  "${apt[@]}" update || echo "bootstrap: apt-get update failed; trying with the index that is here" >&2
  if ! "${apt[@]}" install -y --no-install-recommends "${missing[@]}"; then
    echo "bootstrap: apt-get could not install: ${missing[*]}" >&2
    return 2
  fi
  mapfile -t missing < <(bora_missing "${wanted[@]}")
  if ((${#missing[@]})); then
    echo "bootstrap: still missing after the installation: ${missing[*]}" >&2
    return 2
  fi
  echo "bootstrap: done"
}

# bora_jobs: compile jobs for this machine, by cores and by memory (about 1.5 GiB a job).
bora_jobs() {
  local cores memory_kib by_memory
  cores=$(nproc)
  memory_kib=$(awk '/^MemAvailable:/ {print $2}' /proc/meminfo 2>/dev/null || true)
  by_memory=$((${memory_kib:-99999999} / 1572864))
  if ((by_memory < 1)); then by_memory=1; fi
  echo $((cores < by_memory ? cores : by_memory))
}

if [[ ${BASH_SOURCE[0]} == "$0" ]]; then
  case ${1:-} in
    -h | --help) sed -n '3,6s/^# \{0,1\}//p' "$0" ;;
    *) bora_bootstrap "$@" ;;
  esac
fi
