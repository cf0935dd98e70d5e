# SPDX-License-Identifier: Apache-2.0
"""torch_values.py WEIGHTS.safetensors VALUES.safetensors SAVED.safetensors ...: for each three, what docs/torch_unet3d.py gives
with WEIGHTS for the inputs in VALUES (of network_output), against the outputs that are there, 1e-5 of the largest; then the
weights through PyTorch's state_dict() to SAVED."""
import pathlib
import sys

import torch

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "docs"))
import torch_unet3d as page  # noqa: E402

args = sys.argv[1:]
worst = 0.0
for weights, values_path, saved in zip(args[::3], args[1::3], args[2::3]):
    net, metadata = page.load(weights)
    values, _ = page.read_safetensors(values_path)
    for i in range(sum(name.startswith("input") for name in values)):
        with torch.no_grad():
            y = net(values[f"input{i}"])
        wanted = values[f"output{i}"]
        if y.shape != wanted.shape:
            sys.exit(f"{weights}: {tuple(y.shape)}, wanted {tuple(wanted.shape)}")
        error = float((y - wanted).abs().max() / wanted.abs().max())
        worst = max(worst, error)
        if not error <= 1e-5:
            sys.exit(f"{weights}: differs by {error:.1e} of the largest value, wanted at most 1e-5")
    page.save(saved, net, metadata)
print(f"PyTorch {torch.__version__}: {len(args) // 3} networks, largest difference {worst:.1e} of the largest value")
