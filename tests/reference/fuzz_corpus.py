# SPDX-License-Identifier: Apache-2.0
"""Makes the small valid files that the fuzzers of NetCDF-4 and HDF5 volumes start from, one for each
layout of the format that a reader has a path for.

    /tmp/venv/bin/python tests/reference/fuzz_corpus.py <repository>     (numpy, netCDF4, h5py)
"""
import pathlib
import sys

import h5py
import netCDF4
import numpy as np

OUT = pathlib.Path(sys.argv[1]) / "tests/fuzz/corpus"
cube = np.arange(24).reshape(2, 3, 4)


def netcdf(name, fill):
    with netCDF4.Dataset(OUT / "netcdf" / name, "w") as d:
        for dim, n in [("z", 2), ("y", 3), ("x", 4)]:
            d.createDimension(dim, n)
        fill(d)


def packed(d):
    v = d.createVariable("t", "i2", ("z", "y", "x"), fill_value=-9, zlib=True, shuffle=True, fletcher32=True, chunksizes=(1, 3, 4))
    v.set_auto_maskandscale(False)
    v[...] = cube
    v.scale_factor, v.add_offset, v.missing_value = 0.5, 1.0, np.array([1, 2], "i2")


def contiguous(d):
    v = d.createVariable("wind_speed", "f4", ("x", "y", "z"))
    v[...] = cube.transpose()
    v.units = "m s-1"
    c = d.createVariable("x", "f4", ("x",))
    c[:] = np.arange(4)


def others(d):
    v = d.createVariable("u", "i1", ("y", "x"))
    v.setncattr("_Unsigned", "true")
    v.valid_range = np.array([0, 9], "i1")
    v[...] = cube[0]
    d.createVariable("s", str, ())[0] = "text"
    d.createDimension("t", None)
    d.createVariable("q", "u8", ("t", "x"))[0, :] = [1, 2, 3, 4]


netcdf("packed.nc", packed)
netcdf("contiguous.nc", contiguous)
netcdf("others.nc", others)
for latest in [False, True]:
    tail = "_new" if latest else "_old"
    with h5py.File(OUT / "hdf5_volume" / f"chunked{tail}.h5", "w", libver="latest" if latest else "earliest") as f:
        f.create_dataset("raw", data=cube.astype("f4"), chunks=(1, 3, 2), compression="gzip", shuffle=True)
        f["raw"].attrs["element_size_um"] = [3.0, 2.0, 1.0]
        f.create_dataset("label", data=(cube % 3).astype("u1"), chunks=(2, 3, 4), fletcher32=True)
    with h5py.File(OUT / "hdf5_volume" / f"plain{tail}.h5", "w", libver="latest" if latest else "earliest") as f:
        f.create_dataset("raw", data=np.stack([cube, cube]).astype(">i2"))
        f.create_dataset("g/label", data=(cube % 3).astype("i8"))
        f.create_dataset("names", data=["a", "bc"], dtype=h5py.string_dtype())
