# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Two or more "hosts" on this one: network namespaces joined by a bridge, each with a name, a /dev/shm and a link of its own, whose
# bandwidth can be limited. Wants root, iproute2 and a kernel with namespaces and tbf. Sourced:
#
#   hosts_possible                    whether this machine can do it; says what is missing
#   hosts_up NAME COUNT [RATE]        namespaces NAME1..NAMEn with addresses 10.77.x.1.., RATE as tc understands it (1gbit)
#   hosts_mpirun NAME COUNT PER_HOST PROGRAM...   mpirun over them, PER_HOST ranks each
#   hosts_down NAME COUNT
#
# NAME: at most 6 letters, so that names of interfaces fit.

hosts_possible() {
  local program
  [ "$EUID" -eq 0 ] || { echo "network namespaces want root"; return 1; }
  for program in ip tc nsenter unshare mpirun; do
    command -v "$program" >/dev/null || { echo "$program is not installed"; return 1; }
  done
  ip netns add bora-probe 2>/dev/null || { echo "no network namespaces can be made here"; return 1; }
  ip netns del bora-probe
}

# The third byte of the addresses: from the name, so that two tests at once do not meet.
hosts_net() { echo "10.77.$(($(cksum <<<"$1" | cut -d ' ' -f 1) % 250 + 1))"; }

hosts_up() {
  local name=$1 count=$2 rate=${3:-} i net
  net=$(hosts_net "$name")
  ip link add "$name-br" type bridge
  ip link set "$name-br" up
  for i in $(seq "$count"); do
    ip netns add "$name$i"
    ip link add "$name-v$i" type veth peer name eth0 netns "$name$i"
    ip link set "$name-v$i" master "$name-br" up
    ip -n "$name$i" addr add "$net.$i/24" dev eth0
    ip -n "$name$i" link set lo up
    ip -n "$name$i" link set eth0 up
    if [ -n "$rate" ]; then
      ip netns exec "$name$i" tc qdisc add dev eth0 root tbf rate "$rate" burst 256kb latency 50ms
    fi
  done
}

hosts_down() {
  local name=$1 count=$2 i
  for i in $(seq "$count"); do
    ip netns pids "$name$i" 2>/dev/null | xargs -r kill -9 2>/dev/null
    ip netns del "$name$i" 2>/dev/null
  done
  ip link del "$name-br" 2>/dev/null
  return 0
}

# The agent that mpirun starts its daemons by: rsh without a network.
hosts_agent() {
  local name=$1 folder=$2
  cat >"$folder/agent.sh" <<AGENT
#!/usr/bin/env bash
# agent.sh ADDRESS COMMAND...: runs the command on that host.
i=\${1##*.}
shift
[ "\$1" != -- ] || shift
export TMPDIR=$folder/tmp.\$i
mkdir -p "\$TMPDIR"
exec nsenter --net=/run/netns/$name\$i unshare --uts --mount --pid --fork --kill-child bash -c "hostname $name\$i; mount -t tmpfs shm /dev/shm; mount -t proc proc /proc; \$*"
AGENT
  chmod +x "$folder/agent.sh"
}

hosts_mpirun() {
  local name=$1 count=$2 per_host=$3 net hosts="" i folder
  shift 3
  net=$(hosts_net "$name")
  folder=${HOSTS_FOLDER:?a folder of its own for mpirun}
  hosts_agent "$name" "$folder"
  for i in $(seq "$count"); do hosts+="${hosts:+,}$net.$i:$per_host"; done
  mkdir -p "$folder/tmp.1"
  local command
  printf -v command '%q ' mpirun --mca plm rsh --mca plm_rsh_agent "$folder/agent.sh" --mca btl tcp,self,vader \
    --mca btl_tcp_if_include "$net.0/24" --mca oob_tcp_if_include "$net.0/24" --mca oob_tcp_keepalive_time 2 \
    --mca oob_tcp_keepalive_intvl 1 --mca oob_tcp_keepalive_probes 3 --bind-to none --host "$hosts" \
    -x MASTER_ADDR="$net.1" -x BORA_TRANSPORT="${BORA_TRANSPORT:-mpi}" "$@"
  env -u OMPI_MCA_btl TMPDIR="$folder/tmp.1" nsenter --net="/run/netns/${name}1" unshare --uts --mount bash -c \
    "hostname ${name}1; mount -t tmpfs shm /dev/shm; $command"
}
