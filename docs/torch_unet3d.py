#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The network of unet3d in PyTorch, and its weights from and to safetensors.  See docs/exchanging-weights.md.

    from torch_unet3d import load, save
    net, metadata = load("model.safetensors")      # of `unet3d export`
    field = net(mask)                              # (N, C, X, Y, Z) -> (N, 1, X, Y, Z), normalised
    save("changed.safetensors", net, metadata)     # for `unet3d import`

    python3 torch_unet3d.py model.safetensors mask.nc [--compare prediction.nc] [--save changed.safetensors]

Wants torch and numpy; the second form also h5py.  The reader and writer below are all that the file format takes; the
package `safetensors` (safetensors.torch.load_file, save_file) reads and writes the same files.
"""
import argparse
import json
import struct

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F


def group_count(channels):
    """Groups of a group norm: the largest divisor of the channels that is at most 8."""
    return next(g for g in range(min(8, channels), 0, -1) if channels % g == 0)


def make_norm(kind, channels):
    if kind == "group":
        return nn.GroupNorm(group_count(channels), channels)
    if kind == "instance":
        return nn.InstanceNorm3d(channels, affine=True)
    if kind in ("batch", "sync_batch"):
        return nn.BatchNorm3d(channels)
    raise ValueError(f"norm '{kind}': wanted group, instance, batch or sync_batch")


class ResConvBlock(nn.Module):
    def __init__(self, channels_in, channels_out, norm, dropout):
        super().__init__()
        self.conv1 = nn.Conv3d(channels_in, channels_out, 3, padding=1, bias=False)
        self.norm1 = make_norm(norm, channels_out)
        if channels_in != channels_out:
            self.shortcut = nn.Conv3d(channels_in, channels_out, 1, bias=False)
        self.dropout = nn.Dropout(dropout)
        self.conv2 = nn.Conv3d(channels_out, channels_out, 3, padding=1, bias=False)
        self.norm2 = make_norm(norm, channels_out)

    def forward(self, x):
        h = self.dropout(F.silu(self.norm1(self.conv1(x))))
        residual = self.shortcut(x) if hasattr(self, "shortcut") else x
        return F.silu(self.norm2(self.conv2(h)) + residual)


class UNet3d(nn.Module):
    """(N, in_channels, X, Y, Z) -> (N, out_channels, X, Y, Z) for extents of at least 2^levels."""

    def __init__(self, in_channels=1, out_channels=1, base=16, levels=4, norm="group", up="trilinear", dropout=0.0):
        super().__init__()
        self.levels = levels
        self.transposed = up == "transposed"
        widths = [base << level for level in range(levels + 1)]
        for level, (i, o) in enumerate(zip([in_channels] + widths, widths[:-1])):
            self.add_module(f"encoder{level}", ResConvBlock(i, o, norm, dropout))
        self.bottleneck = ResConvBlock(widths[-2], widths[-1], norm, dropout)
        for level in reversed(range(levels)):
            w = widths[level]
            halve = nn.ConvTranspose3d(2 * w, w, 2, stride=2) if self.transposed else nn.Conv3d(2 * w, w, 1)
            self.add_module(f"up{level}", halve)
            self.add_module(f"decoder{level}", ResConvBlock(2 * w, w, norm, dropout))
        self.head = nn.Conv3d(base, out_channels, 1)

    def forward(self, x):
        skips = []
        for level in range(self.levels):
            x = self.get_submodule(f"encoder{level}")(x)
            skips.append(x)
            x = F.max_pool3d(x, 2)
        x = self.bottleneck(x)
        for level in reversed(range(self.levels)):
            skip, up = skips[level], self.get_submodule(f"up{level}")
            if self.transposed:
                x = up(x, output_size=skip.shape[2:])
            else:
                x = up(F.interpolate(x, size=skip.shape[2:], mode="trilinear", align_corners=False))
            x = self.get_submodule(f"decoder{level}")(torch.cat([skip, x], 1))
        return self.head(x)


TYPES = {"F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16,
         "I64": torch.int64, "I32": torch.int32, "U8": torch.uint8}


def read_safetensors(path):
    """Tensors and metadata of a file, as two dicts."""
    with open(path, "rb") as f:
        header = json.loads(f.read(struct.unpack("<Q", f.read(8))[0]))
        data = bytearray(f.read())
    metadata = header.pop("__metadata__", {})
    tensors = {}
    for name, t in header.items():
        begin, end = t["data_offsets"]
        flat = torch.frombuffer(data, dtype=torch.uint8, count=end - begin, offset=begin) if end > begin else \
            torch.empty(0, dtype=torch.uint8)
        tensors[name] = flat.clone().view(TYPES[t["dtype"]]).reshape(t["shape"])
    return tensors, metadata


def write_safetensors(path, tensors, metadata):
    names = {v: k for k, v in TYPES.items()}
    header, data = {"__metadata__": metadata}, []
    at = 0
    for name, t in sorted(tensors.items(), key=lambda item: -item[1].element_size()):
        data.append(t.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
        header[name] = {"dtype": names[t.dtype], "shape": list(t.shape), "data_offsets": [at, at + len(data[-1])]}
        at += len(data[-1])
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + b"".join(data))


def load(path):
    """The network of a file that `unet3d export` wrote, ready to predict, and the file's metadata."""
    tensors, metadata = read_safetensors(path)
    m = {key.removeprefix("bora.model."): text for key, text in metadata.items() if key.startswith("bora.model.")}
    net = UNet3d(int(m["in_channels"]), int(m["out_channels"]), int(m["base"]), int(m["levels"]), m["norm"], m["up"])
    net.load_state_dict(tensors, strict=True)
    return net.eval(), metadata


