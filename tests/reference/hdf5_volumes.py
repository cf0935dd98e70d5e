# SPDX-License-Identifier: Apache-2.0
"""Makes tests/reference/data/volumes.h5 and one_volume.h5 by h5py.  The value of raw at (x, y, z) is
100 x + 10 y + z, of channel c 1000 c more; the tests compute the same.

    python3 -m venv /tmp/venv && /tmp/venv/bin/pip install numpy h5py
    /tmp/venv/bin/python tests/reference/hdf5_volumes.py <repository>
"""
import pathlib
import sys

import h5py
import numpy as np

OUT = pathlib.Path(sys.argv[1]) / "tests/reference/data"
X, Y, Z = 4, 3, 2
x, y, z = np.meshgrid(np.arange(X), np.arange(Y), np.arange(Z), indexing="ij")
xyz = 100 * x + 10 * y + z  # (x, y, z)
zyx = xyz.transpose(2, 1, 0)
with h5py.File(OUT / "volumes.h5", "w") as f:
    raw = f.create_dataset("raw", data=zyx.astype("f4"), chunks=(1, 3, 2), compression="gzip", compression_opts=4, shuffle=True)
    raw.attrs["element_size_um"] = np.array([3.0, 2.0, 1.0])  # z, y, x
    raw.attrs["units"] = "m s-1"
    f.create_dataset("czyx", data=np.stack([zyx, 1000 + zyx]).astype("i2"))
    f.create_dataset("zyxc", data=np.stack([zyx, 1000 + zyx], axis=-1).astype(">f8"))
    f.create_dataset("xyz", data=xyz.astype("u2"))
    f["xyz"].attrs["spacing"] = np.array([0.5, 1.0, 1.5])
    f["xyz"].attrs["spacing_unit"] = "mm"
    named = f.create_dataset("named", data=xyz.transpose(1, 0, 2).astype("i4"))
    for i, label in enumerate("yxz"):
        named.dims[i].label = label
    f.create_dataset("label", data=(zyx % 3).astype("u1"))
    f.create_dataset("group/weight", data=(zyx / 100).astype("f4"))
    f.create_dataset("bool", data=zyx % 2 == 1)
    half = (zyx % 3).astype("f4")
    half[1, 2, 3] = 0.5
    f.create_dataset("half", data=half)
    missing = half.copy()
    missing[1, 2, 3] = np.nan
    f.create_dataset("nan", data=missing)
    f.create_dataset("negative", data=np.where(zyx == 211, -1, zyx % 3).astype("i1"))
    f.create_dataset("big", data=np.where(zyx == 211, 2**63 + 5, zyx % 3).astype("u8"))
    f.create_dataset("plane", data=np.zeros((2, 3)))
    f.create_dataset("five", data=np.zeros((1, 1, 2, 3, 4)))
    f.create_dataset("empty", data=np.zeros((2, 0, 4)))
    f.create_dataset("text", data=np.full((2, 3, 4), b"a"))
    f.create_dataset("pairs", data=np.zeros((2, 3, 4), dtype=[("a", "f4"), ("b", "i4")]))
    f.create_dataset("bad_size", data=zyx.astype("u1")).attrs["element_size_um"] = np.array([1.0, 2.0])
    f.create_dataset("no_size", data=zyx.astype("u1")).attrs["spacing"] = np.array([1.0, 0.0, 2.0])
with h5py.File(OUT / "one_volume.h5", "w") as f:
    f.create_dataset("entry/data/field", data=zyx.astype("f4"))
    f.create_dataset("entry/times", data=np.arange(3))
