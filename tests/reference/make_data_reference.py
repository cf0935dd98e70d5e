# SPDX-License-Identifier: Apache-2.0
"""Makes tests/reference/data: small files by other writers (netCDF4, h5netcdf, h5py), and what other
readers (netCDF4 with masking and scaling, xarray, numpy) make of them and of samples/urban-wind.

    python3 -m venv /tmp/venv && /tmp/venv/bin/pip install numpy netCDF4 xarray h5py h5netcdf
    /tmp/venv/bin/python tests/reference/make_data_reference.py <repository>
"""
import pathlib
import sys

import h5netcdf
import h5py
import netCDF4
import numpy as np
import xarray

REPO = pathlib.Path(sys.argv[1])
OUT = REPO / "tests/reference/data"
OUT.mkdir(parents=True, exist_ok=True)
lines = []


def note(file, variable, dims, values):
    """file variable dim,dim extent,extent then the values in C order; nan = missing."""
    v = np.ma.filled(np.ma.asarray(values, dtype=np.float64), np.nan)
    lines.append(" ".join([file, variable, ",".join(dims), ",".join(map(str, v.shape)), *("%.17g" % x for x in v.ravel())]))


def note_netcdf4(file, variable):
    with netCDF4.Dataset(OUT / file) as d:
        note(file, variable, d[variable].dimensions, d[variable][...].astype(np.float64))


def packed():
    rng = np.random.default_rng(1)
    with netCDF4.Dataset(OUT / "packed.nc", "w") as d:
        for name, n in [("z", 3), ("y", 4), ("x", 5)]:
            d.createDimension(name, n)
            if name != "y":  # y has no coordinate variable
                c = d.createVariable(name, "f8", (name,))
                c[:] = np.arange(n) * 2.5
                c.units = "m"
        v = d.createVariable("i16", "i2", ("z", "y", "x"), fill_value=-999, zlib=True, fletcher32=True, chunksizes=(1, 4, 5))
        v.set_auto_maskandscale(False)
        raw = rng.integers(-2000, 2000, v.shape).astype("i2")
        raw[0, 0, 0], raw[1, 2, 3], raw[2, 3, 4] = -999, -999, -880
        raw[2, 0, 0], raw[2, 0, 1] = -888, -777
        v[...] = raw
        v.scale_factor, v.add_offset, v.units = 0.01, 273.15, "K"
        v.missing_value = np.array([-888, -777], "i2")
        # A default fill: never written cells.
        v = d.createVariable("unwritten", "f4", ("x", "y"))
        v[1, :] = [1, 2, 3, 4]
        v = d.createVariable("plain_f64", "f8", ("y", "x", "z"))
        v[...] = rng.normal(size=v.shape)
        v = d.createVariable("big_endian", "f4", ("y", "x"), endian="big")
        v[...] = rng.normal(size=v.shape)
        v = d.createVariable("unsigned", "i1", ("x",))
        v.set_auto_maskandscale(False)
        v.setncattr("_Unsigned", "true")
        v[:] = np.array([0, 1, 127, -128, -1], "i1")
        v = d.createVariable("ranged", "i4", ("x",))
        v.set_auto_maskandscale(False)
        v.valid_range = np.array([0, 10], "i4")
        v.scale_factor = 0.5
        v[:] = np.array([-1, 0, 5, 10, 11], "i4")
        v = d.createVariable("bytes", "u1", ("x",))
        v[:] = [0, 1, 2, 3, 254]  # 255: readers differ on whether bytes have a default fill
    for name in ["i16", "unwritten", "plain_f64", "big_endian", "unsigned", "ranged", "bytes"]:
        note_netcdf4("packed.nc", name)
    with xarray.open_dataset(OUT / "packed.nc", decode_cf=True) as d:  # a second opinion
        a, b = d["i16"].values, netCDF4.Dataset(OUT / "packed.nc")["i16"][...].filled(np.nan)
        assert np.array_equal(np.isnan(a), np.isnan(b)) and np.nanmax(np.abs(a - b)) < 1e-4


def unlimited():
    rng = np.random.default_rng(2)
    with netCDF4.Dataset(OUT / "unlimited.nc", "w") as d:
        d.createDimension("time", None)
        d.createDimension("x", 3)
        d.createDimension("y", 2)
        v = d.createVariable("speed", "f4", ("time", "y", "x"))
        v[0] = rng.normal(size=(2, 3))
        v.units = "m s-1"
        d.createVariable("label", str, ())[0] = "text"
    note_netcdf4("unlimited.nc", "speed")


