# SPDX-License-Identifier: Apache-2.0
"""Makes tests/reference/data/netcdf_cases.nc: a variable for each rule of types, packing and missing
values, and netcdf_cases.txt: what netCDF4 for Python reads (missing: nan), compared with xarray.

    python3 -m venv /tmp/venv && /tmp/venv/bin/pip install numpy netCDF4 xarray h5py
    /tmp/venv/bin/python tests/reference/netcdf_cases.py <repository>

Where the two readers differ, or both do what helps nobody, RULES says what Bora does and why; the
values then come from the plain numpy expression given there.
"""
import pathlib
import sys
import warnings

import netCDF4
import numpy as np
import xarray

OUT = pathlib.Path(sys.argv[1]) / "tests/reference/data"
PATH = OUT / "netcdf_cases.nc"
warnings.simplefilter("ignore")
rng = np.random.default_rng(7)
expected = {}

# variable: (who differs, what Bora does).  Every other variable is the same in all three.
RULES = {
    "default_i16": "xarray knows no default fill; netCDF4 and Bora do",
    "default_u16": "as default_i16",
    "default_i32": "as default_i16",
    "default_u32": "as default_i16",
    "default_i64": "as default_i16",
    "default_u64": "as default_i16",
    "default_f32": "as default_i16",
    "default_f64": "as default_i16",
    "default_i8": "netCDF4 takes -127 as missing; the User's Guide gives bytes no default fill, nor do xarray and Bora",
    "default_u8": "as default_i8, with 255",
    "missing_in_f64": "netCDF4 and xarray leave -9999.9 in f32 alone since the attribute is f64; Bora rounds it to f32",
    "range_in_f64": "netCDF4 ignores f64 bounds that f32 does not hold; Bora rounds them; xarray knows no valid range",
    "ranged_i16": "xarray knows no valid range",
    "min_only": "xarray knows no valid range",
    "max_only": "xarray knows no valid range",
    "range_u8": "xarray knows no valid range",
    "range_unsigned": "xarray knows no valid range",
    "range_beyond": "netCDF4 ignores bounds that the type does not hold; Bora compares them as numbers",
    "fill_i64": "xarray compares 64-bit integers as f64, so neighbours of the fill are missing, too; Bora as netCDF4",
    "fill_u64": "as fill_i64",
    "signed_u8": "netCDF4 does not know _Unsigned = false; xarray and Bora do",
    "scaled_f32": "xarray and netCDF4 compute in f32 where the factor is f32; Bora always in f64",
}


def add(d, name, kind, values, attributes=None, dims=("x",), expect=None, write=True, **options):
    v = d.createVariable(name, kind, dims, **options)
    v.set_auto_maskandscale(False)
    for key, value in (attributes or {}).items():
        v.setncattr(key, value)
    if write:
        v[...] = np.asarray(values)
    if expect is not None:
        expected[name] = np.asarray(expect, "f8")


