# SPDX-License-Identifier: Apache-2.0
"""Makes tests/reference/data/volumes: small NIfTI and NumPy files of every kind, and what nibabel and numpy
make of them. Some headers are patched by hand where nibabel would not write them.

    python3 -m venv /tmp/venv && /tmp/venv/bin/pip install numpy nibabel
    /tmp/venv/bin/python tests/reference/nifti_cases.py <repository>

volumes.txt: a line for each fact, "file key numbers...": shape (X Y Z C), values ((X, Y, Z, C), C order), affine
(12 numbers, rows), zooms (voxel sizes), axes (RAS or such), canonical_shape, canonical_affine, canonical_values.
"""
import gzip
import io
import pathlib
import struct
import sys
import warnings

import nibabel as nib
import numpy as np
from nibabel.affines import voxel_sizes

REPO = pathlib.Path(sys.argv[1])
OUT = REPO / "tests/reference/data/volumes"
OUT.mkdir(parents=True, exist_ok=True)
SHAPE = (4, 3, 2)
AFFINE = np.array([[-2, 0, 0, 30], [0, 1.5, 0, -20], [0, 0, 3, -10], [0, 0, 0, 1]], float)
TYPES = ["u1", "i1", "i2", "u2", "i4", "u4", "i8", "u8", "f4", "f8"]
lines = []
nib.imageglobals.logger.setLevel("CRITICAL")


def numbers(values):
    return " ".join("%.17g" % v for v in np.asarray(values, np.float64).ravel())


def note(name, canonical=False):
    """What nibabel says about a file."""
    image = nib.load(OUT / name)
    data = image.get_fdata(dtype=np.float64)
    while data.ndim < 4:
        data = data[..., None]
    data = data.reshape(data.shape[:4])
    lines.append(f"{name} shape {numbers(data.shape)}")
    lines.append(f"{name} values {numbers(data)}")
    lines.append(f"{name} affine {numbers(image.affine[:3])}")
    if canonical:
        lines.append(f"{name} zooms {numbers(voxel_sizes(image.affine))}")
        lines.append(f"{name} axes {''.join(nib.aff2axcodes(image.affine))}")
        ras = nib.as_closest_canonical(image)
        lines.append(f"{name} canonical_shape {numbers(ras.shape)}")
        lines.append(f"{name} canonical_affine {numbers(ras.affine[:3])}")
        lines.append(f"{name} canonical_values {numbers(ras.get_fdata())}")


def full_range(dtype, shape, seed=0):
    """Values with the ends of the type among them."""
    rng = np.random.default_rng(seed)
    dtype = np.dtype(dtype)
    if dtype.kind == "f":
        values = rng.normal(size=shape).astype(dtype) * 1000
        values.flat[0], values.flat[1], values.flat[2] = np.nan, np.inf, -0.0
        return values
    info = np.iinfo(dtype)
    values = rng.integers(info.min, info.max, shape, dtype=dtype, endpoint=True)
    values.flat[0], values.flat[-1] = info.min, info.max
    return values


def image(data, order="<", affine=AFFINE, version=1, pair=False, slope=(1, 0), change=None):
    """An image whose stored numbers are `data`, in a byte order."""
    kinds = {(1, False): nib.Nifti1Image, (1, True): nib.Nifti1Pair, (2, False): nib.Nifti2Image, (2, True): nib.Nifti2Pair}
    kind = kinds[version, pair]
    header = kind.header_class(endianness=order)
    header.set_data_dtype(data.dtype)
    out = kind(data, affine, header)
    out.header.set_xyzt_units("mm", "sec")
    if change:
        change(out)
    out.header.set_slope_inter(*slope)
    return out


def save(name, out):
    out.to_filename(OUT / name)


def patch(name, source, *changes):
    """A copy with bytes changed: (offset, struct format, values...)."""
    data = bytearray((OUT / source).read_bytes())
    for offset, form, *values in changes:
        struct.pack_into(form, data, offset, *values)
    (OUT / name).write_bytes(bytes(data))


def types():
    for dtype in TYPES:
        for order, end in [("<", "le"), (">", "be")]:
            name = f"{np.dtype(dtype).name}_{end}.nii"
            save(name, image(full_range(dtype, SHAPE), order))
            note(name)
    for order, end in [("<", "le"), (">", "be")]:
        save(f"two_{end}.nii", image(full_range("i2", SHAPE, 2), order, version=2))
        note(f"two_{end}.nii")


def packings():
    data = full_range("i2", (5, 4, 3), 3)
    save("packed.nii.gz", image(data))
    for name in ["pair.hdr", "pair_gz.hdr.gz"]:
        save(name, image(data, pair=True))
        note(name)
    save("pair_two.hdr", image(data, ">", version=2, pair=True))
    note("pair_two.hdr")
    plain = image(data).to_bytes()
    (OUT / "packed.nii.gz").write_bytes(gzip.compress(plain, 6, mtime=0))
    note("packed.nii.gz")
    members = gzip.compress(plain[:200], 9, mtime=0) + gzip.compress(plain[200:], 1, mtime=0)
    (OUT / "members.nii.gz").write_bytes(members + bytes(9))
    note("members.nii.gz")
    (OUT / "longer.nii.gz").write_bytes(gzip.compress(plain + b"more than the header says", 6, mtime=0))
    note("longer.nii.gz")

    def extend(out):
        out.header.extensions.append(nib.nifti1.Nifti1Extension("comment", b"a comment that is passed over"))

    save("extension.nii", image(data, change=extend))
    note("extension.nii")


