#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Ranks without MPI's launcher (features 1-9, 16, 17, 169, 172, 182): under bora_launch and by plain variables they train to the bits
# of mpirun's ranks; what is missing or wrong is named; nothing is left behind.
# shellcheck source=tests/e2e/common.sh
source "$(dirname "$0")/common.sh"
unset RANK WORLD_SIZE LOCAL_RANK MASTER_ADDR MASTER_PORT
launch=$bin/bora_launch unet3d=$bin/unet3d
free_port() { echo $((20000 + RANDOM % 12000)); }  # below those that the system gives away
mark=bora_launch_test_$$  # finds this test's processes, and no others

# --- the same bits, whoever starts the ranks
train=("$unet3d" train "${small[@]}" --train.epochs=2 --train.max_updates=3 --model.dropout=0.1)
run() { "$@" >"$work/log" 2>&1 || { cat "$work/log" >&2; fail "$*"; }; }
same() { "$bin/compare_checkpoints" "$work/mpi/last.h5" "$work/$1/last.h5" || fail "$1: not the bits of mpirun's ranks"; }
run mpirun -n 2 "${train[@]}" --output.dir="$work/mpi"
run "$launch" -n 2 "${train[@]}" --output.dir="$work/launch"
same launch
plain() {  # plain RANKS PORT COMMAND...: by hand, LOCAL_RANK left out
  local n=$1 port=$2 rank pids=() failed=0
  shift 2
  for ((rank = 0; rank < n; ++rank)); do
    RANK=$rank WORLD_SIZE=$n MASTER_ADDR=127.0.0.1 MASTER_PORT=$port BORA_START_TIMEOUT_S=30 "$@" &
    pids+=($!)
  done
  for rank in "${pids[@]}"; do wait "$rank" || failed=$?; done
  return $failed
}
run plain 2 "$(free_port)" "${train[@]}" --output.dir="$work/plain"
same plain
# One rank, with the variables of a launcher and with none at all (feature 4).
run "${train[@]}" --output.dir="$work/none"
run "$launch" -n 1 "${train[@]}" --output.dir="$work/one"
"$bin/compare_checkpoints" "$work/none/last.h5" "$work/one/last.h5" || fail "one rank: not the bits of a plain run"

# --- every missing variable and every one that is no number (feature 3); no launcher at all (172)
good=(RANK=0 WORLD_SIZE=2 LOCAL_RANK=0 MASTER_ADDR=127.0.0.1 MASTER_PORT=29500)
for name in RANK WORLD_SIZE MASTER_ADDR; do
  expect_failure 2 "$name is missing" env "${good[@]}" "$name=" "$unet3d" info
done
for name in RANK WORLD_SIZE LOCAL_RANK MASTER_PORT; do
  expect_failure 2 "$name='two' is not a whole number" env "${good[@]}" "$name=two" "$unet3d" info
done
expect_failure 2 "RANK=2 is not below WORLD_SIZE=2" env "${good[@]}" RANK=2 "$unet3d" info
expect_failure 2 "without MPI's launcher" env WORLD_SIZE=2 "$unet3d" info
expect_failure 2 "Start it by mpirun, srun or bora_launch" env WORLD_SIZE=2 "$unet3d" info

expect_failure 2 "to MPI each of the 2 processes is alone" env "${good[@]}" BORA_TRANSPORT=mpi "$unet3d" info
expect_failure 2 "BORA_TRANSPORT=tcp, but neither" env BORA_TRANSPORT=tcp "$unet3d" info
expect_failure 2 "wanted mpi or tcp" env BORA_TRANSPORT=udp "$unet3d" info

# --- nobody there, a taken port, a wrong network (features 9, 14, 169, 182)
export BORA_START_TIMEOUT_S=1
expect_failure 1 "no connection to rank 0 at 127.0.0.1:29500" env RANK=1 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 "$unet3d" info
port=$(free_port)
expect_failure 1 "no connection to rank 0 at nobody.invalid:$port" \
  env RANK=1 WORLD_SIZE=2 MASTER_ADDR=nobody.invalid MASTER_PORT="$port" "$unet3d" info
expect_failure 1 "rank(s) 1, 2" env RANK=0 WORLD_SIZE=3 MASTER_ADDR=127.0.0.1 MASTER_PORT="$port" "$unet3d" info
expect_failure 2 "BORA_INTERFACE='eth99' is neither" \
  env RANK=1 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 BORA_INTERFACE=eth99 "$unet3d" info
export BORA_START_TIMEOUT_S=30
port=$(free_port)
rank_0=(env RANK=0 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT="$port" "$unet3d" info)
"${rank_0[@]}" >"$work/first" 2>&1 &
first=$!
for _ in $(seq 100); do
  [ -n "$(ss -Hltn "sport = :$port")" ] && break
  sleep 0.1
done
expect_failure 1 "cannot listen at 127.0.0.1:$port" "${rank_0[@]}"
grep -q "choose another MASTER_PORT" "$work/out" || fail "a taken port: what to do is not told"
run env RANK=1 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT="$port" "$unet3d" info  # the first is still good
wait "$first" || { cat "$work/first" >&2; fail "rank 0 was disturbed"; }
run "$launch" -n 2 --interface lo "$unet3d" info

