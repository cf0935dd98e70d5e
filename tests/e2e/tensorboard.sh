#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The event files of a run that was stopped and went on from an earlier update, read by TensorBoard itself (feature 147). Exit code
# 77: no Python with tensorboard here (BORA_TENSORBOARD_PYTHON names another one).
python=${BORA_TENSORBOARD_PYTHON:-python3}
"$python" -c 'import tensorboard' 2>/dev/null ||
  { echo "no tensorboard in $python (BORA_TENSORBOARD_PYTHON names another)"; exit 77; }
# shellcheck source=tests/e2e/common.sh
source "$(dirname "$0")/common.sh"
run=$work/run
train() {
  "$bin/unet3d" train "${small[@]}" --train.epochs=3 --output.dir="$run" --output.log_every=1 "$@" 2>"$work/log" ||
    { cat "$work/log" >&2; fail "training"; }
}
train --train.max_updates=11
# From the end of the first epoch, some updates before the last one that was logged: as after a crash.
cp "$run/best.h5" "$run/last.h5"
rm "$run/last.prev.h5"
train --resume
[ "$(find "$run" -name 'events.out.tfevents.*' | wc -l)" -eq 2 ] || fail "not one event file for each start"

cat >"$work/read.py" <<'EOF'
import json, struct, sys
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

folder, log = sys.argv[1:]
events = EventAccumulator(folder, size_guidance={"scalars": 0, "images": 0, "tensors": 0})
events.Reload()
tags = events.Tags()
f32 = lambda x: struct.unpack("f", struct.pack("f", x))[0]
rows = [json.loads(line) for line in open(log)]
places = {"train": {"loss": "train/loss", "charbonnier": "train/charbonnier", "lr": "optim/lr",
                    "gradient_norm": "optim/gradient_norm", "samples_per_s": "speed/samples_per_s"},
          "validation": {"loss": "validation/loss", "mae_m_s": "validation/mae_m_s"}}
for kind, keys in places.items():
    for key, tag in keys.items():
        wanted = [(r["update"], f32(float(r[key]))) for r in rows if r["kind"] == kind]
        found = [(e.step, e.value) for e in events.Scalars(tag)]
        assert found == wanted and len(wanted) > 2, f"{tag}: {found} instead of {wanted}"
steps = [e.step for e in events.Scalars("train/loss")]
assert steps == list(range(1, steps[-1] + 1)), f"a step is missing or there twice: {steps}"
assert tags["images"] == ["pictures/hardest"], tags
image = events.Images("pictures/hardest")[-1]
assert image.encoded_image_string.startswith(b"\x89PNG") and image.width > 400, image.width
text = events.Tensors("settings")[-1].tensor_proto.string_val[0].decode()
assert "base = 4" in text and "log_every = 1" in text, text
print(f"tensorboard: {len(tags['scalars'])} curves of {steps[-1]} updates, each once")
EOF
"$python" -B "$work/read.py" "$run" "$run/metrics.jsonl" 2>"$work/log" || { cat "$work/log" >&2; fail "what TensorBoard reads"; }

# What the reader of TensorBoard's own pages (a data server of its own) makes of it.
port=$("$python" -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
"$python" -m tensorboard.main --logdir "$work" --host 127.0.0.1 --port "$port" >"$work/server" 2>&1 &
server=$!
trap 'kill $server 2>/dev/null; rm -rf "$work"' EXIT
cat >"$work/ask.py" <<'EOF'
import json, sys, time, urllib.request

port, log = sys.argv[1:]
ask = lambda what: json.load(urllib.request.build_opener(urllib.request.ProxyHandler({})).open(
    f"http://127.0.0.1:{port}/data/plugin/{what}", timeout=5))
wanted = [r["update"] for r in map(json.loads, open(log)) if r["kind"] == "train"]
found = None
for _ in range(60):
    try:
        found = [step for _, step, _ in ask("scalars/scalars?tag=train%2Floss&run=run")]
    except OSError as e:
        found = e
    if found == wanted:
        break
    time.sleep(0.5)
assert found == wanted, f"{found} instead of {wanted}"
assert "pictures/hardest" in ask("images/tags")["run"]
print("tensorboard: its server shows the same")
EOF
"$python" -B "$work/ask.py" "$port" "$run/metrics.jsonl" || { cat "$work/server" >&2; fail "what TensorBoard's server shows"; }