def scales():
    # The kind of number and (scl_slope, scl_inter) as they stand in the file.
    for name, dtype, slope, inter in [
        ("zero", "i2", 0.0, 5.0), ("nan", "i2", np.nan, 3.0), ("inf", "i2", np.inf, 1.0), ("nan_both", "u1", np.nan, np.nan),
        ("ct", "i2", 2.0, -1024.0), ("shift", "u1", 1.0, -0.5), ("small", "u2", 1.2345e-3, 0.1), ("negative", "i1", -0.3, 7.7),
        ("wide", "u8", 1.5, 0.0), ("float", "f4", 3.3, 1e-3), ("double", "f8", 0.1, 0.2),
    ]:
        save("scratch.nii", image(full_range(dtype, SHAPE, 4)))
        patch(f"scale_{name}.nii", "scratch.nii", (112, "<ff", slope, inter))
        note(f"scale_{name}.nii")
    (OUT / "scratch.nii").unlink()


def axes():
    for name, shape in [("one_axis", (6,)), ("two_axes", (4, 3)), ("times", (4, 3, 2, 3)), ("five_axes", (3, 2, 2, 2, 1)),
                        ("seven_axes", (3, 2, 2, 1, 1, 1, 1)), ("one_cell", (1, 1, 1))]:
        save(f"{name}.nii", image(full_range("i2", shape, 5)))
        note(f"{name}.nii")


def turn(angles, sizes, offset):
    """An affine of rotations about x, y, z after each other."""
    m = np.eye(3)
    for axis, angle in enumerate(angles):
        c, s = np.cos(angle), np.sin(angle)
        r = np.eye(3)
        i, j = [(1, 2), (0, 2), (0, 1)][axis]
        r[i, i], r[i, j], r[j, i], r[j, j] = c, -s, s, c
        m = r @ m
    out = np.eye(4)
    out[:3, :3] = m * sizes
    out[:3, 3] = offset
    return out


def forms():
    data = full_range("u1", SHAPE, 6)
    cases = {
        "las": np.diag([-2, 1.5, 3, 1]), "lpi": np.diag([-1, -2, -3, 1.0]), "oblique": turn([0.2, -0.4, 0.3], [1, 2, 3], [5, -6, 7]),
        "asr": np.array([[0, 0, 2, 1], [1, 0, 0, 2], [0, 3, 0, 3], [0, 0, 0, 1.0]]), "ipl": np.array([[0, 0, -2, 1], [0, -1, 0, 2], [-3, 0, 0, 3], [0, 0, 0, 1.0]]),
        "steep": turn([2.5, 0.9, -1.1], [0.5, 0.7, 0.9], [0, 0, 1]),
        "half_turn": np.array([[-1, 0, 0, 0], [0, -1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1.0]]),
        "shear": np.array([[1, 0.4, 0.1, 1], [0.1, -2, 0.3, 2], [0, 0.2, 1.5, 3], [0, 0, 0, 1.0]]),
    }
    for name, affine in cases.items():
        for version in (1, 2):
            def s_only(out):
                out.header.set_qform(None, 0)
                out.header.set_sform(affine, 1)

            def q_only(out):
                out.header.set_sform(None, 0)
                out.header.set_qform(affine, 3)

            for kind, change in [("s", s_only), ("q", q_only)]:
                file = f"form_{name}_{kind}{version}.nii"
                (OUT / file).write_bytes(with_forms(image(data, affine=affine, version=version), change))
                note(file, canonical=True)

    def both(out):
        out.header.set_qform(cases["oblique"], 1)
        out.header.set_sform(cases["las"], 2)

    def none(out):
        out.header.set_qform(None, 0)
        out.header.set_sform(None, 0)

    for name, change in [("both", both), ("none", none)]:
        out = image(data, affine=np.diag([2, 3, 4, 1.0]))
        (OUT / f"form_{name}.nii").write_bytes(with_forms(out, change))
        note(f"form_{name}.nii", canonical=True)
    # Headers that nibabel mends when it loads them.
    q = "form_oblique_q1.nii"
    patch("form_no_qfac.nii", q, (76, "<f", 0.0))
    patch("form_odd_qfac.nii", q, (76, "<f", 3.0))
    patch("form_flip.nii", q, (76, "<f", -1.0))
    patch("form_negative_size.nii", q, (84, "<f", -2.0))
    patch("form_zero_size.nii", q, (84, "<f", 0.0))
    patch("form_odd_codes.nii", "form_both.nii", (252, "<hh", 17, -3))
    patch("form_odd_sform.nii", "form_both.nii", (254, "<h", 9))
    patch("form_long_quaternion.nii", q, (256, "<fff", 0.6, 0.0, 0.8000001))
    patch("form_default_size.nii", "form_none.nii", (80, "<fff", 0.0, -3.0, 2.5))
    for name in ["no_qfac", "odd_qfac", "flip", "negative_size", "zero_size", "odd_codes", "odd_sform", "long_quaternion", "default_size"]:
        note(f"form_{name}.nii")
    (OUT / "form_none_2d.nii").write_bytes(with_forms(image(full_range("u1", (4, 3), 7)), none))
    note("form_none_2d.nii")


