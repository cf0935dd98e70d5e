# SPDX-License-Identifier: Apache-2.0
"""onnx_values.py MODEL.onnx VALUES.safetensors output|physical ...: for each three, onnxruntime's results for the inputs in
VALUES (of network_output) against those that are there.  Ends with an error beyond 1e-5 of the largest value.
Without onnxruntime and numpy it ends with 77, and --probe stops behind that question."""
import json
import struct
import sys

try:
    import numpy as np
    import onnxruntime
except ImportError as e:
    print(f"{e} (python3 is {sys.executable})")
    sys.exit(77)
try:
    import onnx
except ImportError:
    onnx = None


def read(path):
    with open(path, "rb") as f:
        header = json.loads(f.read(struct.unpack("<Q", f.read(8))[0]))
        data = f.read()
    return {name: np.frombuffer(data[slice(*t["data_offsets"])], "<f4").reshape(t["shape"]) for name, t in header.items()}


def main(args):
    print(f"onnxruntime {onnxruntime.__version__}, onnx {onnx.__version__ if onnx else 'not there: no onnx.checker'}")
    worst = 0.0
    for path, values_path, kind in zip(args[::3], args[1::3], args[2::3]):
        if onnx:
            onnx.checker.check_model(path, full_check=True)
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        values = read(values_path)
        n = sum(name.startswith("input") for name in values)
        for i in range(n):
            y, = session.run(None, {"input": values[f"input{i}"]})
            wanted = values[f"{kind}{i}"]
            if y.shape != wanted.shape or y.dtype != wanted.dtype:
                sys.exit(f"{path}: {y.dtype} {y.shape}, wanted {wanted.dtype} {wanted.shape}")
            error = np.abs(y - wanted).max() / np.abs(wanted).max()
            worst = max(worst, error)
            print(f"{path.rsplit('/', 1)[-1]} {kind} {wanted.shape}: {error:.1e} of the largest value")
            if not error <= 1e-5:
                sys.exit(f"{path}: differs by {error:.1e} of the largest value, wanted at most 1e-5")
    print(f"largest difference {worst:.1e}")


if sys.argv[1:] != ["--probe"]:
    main(sys.argv[1:])
