# SPDX-License-Identifier: Apache-2.0
"""Makes tests/reference/data/transforms.txt: what scipy.ndimage and numpy make of a small volume.

    python3 -m venv /tmp/venv && /tmp/venv/bin/pip install numpy scipy
    /tmp/venv/bin/python tests/reference/make_transforms_reference.py <repository>
"""
import pathlib
import sys

import numpy as np
from scipy import ndimage
from scipy.spatial.transform import Rotation

OUT = pathlib.Path(sys.argv[1]) / "tests/reference/data/transforms.txt"
lines = []


def note(name, values):
    """name extent,extent,extent then the values in C order."""
    v = np.asarray(values, dtype=np.float64)
    lines.append(" ".join([name, ",".join(map(str, v.shape)), *("%.9g" % x for x in v.ravel())]))


rng = np.random.default_rng(3)
volume = np.round(rng.normal(size=(9, 8, 7)), 3).astype(np.float32)
labels = rng.integers(0, 4, size=volume.shape)
v = volume.astype(np.float64)
note("volume", v)
note("labels", labels)
for sigma in (0.6, 1.0, 2.5):
    note("blur_%g" % sigma, ndimage.gaussian_filter(v, sigma, mode="reflect", truncate=4.0))

# Seen through a rotation about x by 10, y by -20 and z by 30 degrees (in this order), zoom 1.25, cells of 1 x 1 x 2.
rotation = Rotation.from_euler("xyz", [10, -20, 30], degrees=True).as_matrix()
size = np.diag([1.0, 1.0, 2.0])
matrix = np.linalg.inv(size) @ rotation.T @ size / 1.25
patch = np.array([7, 6, 5])
offset = (np.array(v.shape) - 1) / 2 - matrix @ ((patch - 1) / 2)
for name, data, order in (("affine", v, 1), ("affine_labels", labels, 0)):
    note(name, ndimage.affine_transform(data, matrix, offset, output_shape=tuple(patch), order=order, mode="nearest"))
note("affine_matrix", matrix)
note("affine_offset", offset)

# nnU-Net's formulas.
t = (v - v.min()) / (v.max() - v.min())
plain = t**1.4 * (v.max() - v.min()) + v.min()
note("gamma_1.4", plain)
note("gamma_1.4_moments", (plain - plain.mean()) / plain.std() * v.std() + v.mean())
t = (v.max() - v) / (v.max() - v.min())
note("gamma_0.7_inverted", v.max() - t**0.7 * (v.max() - v.min()))
note("contrast_1.25", np.clip((v - v.mean()) * 1.25 + v.mean(), v.min(), v.max()))
# 9 cells to 5 along x only: means over 1.8 cells each, then linear between their centres.
fine = np.repeat(v, 5, axis=0).reshape(5, 9, 8, 7).mean(axis=1)
centres = (np.arange(5) + 0.5) * 9 / 5 - 0.5
note("low_0.56_x", np.apply_along_axis(lambda c: np.interp(np.arange(9), centres, c), 0, fine))
OUT.write_text("\n".join(lines) + "\n")