def with_forms(out, change):
    """The bytes of a file whose header `change` sets; to_bytes alone would set the forms to the affine again."""
    raw = bytearray(out.to_bytes())
    change(out)
    header = out.header
    header["vox_offset"] = len(raw) - out.dataobj.nbytes
    header["scl_slope"], header["scl_inter"] = 1, 0
    raw[: len(header.binaryblock)] = header.binaryblock
    return bytes(raw)


def likes():
    """What a writer on the grid of another file should make, byte by byte: the header as nibabel sets it."""

    def describe(out):
        out.header["descrip"] = b"a scan"
        out.header["intent_code"], out.header["intent_p1"], out.header["intent_name"] = 3, 12, b"t values"
        out.header["cal_max"], out.header["toffset"] = 100, 5
        out.header.set_qform(turn([0.2, -0.4, 0.3], [1, 2, 3], [5, -6, 7]), 1)

    labels = (np.arange(24) % 5).reshape(SHAPE).astype("u1")
    values = np.linspace(-1, 1, 24).reshape(SHAPE).astype("f4")
    two = np.stack([values, values * 2], -1)
    for version in (1, 2):
        for order, end in [("<", "le"), (">", "be")]:
            source = f"like_{version}{end}.nii"
            save(source, image(full_range("i2", SHAPE + (2,), 8), order, version=version, change=describe, slope=(0.5, 3)))
            note(source)
            for kind, data in [("labels", labels), ("values", values), ("two", two)]:
                header = nib.load(OUT / source).header.copy()
                header["scl_slope"], header["scl_inter"] = 1, 0
                header.set_data_dtype(data.dtype)
                header["dim"] = [data.ndim, *SHAPE, 2 if kind == "two" else 1, 1, 1, 1]
                header["cal_max"] = header["cal_min"] = 0
                header["intent_p1"], header["intent_name"] = 0, b""
                header["intent_code"] = 1002 if kind == "labels" else 0
                header["vox_offset"] = 352 if version == 1 else 544
                stored = data.astype(data.dtype.newbyteorder(order)).tobytes(order="F")
                name = f"like_{version}{end}_{kind}.nii"
                (OUT / name).write_bytes(header.binaryblock + bytes(4) + stored)
                check = nib.load(OUT / name)
                assert np.array_equal(check.get_fdata(), data), name
                assert np.array_equal(check.affine, nib.load(OUT / source).affine), name


def arrays():
    """NumPy's own files: types, byte orders, C and Fortran order, formats."""

    def note_array(name, array, order):
        array = np.asarray(array)
        if array.ndim == 3:
            array, order = array[..., None], order + "c"
        data = np.transpose(array, [order.index(a) for a in "xyzc"])
        lines.append(f"{name} shape {numbers(data.shape)}")
        lines.append(f"{name} values {numbers(data)}")

    def write(name, array, version=(1, 0), order=None):
        with open(OUT / name, "wb") as f:
            np.lib.format.write_array(f, array, version)
        note_array(name, array, order or ("zyx" if array.ndim == 3 else "czyx"))

    for dtype in TYPES + ["f2"]:
        for mark, end in [("<", "le"), (">", "be")]:
            array = full_range(dtype, (2, 3, 4), 9).astype(np.dtype(dtype).newbyteorder(mark))
            if np.dtype(dtype).itemsize > 1 or mark == "<":
                write(f"array_{np.dtype(dtype).name}_{end}.npy", array)
    write("array_bool.npy", full_range("i1", (2, 3, 4), 10) > 0)
    grid = full_range("i2", (2, 3, 4), 11)
    write("array_fortran.npy", np.asfortranarray(grid))
    write("array_v2.npy", grid, (2, 0))
    write("array_v3.npy", grid, (3, 0))
    four = full_range("f4", (2, 3, 4, 5), 12)
    write("array_four.npy", four)
    write("array_four_fortran.npy", np.asfortranarray(four))
    # Named by their order: the first axis first.
    for order in ["xyz", "yxz", "zyxc", "xyzc", "xcyz"]:
        shape = [{"x": 4, "y": 3, "z": 2, "c": 5}[a] for a in order]
        write(f"array_order_{order}.npy", full_range("i4", shape, 13), order=order)
    np.save(OUT / "array_empty.npy", np.zeros((2, 0, 3), "f4"))  # is refused


warnings.simplefilter("ignore")
types(), packings(), scales(), axes(), forms(), likes(), arrays()
(OUT / "volumes.txt").write_text("\n".join(lines) + "\n")
print(len(lines), "lines,", sum(f.stat().st_size for f in OUT.iterdir()), "bytes in", len(list(OUT.iterdir())), "files")
