# SPDX-License-Identifier: Apache-2.0
"""Makes tests/reference/data/evaluation.txt: blended windows and normalised errors as numpy computes them.

    python3 tests/reference/make_evaluation_reference.py <repository>

Lines: `volume X Y Z`, `window X Y Z`, `overlap 0.5`; for each window `values bx by bz v...` (its
first cell, then its values, z fastest); `blend v...` of the volume.  Then for three cases `case sigma`
and `cell prediction target open`, and `<name>.<case> value`, `<name> value` (all cases) for the
errors in units of sigma.
"""
import pathlib
import sys

import numpy as np

rng = np.random.default_rng(23)
volume, window, overlap = (11, 7, 3), (4, 3, 5), 0.5  # z is padded: the window is longer
begins = [[0, 2, 4, 6, 7], [0, 1, 2, 3, 4], [0]]


def profile(n):
    d = (np.arange(n) - (n - 1) / 2) / (n / 8)
    return np.maximum(np.exp(-0.5 * d**2), 1e-3)


weight = profile(4)[:, None, None] * profile(3)[None, :, None] * profile(5)[None, None, :]
top, bottom = np.zeros(volume), np.zeros(volume)
lines = ["volume %d %d %d" % volume, "window %d %d %d" % window, "overlap %g" % overlap]
for x in begins[0]:
    for y in begins[1]:
        for z in begins[2]:
            v = rng.normal(5, 3, size=window).astype(np.float32)
            lines.append("values %d %d %d " % (x, y, z) + " ".join("%.9g" % c for c in v.ravel()))
            depth = min(window[2], volume[2])
            box = np.s_[x : x + 4, y : y + 3, 0:depth]
            top[box] += (weight * v.astype(np.float64))[:, :, :depth]
            bottom[box] += weight[:, :, :depth]
lines.append("blend " + " ".join("%.17g" % c for c in (top / bottom).ravel()))

errors = []
for case, sigma in enumerate([1.7, 0.3, 2.5]):
    target = rng.gamma(2.0, 1.5, size=40).astype(np.float32)
    prediction = (target + rng.normal(0.1, 0.4, size=40)).astype(np.float32)
    open_cells = rng.random(40) < (0.7 if case < 2 else 0.0)
    lines.append("case %.17g" % sigma)
    for p, t, o in zip(prediction, target, open_cells):
        lines.append("cell %.9g %.9g %d" % (p, t, o))
    e = (prediction.astype(np.float64) - target.astype(np.float64))[open_cells] / sigma
    errors.append(e)


def metrics(e):
    return {"mae": np.mean(np.abs(e)), "rmse": np.sqrt(np.mean(e**2)), "max": np.max(np.abs(e))}


for case in range(2):
    lines += ["%s.%d %.17g" % (k, case, v) for k, v in metrics(errors[case]).items()]
lines += ["%s %.17g" % (k, v) for k, v in metrics(np.concatenate(errors)).items()]
out = pathlib.Path(sys.argv[1]) / "tests/reference/data/evaluation.txt"
out.write_text("\n".join(lines) + "\n")