with netCDF4.Dataset(PATH, "w") as d:
    for name, n in [("z", 2), ("y", 3), ("x", 4), ("t", None)]:
        d.createDimension(name, n)
    nan = np.nan
    # Every type, with both ends of its range.
    for kind, name in [("i1", "i8"), ("u1", "u8"), ("i2", "i16"), ("u2", "u16"), ("i4", "i32"), ("u4", "u32"),
                       ("i8", "i64"), ("u8", "u64")]:
        info = np.iinfo(kind)
        values = np.array([info.min, 0, 100, info.max], kind)
        # No fill attribute would make the default fill missing; one that is not among the values.
        add(d, "type_" + name, kind, values, fill_value=np.array(7, kind)[()])
        fill = netCDF4.default_fillvals[kind]
        add(d, "default_" + name, kind, np.array([1, int(fill), 3, 4], kind),
            expect=None if len(name) > 2 else [1, fill, 3, 4])
    for kind, name in [("f4", "f32"), ("f8", "f64")]:
        add(d, "type_" + name, kind, [0.1, -0.0, np.inf, np.finfo(kind).max])
        add(d, "default_" + name, kind, np.array([1, netCDF4.default_fillvals[kind], 3, nan], kind))
    # Bytes in both orders, layouts and filters.
    cube = rng.integers(-30000, 30000, (2, 3, 4))
    for kind in ["i2", "i4", "i8", "f4", "f8"]:
        add(d, "big_" + kind, kind, cube, dims=("z", "y", "x"), endian="big")
        add(d, "filtered_" + kind, kind, cube, dims=("z", "y", "x"), zlib=True, shuffle=True, fletcher32=True,
            chunksizes=(1, 3, 3))
    add(d, "unlimited", "f4", cube.astype("f4"), dims=("t", "y", "x"))
    # Missing values.
    add(d, "fill_i64", "i8", np.array([-2**63 + 5, -2**63 + 4, 2**62 + 1, 2**62], "i8"), fill_value=-2**63 + 5)
    add(d, "fill_u64", "u8", np.array([2**64 - 2, 2**64 - 1, 2**64 - 3, 5], "u8"), fill_value=np.uint64(2**64 - 2))
    add(d, "fill_nan", "f4", [1, nan, 3, 4], fill_value=np.float32(nan))
    add(d, "fill_packed", "i2", [1, -5, 3, 4], {"scale_factor": 0.5, "add_offset": 10.0}, fill_value=-5)
    add(d, "missing_one", "i4", [1, -9, 3, 4], {"missing_value": np.int32(-9)})
    add(d, "missing_many", "i2", [1, -9, -8, 4], {"missing_value": np.array([-9, -8], "i2")})
    add(d, "missing_both", "i2", [1, -9, -8, 4], {"missing_value": np.int16(-9)}, fill_value=-8)
    add(d, "missing_in_f64", "f4", np.array([1, -9999.9, 3, 4], "f4"), {"missing_value": np.float64(-9999.9)},
        expect=[1, nan, 3, 4])
    # Valid ranges, in the stored type.
    add(d, "ranged_i16", "i2", [-1, 0, 10, 11], {"valid_range": np.array([0, 10], "i2"), "scale_factor": 2.0})
    add(d, "min_only", "f8", [-1, 0, 10, 11], {"valid_min": 0.0})
    add(d, "max_only", "i4", [-1, 0, 10, 11], {"valid_max": np.int32(10)})
    add(d, "range_u8", "u1", [0, 100, 200, 201], {"valid_range": np.array([1, 200], "u1")})
    add(d, "range_in_f64", "f4", np.array([0.05, 0.1, 0.7, 0.8], "f4"), {"valid_range": np.array([0.1, 0.7])},
        expect=[nan, np.float32(0.1), np.float32(0.7), nan])
    add(d, "range_beyond", "i1", [-5, 0, 100, 127], {"valid_range": np.array([-0.5, 1e6])}, expect=[nan, 0, 100, 127])
    # Signedness.
    add(d, "unsigned_i8", "i1", np.array([0, 127, -128, -1], "i1"), {"_Unsigned": "true"}, fill_value=np.int8(5))
    add(d, "unsigned_i16", "i2", np.array([0, 127, -128, -1], "i2"), {"_Unsigned": "true", "scale_factor": 0.5},
        fill_value=np.int16(-1))
    add(d, "unsigned_i32", "i4", np.array([0, 127, -128, -1], "i4"), {"_Unsigned": "true"}, fill_value=np.int32(5))
    add(d, "unsigned_i64", "i8", np.array([0, 127, -128, -1], "i8"), {"_Unsigned": "true"}, fill_value=np.int64(5))
    add(d, "range_unsigned", "i1", np.array([0, 127, -56, -55], "i1"),
        {"_Unsigned": "true", "valid_range": np.array([1, -56], "i1")}, fill_value=np.int8(5))
    add(d, "signed_u8", "u1", np.array([0, 127, 128, 255], "u1"), {"_Unsigned": "false"}, fill_value=np.uint8(5),
        expect=[0, 127, -128, -1])
    # Packing.
    add(d, "scale_only", "i2", [1, 2, 3, -4], {"scale_factor": 0.1})
    add(d, "offset_only", "u1", [1, 2, 3, 4], {"add_offset": -100.0})
    add(d, "scaled_f32", "i2", [1, 2, 3, -4], {"scale_factor": np.float32(0.1), "add_offset": np.float32(1.5)},
        expect=np.array([1, 2, 3, -4]) * np.float64(np.float32(0.1)) + 1.5)
    add(d, "scaled_float", "f4", [1, 2, nan, -4], {"scale_factor": 3.0})
    # What is refused.
    add(d, "square", "f4", np.zeros((3, 3)), dims=("y", "y"))
    d.createVariable("text", str, ())[0] = "a"
    d.createVariable("letters", "S1", ("x",))[:] = np.array(list("abcd"), "S1")
    pair = d.createCompoundType(np.dtype([("a", "f4"), ("b", "i4")]), "pair")
    d.createVariable("table", pair, ("x",))
    colour = d.createEnumType(np.uint8, "colour", {"red": 0, "blue": 1})
    d.createVariable("colours", colour, ("x",), fill_value=0)[:] = [0, 1, 0, 1]
    lists = d.createVLType(np.int32, "lists")
    d.createVariable("ragged", lists, ("x",))
    add(d, "bad_range", "i2", [1, 2, 3, 4], {"valid_range": np.array([1, 2, 3], "i2")})
    add(d, "bad_scale", "i2", [1, 2, 3, 4], {"scale_factor": nan})
    add(d, "bad_fill", "i2", [1, 2, 3, 4], {"missing_value": "none"})

REFUSED = ["square", "text", "letters", "table", "colours", "ragged", "bad_range", "bad_scale", "bad_fill"]
lines, differs = [], set()
with netCDF4.Dataset(PATH) as d:
    for name, v in d.variables.items():
        if name in REFUSED:
            continue
        values = np.ma.filled(np.ma.asarray(v[...]).astype("f8"), np.nan)
        try:
            with xarray.open_dataset(PATH, decode_times=False, drop_variables=[n for n in d.variables if n != name]) as x:
                second = x[name].values.astype("f8")
        except Exception as error:  # noqa: BLE001  a reader that fails differs
            second = np.full(values.shape, 12345.0)
        ours = expected.get(name, values)
        if not (np.array_equal(ours, values, equal_nan=True) and np.array_equal(ours, second, equal_nan=True)):
            differs.add(name)
        lines.append(" ".join([name, ",".join(v.dimensions), ",".join(map(str, ours.shape)),
                               *("%.17g" % n for n in ours.ravel())]))
print("in RULES without a difference:", sorted(set(RULES) - differs))
print("differ without a rule:", sorted(differs - set(RULES)))
assert differs <= set(RULES), differs - set(RULES)
(OUT / "netcdf_cases.txt").write_text("\n".join(lines) + "\n")
