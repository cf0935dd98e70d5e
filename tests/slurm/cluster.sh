# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# A Slurm of our own on this host, as root, without systemd: munged, slurmctld, two slurmd. Everything lies below $1 (a temporary folder).
# Sourced: slurm_possible (says what is missing), slurm_start DIR [gpus], slurm_stop DIR.

slurm_possible() {
  local program
  for program in slurmctld slurmd munged sbatch; do
    command -v "$program" >/dev/null || { echo "skipped: $program is not installed (scripts/bootstrap.sh --slurm)"; return 1; }
  done
  [ "$EUID" -eq 0 ] || { echo "skipped: starting a Slurm of our own wants root"; return 1; }
}

slurm_start() {
  local d=$1 gpus=${2:-} host port gres=""
  if [ -n "$gpus" ]; then gres=" Gres=gpu:1"; fi
  host=$(hostname)
  port=$((20000 + RANDOM % 20000))
  mkdir -p "$d"/{run,log,state,spool}
  cat >"$d/slurm.conf" <<CONF
ClusterName=bora
SlurmctldHost=$host(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=cred_expire=5,socket=$d/run/munge.socket
StateSaveLocation=$d/state
SlurmdSpoolDir=$d/spool/%n
SlurmctldPidFile=$d/run/slurmctld.pid
SlurmdPidFile=$d/run/slurmd.%n.pid
SlurmctldLogFile=$d/log/slurmctld.log
SlurmdLogFile=$d/log/slurmd.%n.log
SlurmctldPort=$port
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
MpiDefault=pmix
ReturnToService=2
SlurmdTimeout=30
KillWait=5
JobRequeue=1
SchedulerParameters=bf_interval=2,sched_interval=2
${gpus:+GresTypes=gpu}
NodeName=n1 NodeHostname=$host NodeAddr=127.0.0.1 Port=$((port + 1)) CPUs=2 RealMemory=2000$gres
NodeName=n2 NodeHostname=$host NodeAddr=127.0.0.1 Port=$((port + 2)) CPUs=2 RealMemory=2000$gres
PartitionName=test Nodes=n1,n2 Default=YES MaxTime=INFINITE State=UP
CONF
  # GPUs that Slurm can count and nobody can use.
  echo "${gpus:+NodeName=n[1-2] Name=gpu File=/dev/null}" >"$d/gres.conf"
  export SLURM_CONF=$d/slurm.conf
  # Both "nodes" are one host: shared memory segments of the two would collide.
  export OMPI_MCA_btl=self,tcp OMPI_MCA_btl_tcp_if_include=lo
  head -c 1024 /dev/urandom >"$d/munge.key"
  chmod 400 "$d/munge.key"
  munged --force --key-file="$d/munge.key" --socket="$d/run/munge.socket" --pid-file="$d/run/munged.pid" \
    --log-file="$d/log/munged.log" --seed-file="$d/run/munge.seed"
  slurmctld -c -i
  local n
  for n in n1 n2; do
    mkdir -p "$d/conf.$n" "$d/tmp.$n"
    ln -s ../slurm.conf "$d/conf.$n/slurm.conf"
    ln -s ../gres.conf "$d/conf.$n/gres.conf"
    echo "PMIxCliTmpDirBase=$d/tmp.$n" >"$d/conf.$n/mpi.conf"
    slurmd -N "$n" -f "$d/conf.$n/slurm.conf"
  done
  for _ in $(seq 60); do
    [ "$(sinfo -h -N -o %T 2>/dev/null | grep -c idle)" -eq 2 ] && return 0
    sleep 0.5
  done
  sinfo -N >&2 || true
  tail -n 20 "$d"/log/*.log >&2
  return 1
}

slurm_stop() {
  local d=$1 pid file
  scancel -u root 2>/dev/null || true
  for file in "$d"/run/slurmd.*.pid "$d/run/slurmctld.pid" "$d/run/munged.pid"; do
    [ -s "$file" ] || continue
    pid=$(cat "$file")
    kill "$pid" 2>/dev/null || continue
    for _ in $(seq 50); do
      kill -0 "$pid" 2>/dev/null || break
      sleep 0.1
    done
  done
}
