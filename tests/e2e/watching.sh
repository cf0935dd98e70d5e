#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What stands on a terminal and in a batch log while a run goes on, and what it leaves to look at (feature 147).
# shellcheck source=tests/e2e/common.sh
source "$(dirname "$0")/common.sh"
command=("$bin/unet3d" train "${small[@]}" --train.epochs=2 --output.log_every=1)

# on_terminal COLUMNS OUTPUT [VARIABLE=VALUE...]: the run on a pseudo-terminal of so many columns.
on_terminal() {
  local columns=$1 output=$2
  shift 2
  cat >"$work/start.sh" <<EOF
stty cols $columns
exec env TERM=xterm $* $(printf '%q ' "${command[@]}") --output.dir=$work/run --overwrite
EOF
  script -qefc "bash $work/start.sh" "$output" >/dev/null </dev/null || { cat "$output" >&2; fail "the run on a terminal"; }
}
# wiped FILE: with a mark in the place of each "back to the begin of the line and erase it".
wiped() { sed 's/\r\x1b\[K/\x01/g' "$1"; }
# What the live line was: behind each mark, after the last end of a line.
live_lines() { wiped "$1" | awk -v RS='\001' '{ sub(/.*\n/, ""); print }' | grep -a ' %'; }
# The lines that stay: those with an end, without what was wiped before them.
kept_lines() { wiped "$1" | sed 's/.*\x01//; s/\r$//'; }
for columns in 100 40; do
  on_terminal "$columns" "$work/terminal" NO_COLOR=
  live_lines "$work/terminal" >"$work/live" || fail "no live line at $columns columns"
  longest=$(awk '{ if (length > n) n = length } END { print n }' "$work/live")
  ((longest < columns)) || { cat "$work/live" >&2; fail "a live line of $longest characters on $columns columns"; }
  grep -qa 'epoch' "$work/live" || fail "the live line does not tell the epoch"
  # The lines that stay are whole, and nothing of the live line is left behind the last of them.
  kept_lines "$work/terminal" >"$work/lines"
  for line in '^epoch 1/2  validation loss .* m/s  (best)$' '^trained 14 updates in ' '^time: ' '^memory: at most ' '^report: '; do
    grep -qa "$line" "$work/lines" || { cat -v "$work/terminal" >&2; fail "no line $line at $columns columns"; }
  done
done
# Of a run that lasts: the first lines know no rate, and 14 updates may take less than the time between two.
on_long_terminal() {
  local command=("${command[@]/--train.epochs=2/--train.epochs=40}")
  on_terminal "$@"
}
on_long_terminal 100 "$work/wide" NO_COLOR=
tr '\r' '\n' <"$work/wide" >"$work/wide.lines"
grep -qa 'samples/s.*left\|left.*samples/s' "$work/wide.lines" || { cat -v "$work/wide" >&2; fail "no rate and time left"; }

for plain in NO_COLOR=1 TERM=dumb; do
  on_terminal 100 "$work/terminal" "$plain"
  if grep -qa $'\033' "$work/terminal"; then fail "control sequences with $plain"; fi
  grep -qa '^epoch 0.0/2  loss' "$work/terminal" || fail "no plain line with $plain"
done

# A batch log: a line at once, and at the ends of epochs; not one for each of the 14 updates that are logged.
"${command[@]}" --output.dir="$work/run" --overwrite 2>"$work/log" || { cat "$work/log" >&2; fail "training"; }
n=$(grep -c '^epoch [0-9.]*/2  loss' "$work/log")
((n >= 1 && n <= 10)) || { cat "$work/log" >&2; fail "$n lines of progress"; }
if grep -q $'\033\|\r' "$work/log"; then fail "control sequences in a batch log"; fi

# Each start and end is in metrics.jsonl, with what the run took; the log itself costs less than 1 % of it.
row() { grep "\"kind\":\"$1\"" "$work/run/metrics.jsonl" | tail -n 1; }
field() { row "$1" | sed -n "s/.*\"$2\":\"\{0,1\}\([^,\"}]*\).*/\1/p"; }
[ "$(field end reason)" = finished ] || fail "the end is not in the log: $(row end)"
for key in wall_s samples_per_s peak_rank_bytes peak_host_bytes peak_tensor_bytes; do
  awk -v v="$(field end $key)" 'BEGIN { exit !(v > 0) }' || fail "$key is $(field end $key)"
done
[[ $(field end energy) =~ ^(counted|partly|none|not\ readable)$ ]] || fail "energy: $(field end energy)"
[ "$(field start ranks)" = 1 ] || fail "the start is not in the log: $(row start)"
awk -v watch="$(field end watch_s)" -v wall="$(field end wall_s)" 'BEGIN { exit !(watch != "" && watch > 0 && watch < 0.01 * wall) }' ||
  fail "watching took $(field end watch_s) of $(field end wall_s) s"

# A failure is told, too; --overwrite takes away what the run left to look at.
if "${command[@]/--optim.lr=3e-3/--optim.lr=1e30}" --output.dir="$work/run" --overwrite --optim.clip=0 2>"$work/log"; then fail "a rate of 1e30 works"; fi
[[ $(field end reason) == failed:* ]] || fail "the failure is not in the log: $(row end)"
grep -q '<strong id="state">failed:' "$work/run/report.html" || fail "the report does not tell the failure"
[ "$(find "$work/run" -name 'events.out.tfevents.*' | wc -l)" -eq 1 ] || fail "events of an overwritten run are left"
rm -rf "$work/run"
"${command[@]}" --output.dir="$work/run" --output.report=false --output.tensorboard=false 2>"$work/log" || fail "training without them"
[ "$(find "$work/run" -name 'events*' -o -name 'report*' -o -name '*.png' | wc -l)" -eq 0 ] || fail "there are files that nobody wanted"
echo "watching: all as it should be"
