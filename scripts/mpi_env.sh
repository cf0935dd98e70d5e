# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# source scripts/mpi_env.sh; bora_mpi_env <ranks on this host>
# Settings for mpirun on one ordinary machine: no core binding, more ranks than cores allowed, waiting
# ranks give their core away, and the cores shared evenly between the ranks' OpenMP threads.
# Values that the caller has already set are kept.
bora_mpi_env() {
  local ranks=$1 cores threads
  cores=$(nproc)
  threads=$((cores / ranks))
  if ((threads < 1)); then threads=1; fi
  export OMP_NUM_THREADS="${OMP_NUM_THREADS:-$threads}"
  export OMPI_MCA_rmaps_base_oversubscribe="${OMPI_MCA_rmaps_base_oversubscribe:-1}"
  export OMPI_MCA_hwloc_base_binding_policy="${OMPI_MCA_hwloc_base_binding_policy:-none}"
  export OMPI_MCA_mpi_yield_when_idle="${OMPI_MCA_mpi_yield_when_idle:-1}"
  export OMPI_MCA_btl="${OMPI_MCA_btl:-self,vader}"
  # The layer that uses these; else MPI_Init also looks for the networks of clusters, for 0.2 s.
  export OMPI_MCA_pml="${OMPI_MCA_pml:-ob1}"
  if ((EUID == 0)); then
    # Open MPI refuses to start as root, as in containers, unless told twice.
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
  fi
}