def save(path, net, metadata):
    """Weights for `unet3d import`.  The metadata (of load) tells it settings and normalisation."""
    write_safetensors(path, net.state_dict(), metadata)


def predict(net, metadata, mask):
    """Wind speed in m/s on the cells of a building mask (X, Y, Z), -1 inside buildings and 1 in the open."""
    if metadata["bora.model.in_channels"] != "1" or metadata["bora.normalisation.mode"] == "per_sample":
        raise SystemExit("this page predicts for networks that see the mask alone and were trained in units that are "
                         "known without the truth; for others call the network itself")
    with torch.no_grad():
        y = net(torch.as_tensor(mask, dtype=torch.float32)[None, None])[0, 0].double()
    if metadata["bora.normalisation.mode"] == "global":
        y = y * float(metadata["bora.normalisation.sigma"]) + float(metadata["bora.normalisation.mean"])
    return np.where(mask < 0, 0.0, y.numpy())


def read_netcdf(path, variable):
    """A variable of a NetCDF-4 file on (x, y, z)."""
    import h5py

    with h5py.File(path) as f:
        v = f[variable]
        axes = [v.dims[i][0].name.lstrip("/") for i in range(3)]
        return np.transpose(v[...], [axes.index(a) for a in ("x", "y", "z")]).astype(np.float64)


def window_of(grid, metadata):
    """The cells that unet3d predicts: data.shape of the run, centred in x and y, from the ground up."""
    import tomllib

    text = tomllib.loads(metadata["bora.config"])["data"]["shape"]
    wanted = [int(n) for n in text.split("x")] if isinstance(text, str) else text
    shape = [w or g for w, g in zip(wanted, grid)]
    if any(s > g for s, g in zip(shape, grid)):
        raise SystemExit(f"the run padded its cases of {grid} to {shape}; this page only crops")
    begin = [(grid[0] - shape[0]) // 2, (grid[1] - shape[1]) // 2, 0]
    return tuple(slice(b, b + s) for b, s in zip(begin, shape))


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("weights")
    a.add_argument("mask")
    a.add_argument("--compare", help="prediction of `unet3d predict` for the same mask")
    a.add_argument("--save", help="write the weights again, through PyTorch's state_dict()")
    c = a.parse_args()
    net, metadata = load(c.weights)
    mask = read_netcdf(c.mask, "building_mask")
    window = window_of(mask.shape, metadata)
    field = predict(net, metadata, mask[window])
    print(f"{sum(p.numel() for p in net.parameters())} parameters; {field.shape} cells, "
          f"mean {field[mask[window] > 0].mean():.6f} m/s in the open")
    if c.save:
        save(c.save, net, metadata)
    if c.compare:
        other = read_netcdf(c.compare, "wind_speed")[window]
        error = np.abs(field - other).max() / np.abs(other).max()
        print(f"largest difference to {c.compare}: {error:.1e} of its largest value")
        if not error <= 1e-5:
            raise SystemExit("the outputs differ by more than 1e-5")


if __name__ == "__main__":
    main()
