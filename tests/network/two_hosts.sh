#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Training over two hosts (namespaces with names, links and shared memory of their own): same bits as on one, all ways of an
# all-reduction, and an end within seconds when the link is cut. Features 8, 20, 154, 171. Exit code 77: no namespaces here.
root=$(cd "$(dirname "$0")/../.." && pwd)
# shellcheck source=tests/network/hosts.sh
source "$root/tests/network/hosts.sh"
reason=$(hosts_possible) || { echo "skipped: $reason"; exit 77; }
# shellcheck source=tests/e2e/common.sh
source "$root/tests/e2e/common.sh"
name=t$((RANDOM % 1000))
HOSTS_FOLDER=$work
trap 'hosts_down "$name" 2; rm -rf "$work"' EXIT
hosts_up "$name" 2

hosts_mpirun "$name" 2 2 "$bin/unet3d" diagnose --data.root="$data" --output="$work/out" --mib=1 >"$work/diagnose" 2>&1 ||
  { cat "$work/diagnose" >&2; fail "diagnose on two hosts"; }
grep -q "job: 4 ranks on 2 hosts" "$work/diagnose" || { cat "$work/diagnose" >&2; fail "the two hosts are not seen"; }
grep -q "network eth0" "$work/diagnose" || { cat "$work/diagnose" >&2; fail "the network is not named"; }
grep -q "reachability: every rank exchanged messages with every other" "$work/diagnose" || fail "no reachability"
grep -q "nothing stands in the way" "$work/diagnose" || fail "diagnose does not end well"

# Sums in the order of ranks wherever they are: four ranks on one host and on two give the same bits. The others have orders of
# their own, and must at least agree among the ranks (the trainer compares them) and end.
run=("${small[@]}" --train.epochs=1 --train.max_updates=3)
mpirun -n 4 "$bin/unet3d" train "${run[@]}" --comm.all_reduce=exchange --output.dir="$work/one" >"$work/one.log" 2>&1 ||
  { cat "$work/one.log" >&2; fail "four ranks on one host"; }
for way in exchange hierarchical chunked_ring; do
  hosts_mpirun "$name" 2 2 "$bin/unet3d" train "${run[@]}" --comm.all_reduce=$way --output.dir="$work/$way" >"$work/$way.log" 2>&1 ||
    { cat "$work/$way.log" >&2; fail "$way on two hosts"; }
done
"$bin/compare_checkpoints" "$work/one/last.h5" "$work/exchange/last.h5" || fail "two hosts: not the bits of one"

# The link is cut while the job trains: it must end, with a code, and leave nothing on either host.
hosts_mpirun "$name" 2 1 "$bin/unet3d" train "${small[@]}" --train.epochs=20000 --train.patience=0 --comm.timeout_s=5 \
  --output.log_every=1 --output.dir="$work/cut" >"$work/cut.log" 2>&1 &
job=$!
for _ in $(seq 150); do
  grep -qs '"kind":"train"' "$work/cut/metrics.jsonl" && break
  sleep 0.2
done
grep -qs '"kind":"train"' "$work/cut/metrics.jsonl" || { cat "$work/cut.log" >&2; fail "the job that is to be cut does not train"; }
begin=$SECONDS
ip link set "$name-v2" down
code=0
wait "$job" || code=$?
took=$((SECONDS - begin))
[ "$code" -ne 0 ] || { cat "$work/cut.log" >&2; fail "a cut link ended with code 0"; }
[ "$took" -le 25 ] || { cat "$work/cut.log" >&2; fail "a cut link was noticed after $took s"; }
sleep 1
for i in 1 2; do
  left=$(ip netns pids "$name$i" | wc -l)
  [ "$left" -eq 0 ] || fail "$left processes are left on host $name$i"
done
echo "two hosts: all as it should be; the cut link ended the job after $took s with code $code"
