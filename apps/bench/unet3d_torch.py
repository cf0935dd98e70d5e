# SPDX-License-Identifier: Apache-2.0
"""The networks of bench_step in PyTorch, one training step timed.  Used by scripts/compare_pytorch.sh only.

Writes one JSON line to --json: median and all times in ms, peak resident MiB, torch's version and settings.
"""
import argparse
import contextlib
import json
import resource
import time

import torch
import torch.nn as nn
import torch.nn.functional as F


def groups(channels):
    g = min(8, channels)
    while channels % g:
        g -= 1
    return g


class Block(nn.Module):
    def __init__(self, i, o):
        super().__init__()
        self.conv1 = nn.Conv3d(i, o, 3, padding=1, bias=False)
        self.norm1 = nn.GroupNorm(groups(o), o)
        self.conv2 = nn.Conv3d(o, o, 3, padding=1, bias=False)
        self.norm2 = nn.GroupNorm(groups(o), o)
        self.shortcut = nn.Identity() if i == o else nn.Conv3d(i, o, 1, bias=False)

    def forward(self, x):
        h = F.silu(self.norm1(self.conv1(x)))
        return F.silu(self.norm2(self.conv2(h)) + self.shortcut(x))


class UNet3d(nn.Module):
    def __init__(self, in_channels, out_channels, base, levels=4):
        super().__init__()
        widths = [base * 2**level for level in range(levels + 1)]
        self.encoder = nn.ModuleList(Block(i, o) for i, o in zip([in_channels] + widths, widths[:-1]))
        self.bottleneck = Block(widths[-2], widths[-1])
        self.up = nn.ModuleList(nn.Conv3d(2 * w, w, 1) for w in widths[:-1])
        self.decoder = nn.ModuleList(Block(2 * w, w) for w in widths[:-1])
        self.head = nn.Conv3d(base, out_channels, 1)

    def forward(self, x):
        skips = []
        for block in self.encoder:
            skips.append(block(x))
            x = F.max_pool3d(skips[-1], 2)
        x = self.bottleneck(x)
        for up, block, skip in reversed(list(zip(self.up, self.decoder, skips))):
            x = F.interpolate(x, size=skip.shape[2:], mode="trilinear", align_corners=False)
            x = block(torch.cat([skip, up(x)], 1))
        return self.head(x)


class PlainBlock(nn.Sequential):
    def __init__(self, i, o):
        super().__init__(nn.Conv3d(i, o, 3, padding=1), nn.GroupNorm(groups(o), o), nn.ReLU(inplace=True),
                         nn.Conv3d(o, o, 3, padding=1), nn.GroupNorm(groups(o), o), nn.ReLU(inplace=True))


class PlainUNet(nn.Module):
    def __init__(self, in_channels, out_channels, base, levels=4):
        super().__init__()
        widths = [base * 2**level for level in range(levels)]
        self.encoder = nn.ModuleList(PlainBlock(i, o) for i, o in zip([in_channels] + widths, widths))
        self.up = nn.ModuleList(nn.Conv3d(2 * w, w, 3, padding=1) for w in widths[:-1])
        self.decoder = nn.ModuleList(PlainBlock(2 * w, w) for w in widths[:-1])
        self.head = nn.Conv3d(base, out_channels, 1)

    def forward(self, x):
        skips = []
        for level, block in enumerate(self.encoder):
            x = block(F.max_pool3d(x, 2) if level else x)
            skips.append(x)
        for up, block, skip in reversed(list(zip(self.up, self.decoder, skips[:-1]))):
            x = F.interpolate(x, size=skip.shape[2:], mode="trilinear", align_corners=False)
            x = block(torch.cat([skip, up(x)], 1))
        return self.head(x)


def gradient_loss(p, t):
    total = 0
    for axis in (2, 3, 4):
        total = total + (p.diff(dim=axis) - t.diff(dim=axis)).abs().mean()
    return total / 3


def main():
    a = argparse.ArgumentParser()
    a.add_argument("--case", choices=["unet3d", "plain"], default="unet3d")
    a.add_argument("--precision", choices=["fp32", "bf16"], default="fp32")
    a.add_argument("--base", type=int, default=16)
    a.add_argument("--size", default="64x64x64")
    a.add_argument("--batch", type=int, default=1)
    a.add_argument("--threads", type=int, default=2)
    a.add_argument("--warmup", type=int, default=3)
    a.add_argument("--repeats", type=int, default=10)
    a.add_argument("--channels-last", action="store_true")
    a.add_argument("--json", required=True)
    c = a.parse_args()
    torch.set_num_threads(c.threads)
    torch.manual_seed(0)
    net = (UNet3d if c.case == "unet3d" else PlainUNet)(1, 1, c.base)
    size = [int(v) for v in c.size.split("x")]
    x = torch.rand(c.batch, 1, *size) * 2 - 1
    t = torch.rand(c.batch, 1, *size) * 2 - 1
    if c.channels_last:
        net = net.to(memory_format=torch.channels_last_3d)
        x = x.to(memory_format=torch.channels_last_3d)
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3, weight_decay=1e-4, foreach=True)

    bf16 = c.precision == "bf16"

    def step():
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cpu", torch.bfloat16) if bf16 else contextlib.nullcontext():
            y = net(x)
        y = y.float()
        if c.case == "unet3d":
            loss = torch.sqrt((y - t) ** 2 + 1e-6).mean() + 0.1 * gradient_loss(y, t)
        else:
            loss = F.mse_loss(y, t)
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()

    for _ in range(c.warmup):
        step()
    ms = []
    for _ in range(c.repeats):
        begin = time.perf_counter()
        step()
        ms.append(1e3 * (time.perf_counter() - begin))
    ms.sort()
    assert all(torch.isfinite(p).all() for p in net.parameters()), "the weights are not finite any more"
    with open(c.json, "w") as f:
        json.dump({"median_ms": ms[len(ms) // 2], "ms": ms, "threads": c.threads, "torch": torch.__version__,
                   "channels_last": c.channels_last, "case": c.case, "precision": c.precision,
                   "parameters": sum(p.numel() for p in net.parameters()),
                   "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}, f)
        f.write("\n")


if __name__ == "__main__":
    main()
