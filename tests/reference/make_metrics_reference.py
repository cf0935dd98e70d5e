# SPDX-License-Identifier: Apache-2.0
"""Makes tests/reference/data/metrics.txt: error metrics of masked fields as numpy computes them.

    python3 tests/reference/make_metrics_reference.py <repository>

Lines: `sample prediction target region` for each cell (three samples of 4 x 5 x 3 cells, the last
one with an empty region), then `name value` for the first two samples pooled, and for each of them
as name.0, name.1.  Threshold 0.25, floor of the relative error 0.5.
"""
import pathlib
import sys

import numpy as np

rng = np.random.default_rng(11)
target = rng.gamma(2.0, 1.5, size=(3, 60)).astype(np.float32)
target[:, ::7] *= 0.05  # small ones, where the floor matters
prediction = (target + rng.normal(0.1, 0.4, size=target.shape)).astype(np.float32)
region = rng.random(target.shape) < 0.6
region[1, 30:] = False  # unequal counts
region[2] = False
prediction[~region] = np.where(rng.random((~region).sum()) < 0.5, np.nan, 1e30)


def metrics(p, t):
    p, t = p.astype(np.float64), t.astype(np.float64)
    e = p - t
    rmse = np.sqrt(np.mean(e**2))
    return {
        "count": e.size,
        "mae": np.mean(np.abs(e)),
        "rmse": rmse,
        "mre": np.mean(np.abs(e) / np.maximum(np.abs(t), 0.5)),
        "nrmse": rmse / np.ptp(t),
        "hit_rate": np.mean(np.abs(e) <= 0.25),
        "r2": 1 - np.sum(e**2) / np.sum((t - t.mean()) ** 2),
        "relative_l2": np.linalg.norm(e) / np.linalg.norm(t),
        "max_abs": np.max(np.abs(e)),
    }


lines = []
for n in range(3):
    for p, t, r in zip(prediction[n], target[n], region[n]):
        lines.append("%d %.9g %.9g %d" % (n, p, t, r))
for name, value in metrics(prediction[region], target[region]).items():
    lines.append("%s %.17g" % (name, value))
for n in range(2):
    for name, value in metrics(prediction[n][region[n]], target[n][region[n]]).items():
        lines.append("%s.%d %.17g" % (name, n, value))
out = pathlib.Path(sys.argv[1]) / "tests/reference/data/metrics.txt"
out.write_text("\n".join(lines) + "\n")
