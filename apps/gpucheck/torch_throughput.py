# SPDX-License-Identifier: Apache-2.0
"""The networks of `gpucheck throughput` in PyTorch, training steps timed.  Used by scripts/gpu_check.sh.

Writes the result of a stage (see apps/gpucheck/result.hpp) to --out: median and spread of the counted steps, peak memory, versions.
Weights are PyTorch's own; layer sizes are those of apps/gpucheck/networks.cpp, which the number of parameters shows.
"""
import argparse
import contextlib
import json
import pathlib
import sys
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "bench"))
from unet3d_torch import UNet3d, gradient_loss  # noqa: E402

CLASSES = 3


class Block(nn.Sequential):
    def __init__(self, i, o, stride):
        super().__init__(nn.Conv3d(i, o, 3, stride, 1, bias=False), nn.InstanceNorm3d(o, affine=True), nn.ReLU(inplace=True),
                         nn.Conv3d(o, o, 3, 1, 1, bias=False), nn.InstanceNorm3d(o, affine=True), nn.ReLU(inplace=True))


class MlperfUnet(nn.Module):
    def __init__(self, base):
        super().__init__()
        widths = [base, 2 * base, 4 * base, 8 * base, 10 * base, 10 * base]
        self.encoder = nn.ModuleList(Block(i, o, 1 if level == 0 else 2)
                                     for level, (i, o) in enumerate(zip([1] + widths, widths)))
        self.up = nn.ModuleList(nn.ConvTranspose3d(i, o, 2, 2) for i, o in zip(widths[1:], widths))
        self.decoder = nn.ModuleList(Block(2 * w, w, 1) for w in widths[:-1])
        self.head = nn.Conv3d(base, CLASSES, 1)

    def forward(self, x):
        skips = []
        for block in self.encoder:
            x = block(x)
            skips.append(x)
        for up, block, skip in reversed(list(zip(self.up, self.decoder, skips))):
            x = block(torch.cat([skip, up(x)], 1))
        return self.head(x)

    def loss(self, logits, labels):
        logits = logits.float()
        p = torch.softmax(logits, 1)
        t = F.one_hot(labels, CLASSES).movedim(-1, 1).to(p.dtype)
        axes = (2, 3, 4)
        dice = (2 * (p * t).sum(axes) + 1e-5) / (p.sum(axes) + t.sum(axes) + 1e-5)
        return F.cross_entropy(logits, labels) + 1 - dice.mean()


class WindUnet(UNet3d):
    def __init__(self, base):
        super().__init__(1, 1, base)

    def loss(self, y, t):
        y = y.float()
        return torch.sqrt((y - t) ** 2 + 1e-6).mean() + 0.1 * gradient_loss(y, t)


def percentile(values, p):
    return values[int(p * (len(values) - 1) + 0.5)]


def main():
    a = argparse.ArgumentParser()
    a.add_argument("--out", required=True)
    a.add_argument("--network", choices=["mlperf", "wind"], default="mlperf")
    a.add_argument("--layout", choices=["channels_last", "contiguous"], required=True)
    a.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    a.add_argument("--batch", type=int, default=2)
    a.add_argument("--base", type=int, default=32)
    a.add_argument("--extent", type=int, default=128)
    a.add_argument("--warmup", type=int, default=10)
    a.add_argument("--steps", type=int, default=30)
    c = a.parse_args()
    begin = time.perf_counter()
    gpu = c.device == "cuda"
    torch.backends.cudnn.benchmark = True
    torch.manual_seed(0)
    net = (MlperfUnet if c.network == "mlperf" else WindUnet)(c.base).to(c.device)
    x = torch.rand(c.batch, 1, *[c.extent] * 3, device=c.device) * 2 - 1
    if c.network == "mlperf":
        t = torch.randint(0, CLASSES, (c.batch, *[c.extent] * 3), device=c.device)
    else:
        t = torch.rand_like(x) * 2 - 1
    if c.layout == "channels_last":
        net = net.to(memory_format=torch.channels_last_3d)
        x = x.to(memory_format=torch.channels_last_3d)
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3, weight_decay=1e-4, fused=gpu)
    scaler = torch.amp.GradScaler(c.device, enabled=gpu)
    wait = torch.cuda.synchronize if gpu else (lambda: None)

    def step():
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cuda", torch.float16) if gpu else contextlib.nullcontext():
            y = net(x)
        scaler.scale(net.loss(y, t)).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()

    # Convolutions are met and timed, as by ours; what that took does not count as a step's.
    for _ in range(min(3, c.warmup)):
        step()
    wait()
    if gpu:
        torch.cuda.empty_cache()
    for _ in range(c.warmup):
        step()
    wait()
    if gpu:
        torch.cuda.reset_peak_memory_stats()
    ms = []
    for _ in range(c.steps):
        t0 = time.perf_counter()
        step()
        wait()
        ms.append(1e3 * (time.perf_counter() - t0))
    ms.sort()
    for p in net.parameters():
        if not torch.isfinite(p).all():
            raise SystemExit("torch_throughput.py: the weights are not finite any more")
    shape = f"{c.network} {c.batch}x{c.extent}x{c.extent}x{c.extent}"
    # As for ours: in use by tensors and workspaces at the peak; taken from the device; all that the card holds.
    peak = torch.cuda.max_memory_allocated() / 2**20 if gpu else 0
    memory = {}
    if gpu:
        free, total = torch.cuda.mem_get_info()
        memory = {"reserved MiB": torch.cuda.memory_reserved() / 2**20, "card MiB": (total - free) / 2**20}
    result = {
        "schema": "bora.gpu_check.stage/1", "name": f"throughput {c.network} torch {c.layout}", "status": "passed",
        "seconds": time.perf_counter() - begin, "device": "gpu" if gpu else "cpu", "error": "",
        "facts": {"torch": torch.__version__, "torch cudnn": str(torch.backends.cudnn.version())},
        "numbers": {"parameters": sum(p.numel() for p in net.parameters()),
                    "patches a second": 1e3 * c.batch / percentile(ms, 0.5), **memory},
        "bench": [{"name": f"torch {c.layout}", "shape": shape, "dtype": "f16" if gpu else "f32",
                   "ms_p10": percentile(ms, 0.1), "ms_median": percentile(ms, 0.5), "ms_p90": percentile(ms, 0.9),
                   "n": len(ms), "bytes": 0, "flops": 0, "pct_of_floor": 0, "peak_MiB": peak}],
    }
    with open(c.out, "w") as f:
        json.dump(result, f)
        f.write("\n")


if __name__ == "__main__":
    main()
