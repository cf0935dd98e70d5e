#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/reference/data/torch_*.safetensors: weights of small networks by PyTorch, an input, and what PyTorch
makes of it, for tests/apps/exchange_test.cpp.  Wants torch.

    python3 tests/reference/make_torch_unet3d.py

Weights and inputs are f32; the outputs are computed in f64 and rounded to f32.
"""
import pathlib
import sys

import torch

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "docs"))
from torch_unet3d import UNet3d, write_safetensors  # noqa: E402

# name -> settings; extents are odd where an upsampling must land on another size than twice the coarser one.
NETWORKS = {
    "group": (dict(in_channels=1, out_channels=1, base=4, levels=2, norm="group", up="trilinear"), (2, 1, 9, 8, 7)),
    "batch": (dict(in_channels=3, out_channels=1, base=2, levels=2, norm="batch", up="transposed"), (2, 3, 5, 7, 8)),
    "instance": (dict(in_channels=1, out_channels=2, base=3, levels=1, norm="instance", up="transposed"), (1, 1, 4, 5, 6)),
}


def main():
    for name, (settings, shape) in NETWORKS.items():
        torch.manual_seed(20261130)
        net = UNet3d(**settings)
        with torch.no_grad():
            for key, p in net.named_parameters():
                if "norm" in key:  # as if trained: away from 1 and 0
                    p.add_(0.3 * torch.randn_like(p))
        x = torch.randn(shape)
        net.train()
        for _ in range(3):  # running statistics
            net(1 + 2 * torch.randn(shape))
        tensors = {key: value.clone() for key, value in net.state_dict().items()}
        net = net.eval().double()
        with torch.no_grad():
            y = net(x.double()).float()
        write_safetensors(ROOT / f"tests/reference/data/torch_{name}.safetensors", tensors, {"format": "pt"})
        write_safetensors(ROOT / f"tests/reference/data/torch_{name}_values.safetensors", {"input": x, "output": y},
                          {"torch": torch.__version__})


if __name__ == "__main__":
    main()