# --- the launcher: variables, codes, two at once, two nodes (features 6, 7, 8, 17)
sorted_line() { sort | tr '\n' ';'; }
# shellcheck disable=SC2016  # the workers' shells expand it
echo_ranks='echo $RANK $LOCAL_RANK $WORLD_SIZE'
[ "$("$launch" -n 3 sh -c "$echo_ranks" | sorted_line)" = "0 0 3;1 1 3;2 2 3;" ] || fail "the variables of one node"
for node in 0 1; do
  "$launch" -n 2 --nodes 2 --node $node --master 127.0.0.1 sh -c "$echo_ranks \$MASTER_PORT"
done >"$work/nodes"
[ "$(sorted_line <"$work/nodes")" = "0 0 4 29500;1 1 4 29500;2 0 4 29500;3 1 4 29500;" ] ||
  { cat "$work/nodes" >&2; fail "the variables of two nodes"; }
port=$(free_port)
"$launch" -n 2 --nodes 2 --node 1 --master 127.0.0.1:"$port" "$bin/endings" well >"$work/node1" 2>/dev/null &
second=$!
"$launch" -n 2 --nodes 2 --node 0 --master 127.0.0.1:"$port" "$bin/endings" well >"$work/node0" 2>/dev/null || fail "node 0"
wait "$second" || fail "node 1"
grep -h "rank . of 4 is done" "$work/node0" "$work/node1" | sort -u | wc -l | grep -qx 4 || fail "two nodes: not four ranks"
"$launch" -n 2 "$bin/endings" well >"$work/a" 2>&1 &
other=$!
"$launch" -n 2 "$bin/endings" well >"$work/b" 2>&1 || fail "two at once: one failed"
wait "$other" || fail "two at once: the other failed"
for log in a b; do grep -q "rank 1 of 2 is done" "$work/$log" || fail "two at once: not two groups"; done

expect_code() {  # expect_code CODE SECONDS COMMAND...
  local code=$1 seconds=$2 got=0 start=$SECONDS
  shift 2
  timeout 60 "$@" >"$work/out" 2>&1 || got=$?
  [ "$got" -eq "$code" ] || { cat "$work/out" >&2; fail "exit code $got instead of $code: $*"; }
  [ $((SECONDS - start)) -le "$seconds" ] || fail "$((SECONDS - start)) s instead of $seconds: $*"
}
none_left() {
  for _ in $(seq 50); do
    pgrep -f "$mark" >/dev/null || return 0
    sleep 0.1
  done
  pgrep -af "$mark" >&2
  fail "$1: processes are left"
}
expect_code 7 20 "$launch" -n 3 bash -c "[ \$RANK = 1 ] && exit 7; exec -a $mark sleep 100"
none_left "a worker that fails"
expect_code 5 20 "$launch" -n 2 --grace 1 bash -c "[ \$RANK = 1 ] && { sleep 0.5; exit 5; }; trap '' TERM; exec -a $mark sleep 100"
none_left "a worker that does not want to end"
expect_code 0 20 "$launch" -n 2 bash -c "(exec -a $mark sleep 100) & exit 0"
none_left "what a worker has started"
expect_code 127 20 "$launch" -n 2 "$work/no-such-program"
expect_failure 2 "-n <workers> is missing" "$launch" "$unet3d" info
expect_failure 2 "no program to start" "$launch" -n 2
expect_failure 2 "-n two: wanted a number" "$launch" -n two "$unet3d" info
expect_failure 2 "unknown option --workers" "$launch" --workers=2 "$unet3d" info
expect_failure 2 "--nodes wants --master" "$launch" -n 2 --nodes 2 --node 0 "$unet3d" info
expect_failure 2 "--node 2 is not below --nodes 2" "$launch" -n 2 --nodes 2 --node 2 --master a "$unet3d" info
expect_failure 2 "--master a:x" "$launch" -n 2 --master a:x "$unet3d" info

# --- Ctrl-C, and the launcher's own death, leave nothing (feature 16)
for signal in INT KILL; do
  # By themselves they would end 10 s later.
  bash -c "exec -a $mark $launch -n 4 bash -c 'exec -a $mark $bin/endings never_done'" >"$work/out" 2>&1 &
  job=$!
  for _ in $(seq 100); do
    [ "$(pgrep -fc "^$mark never_done")" -eq 4 ] && break
    sleep 0.1
  done
  makers=$(pgrep -f "^$mark never_done") || fail "SIG$signal: no worker began"
  sleep 1
  kill -$signal "$job"
  wait "$job" 2>/dev/null || true
  none_left "SIG$signal"
  # Named by the process that made it; what others on this machine are at, or were killed at, is theirs.
  for maker in $makers; do
    left=$(find /dev/shm -name "bora-$maker-*")
    [ -z "$left" ] || fail "SIG$signal: shared memory is left: $left"
  done
done
echo "launch: all as it should be"
