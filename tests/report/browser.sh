#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# report.html of a real run in headless Chromium, without a network (features 116, 147). Exit code 77: no Chromium here.
browser=$(command -v chromium || command -v chromium-browser || command -v google-chrome) ||
  { echo "no Chromium here: scripts/bootstrap.sh --browser installs it"; exit 77; }
root=$(cd "$(dirname "$0")/../.." && pwd)
# shellcheck source=tests/e2e/common.sh
source "$root/tests/e2e/common.sh"
run=$work/run
"$bin/unet3d" train "${small[@]}" --train.epochs=2 --output.dir="$run" --output.log_every=1 2>"$work/log" ||
  { cat "$work/log" >&2; fail "training"; }
[ -s "$run/report.html" ] || fail "the run left no report"
# Names that would break a page that believed them; then the page again, from the folder alone.
evil='<img src=http://192.0.2.1/x onerror=alert(1)>&\"'"'"'</td></table><script>document.title=\"broken\"</script>'
last=$(grep '"kind":"case"' "$run/metrics.jsonl" | tail -n 1 | sed 's/.*"update":\([0-9]*\).*/\1/')
cat >>"$run/metrics.jsonl" <<EOF
{"kind":"case","update":$last,"epoch":2,"case":"$evil","loss":0.0001,"mae_m_s":0.5,"rmse_m_s":0.75}
{"kind":"warning","update":$last,"text":"$evil"}
EOF
rm "$run/report.html"
"$bin/unet3d" report --run="$run" 2>"$work/log" || { cat "$work/log" >&2; fail "unet3d report"; }
[ "$(stat -c %s "$run/report.html")" -lt 2000000 ] || fail "the page is over 2 MB"

# A probe behind the page's own script: what a reader would see, and one click on "loss".
cat "$run/report.html" - >"$work/page.html" <<'EOF'
<script>
const all = (what) => [...document.querySelectorAll(what)];
const cases = () => all('table.sortable tbody tr').map(row => Number(row.cells[1].dataset.v));
const before = cases();
all('table.sortable th button')[1].click();
const after = cases();
const probe = document.createElement('pre');
probe.id = 'probe';
probe.textContent = JSON.stringify({
  title: document.title, charts: all('.charts svg').length, lines: all('svg path.line').length,
  drawn: all('.charts svg').every(s => s.getBBox().width > 300), pictures: all('figure img').length,
  loaded: all('figure img').every(i => i.naturalWidth > 400), cases: before.length,
  descending: before.every((v, i) => i === 0 || before[i - 1] >= v),
  ascending: after.every((v, i) => i === 0 || after[i - 1] <= v),
  evil: all('table.sortable td').some(c => c.textContent.includes('<script>document.title')),
  fits: document.documentElement.scrollWidth <= window.innerWidth,
  outside: performance.getEntriesByType('resource').filter(r => !r.name.startsWith('data:')).length });
document.body.append(probe);
</script>
EOF
options=(--headless --no-sandbox --disable-gpu --disable-dev-shm-usage --hide-scrollbars --no-first-run
  --user-data-dir="$work/profile" --host-resolver-rules='MAP * ~NOTFOUND' --proxy-server=127.0.0.1:9
  --enable-logging=stderr --virtual-time-budget=2000)
look() { HOME=$work timeout 100 "$browser" "${options[@]}" "$@" 2>"$work/console"; }
for size in 1200,900 420,800; do
  look --window-size=$size --dump-dom "file://$work/page.html" >"$work/dom" || { tail "$work/console" >&2; fail "Chromium"; }
  if grep CONSOLE "$work/console" >&2; then fail "messages on the console at $size"; fi
  probe=$(sed -n 's/.*<pre id="probe">\(.*\)<\/pre>.*/\1/p' "$work/dom")
  for wanted in '"title":"Training run run"' '"drawn":true' '"pictures":3,' '"loaded":true' '"descending":true' '"ascending":true' \
    '"evil":true' '"fits":true' '"outside":0'; do
    [[ $probe == *"$wanted"* ]] || fail "at $size no $wanted in ${probe:-the page (its script did not run)}"
  done
  [[ $probe =~ \"charts\":([0-9]+),\"lines\":([0-9]+) ]]
  ((BASH_REMATCH[1] >= 7 && BASH_REMATCH[2] >= 9)) || fail "too few curves: $probe"
done
for heading in Curves Pictures 'Validation cases' Warnings 'Where and when it ran' Checkpoints Settings; do
  grep -q ">$heading</h2>" "$work/dom" || fail "no section '$heading'"
done
look --window-size=1200,4000 --screenshot="$work/page.png" "file://$run/report.html" >/dev/null || fail "the screenshot"
[ "$(stat -c %s "$work/page.png")" -gt 100000 ] || fail "the screenshot is nearly empty"
look --print-to-pdf="$work/page.pdf" "file://$run/report.html" >/dev/null || fail "printing"
[ "$(head -c 5 "$work/page.pdf")" = "%PDF-" ] || fail "printing gave no PDF"
if [ -n "${BORA_REPORT_PICTURE:-}" ]; then cp "$work/page.png" "$BORA_REPORT_PICTURE"; fi
echo "report: all as it should be in $("$browser" --version 2>/dev/null | head -n 1)"
