# SPDX-License-Identifier: Apache-2.0
"""Makes samples/urban-wind from the full public data set "Urban wind fields around random building
layouts" (wind_speed_filled/, mask_buildings/, manifest.csv).

    python3 -m venv /tmp/venv && /tmp/venv/bin/pip install numpy netCDF4
    /tmp/venv/bin/python tests/reference/make_sample.py <full data set> samples/urban-wind

Kept: all cases; per file the coordinates and wind_speed or building_mask, every attribute, bit for bit
the same values.  Left out: the velocity components u, v, w and the h5/ copies.  Stored with shuffle and
deflate 9.  The script reads back what it wrote and fails on any difference; it also checks the limit of
10 MB on the whole folder.
"""
import pathlib
import shutil
import sys

import netCDF4
import numpy as np

KEPT = {"wind_speed_filled": "wind_speed", "mask_buildings": "building_mask"}
LIMIT_BYTES = 10_000_000


def copy_file(source: pathlib.Path, target: pathlib.Path, variable: str) -> None:
    with netCDF4.Dataset(source) as a, netCDF4.Dataset(target, "w", format="NETCDF4") as b:
        a.set_auto_maskandscale(False)
        b.set_auto_maskandscale(False)
        b.setncatts({k: a.getncattr(k) for k in a.ncattrs()})
        for name, dim in a.dimensions.items():
            b.createDimension(name, len(dim))
        for name in ["x", "y", "z", variable]:
            v = a[name]
            packed = dict(zlib=True, complevel=9, shuffle=True, chunksizes=v.shape) if v.ndim == 3 else {}
            w = b.createVariable(name, v.dtype, v.dimensions, fill_value=getattr(v, "_FillValue", None),
                                 **packed)
            w.setncatts({k: v.getncattr(k) for k in v.ncattrs() if k != "_FillValue"})
            w[...] = v[...]
    with netCDF4.Dataset(source) as a, netCDF4.Dataset(target) as b:
        a.set_auto_maskandscale(False)
        b.set_auto_maskandscale(False)
        assert repr({k: a.getncattr(k) for k in a.ncattrs()}) == repr({k: b.getncattr(k) for k in b.ncattrs()})
        for name in ["x", "y", "z", variable]:
            v, w = a[name], b[name]
            assert v.dimensions == w.dimensions and v.dtype == w.dtype and v[...].tobytes() == w[...].tobytes()
            assert {k: v.getncattr(k) for k in v.ncattrs()} == {k: w.getncattr(k) for k in w.ncattrs()}


def main() -> None:
    source, target = map(pathlib.Path, sys.argv[1:3])
    n = 0
    for folder, variable in KEPT.items():
        (target / folder).mkdir(parents=True, exist_ok=True)
        for path in sorted((source / folder).glob("*.nc")):
            copy_file(path, target / folder / path.name, variable)
            n += 1
    shutil.copyfile(source / "manifest.csv", target / "manifest.csv")
    size = sum(p.stat().st_size for p in target.rglob("*") if p.is_file())
    for folder in KEPT:
        print(folder, sum(p.stat().st_size for p in (target / folder).iterdir()), "bytes")
    print(n, "files,", size, "bytes in all")
    assert size <= LIMIT_BYTES, "above the limit"


main()
