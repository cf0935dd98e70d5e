#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/kernels/torch_values.hpp: results of PyTorch in f64 that our kernels are compared with.

    python3 tests/reference/torch_values.py > tests/kernels/torch_values.hpp

Inputs are formulas that the test repeats, so that only results are stored.  Their factors are exact in
binary: whether a compiler contracts a product and a sum then makes no difference.
"""
import math

import torch

torch.set_default_dtype(torch.float64)


def wave(n, phase):
    return torch.tensor([math.sin(0.75 * i + phase) for i in range(n)])


def show(name, values, comment):
    flat = values.detach().flatten().tolist()
    print(f"// {comment}")
    print(f"inline const std::vector<double> {name} = {{")
    for i in range(0, len(flat), 4):
        print("    " + ", ".join(f"{v:.17g}" for v in flat[i : i + 4]) + ",")
    print("};")


def optimize(make):
    """100 steps on 9 parameters; gradient i of step t is sin(0.75 i + 0.3125 t) (1 + i) / 3."""
    p = torch.nn.Parameter(wave(9, 0.25))
    optimizer = make([p])
    for t in range(1, 101):
        p.grad = torch.tensor([math.sin(0.75 * i + 0.3125 * t) * (1 + i) / 3 for i in range(9)])
        optimizer.step()
    return p


print("// SPDX-License-Identifier: Apache-2.0")
print(f"// Written by tests/reference/torch_values.py with PyTorch {torch.__version__}, f64.")
print("#pragma once\n\n#include <vector>\n\nnamespace bora::test::torch_values {\n")
show("kAdamW", optimize(lambda p: torch.optim.AdamW(p, lr=0.01, betas=(0.9, 0.98), eps=1e-6, weight_decay=0.1)),
     "100 steps of AdamW, lr 0.01, betas 0.9 and 0.98, eps 1e-6, weight decay 0.1")
show("kSgd", optimize(lambda p: torch.optim.SGD(p, lr=0.01, momentum=0.9, weight_decay=0.1)),
     "100 steps of SGD, lr 0.01, momentum 0.9, weight decay 0.1")
show("kSgdNesterov", optimize(lambda p: torch.optim.SGD(p, lr=0.01, momentum=0.9, nesterov=True)),
     "100 steps of SGD, lr 0.01, momentum 0.9, Nesterov")
show("kSgdPlain", optimize(lambda p: torch.optim.SGD(p, lr=0.01)), "100 steps of SGD, lr 0.01")


def volume(d, h, w, c):
    """x (1, D, H, W, C) = sin(0.75 i + 0.125), i the index in memory, as PyTorch's (1, C, D, H, W)."""
    return wave(d * h * w * c, 0.125).reshape(1, d, h, w, c).permute(0, 4, 1, 2, 3)


def trilinear(source, size):
    x = volume(*source, 2).contiguous().requires_grad_()
    y = torch.nn.functional.interpolate(x, size=size, mode="trilinear", align_corners=False)
    n = y.numel()
    dy = wave(n, 0.5).reshape(1, *size, 2).permute(0, 4, 1, 2, 3)
    y.backward(dy)
    return y.permute(0, 2, 3, 4, 1), x.grad.permute(0, 2, 3, 4, 1)


for name, source, size in [("Up", (2, 3, 2), (5, 6, 3)), ("Down", (4, 3, 5), (2, 3, 2))]:
    y, dx = trilinear(source, size)
    text = f"{source} to {size} cells, 2 channels"
    show(f"kTrilinear{name}", y, f"interpolate(trilinear, align_corners=False), {text}, channels last")
    show(f"kTrilinear{name}Gradient", dx, f"its gradient for dy = sin(0.75 i + 0.5), {text}")

print("\n}  // namespace bora::test::torch_values")