def no_cells():
    """What a program leaves that made its dimensions and ended before it wrote: unlimited ones are still 0."""
    with netCDF4.Dataset(OUT / "no_cells.nc", "w") as d:
        for name, n in [("x", 3), ("y", 2), ("z", None), ("time", None), ("band", 2), ("height", 4)]:
            d.createDimension(name, n)
        for name in ["x", "z"]:
            d.createVariable(name, "f4", (name,)).units = "m"
        d["x"][:] = np.arange(3)
        d.createVariable("wind_speed", "f4", ("x", "y", "z"))
        d.createVariable("building_mask", "i1", ("x", "y", "z"))
        d.createVariable("steps", "f4", ("time", "band", "x", "y", "height"), zlib=True)


def other_writer():
    with h5netcdf.File(OUT / "h5netcdf.nc", "w") as d:
        d.dimensions = {"lon": 4, "lat": 3}
        v = d.create_variable("wind", ("lat", "lon"), "f4", data=np.arange(12, dtype="f4").reshape(3, 4))
        v.attrs["units"] = "m/s"
        v = d.create_variable("lon", ("lon",), "f8", data=np.arange(4) * 0.5)
    note_netcdf4("h5netcdf.nc", "wind")


def plain_hdf5():
    rng = np.random.default_rng(3)
    with h5py.File(OUT / "plain.h5", "w") as f:
        f["half"] = np.array([1, 0.1, 65504, 2**-24, np.inf, -0.0], "f2")
        f["u64"] = np.array([0, 2**63 - 1], "u8")
        f["too_big"] = np.array([0, 2**63], "u8")
        f["group/inner"] = rng.integers(-100, 100, (2, 3)).astype("i1")
        f["flags"] = np.array([True, False])
        f["text"] = "hello"
        f["table"] = np.zeros(2, dtype=[("a", "f4"), ("b", "i4")])
        f["empty"] = np.zeros((0, 3), "f4")
        f["scalar"] = np.float64(2.5)
        f["null"] = h5py.Empty("f4")
        f.attrs["variable"] = "grüße"
        f.attrs["fixed"] = np.bytes_("fixed   ")
        f.attrs["list"] = np.array(["a", "", "ccc"], dtype=h5py.string_dtype())
        f.attrs["one"] = np.array([7], "i2")
        f.attrs["numbers"] = np.array([1.5, 2.5], "f4")
        f.attrs["half_number"] = 1.5
        note("plain.h5", "half", ["-"], f["half"][...])
        note("plain.h5", "group/inner", ["-", "-"], f["group/inner"][...])


def classic():
    for kind, fmt in [("classic1", "NETCDF3_CLASSIC"), ("classic2", "NETCDF3_64BIT_OFFSET"), ("classic5", "NETCDF3_64BIT_DATA")]:
        with netCDF4.Dataset(OUT / (kind + ".nc"), "w", format=fmt) as d:
            d.createDimension("x", 2)
            d.createVariable("v", "f4", ("x",))[:] = [1, 2]


def wind_statistics():
    """Open cells of some shipped cases in f64 by numpy: whole grid, the lowest 8 levels, and the centred
    window 40 x 21 x 8; the last line is pooled over the cases (lowest 8 levels)."""
    root = REPO / "samples/urban-wind"
    out = ["case,n,mean,sigma,n8,mean8,sigma8,window_open,window_sum"]
    pool = []
    for case in ["0VF20", "105VF5", "120VF10", "285VF2", "90VF90"]:
        with netCDF4.Dataset(root / f"wind_speed_filled/{case}_ws_filled.nc") as d:
            wind = d["wind_speed"][...].filled(np.nan).astype(np.float64)
        with netCDF4.Dataset(root / f"mask_buildings/{case}_ws_building_mask.nc") as d:
            is_open = d["building_mask"][...].filled(0) == 1
        a, b = wind[is_open], wind[..., :8][is_open[..., :8]]
        w, m = wind[12:52, 21:42, :8], is_open[12:52, 21:42, :8]
        pool.append(b)
        out.append(",".join([case, str(a.size), "%.17g" % a.mean(), "%.17g" % a.std(), str(b.size), "%.17g" % b.mean(),
                             "%.17g" % b.std(), str(int(m.sum())), "%.17g" % w[m].sum()]))
    p = np.concatenate(pool)
    out.append(",".join(["pooled", "0", "0", "0", str(p.size), "%.17g" % p.mean(), "%.17g" % p.std(), "0", "0"]))
    (OUT / "wind_statistics.csv").write_text("\n".join(out) + "\n")


packed()
unlimited()
no_cells()
other_writer()
plain_hdf5()
classic()
wind_statistics()
(OUT / "values.txt").write_text("\n".join(lines) + "\n")
