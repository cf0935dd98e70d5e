#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The peer of bench_data: reads patches with h5py in processes of its own.

  data_h5py.py PROCESSES        (started by bench_data; needs h5py and numpy)

Commands on stdin, one a line; each is answered by one line:
  files PATH PATH ...     open these (data set "raw"), and keep them open in every process
  read TABLE              read the patches of a table: lines of "file z y x dz dy dx" with 0-based file
                          numbers; a process that is free takes the next one
                          answer: seconds from the start of all to the end of the last, sum of all values
Files are opened once, as a careful user does; the chunk cache is h5py's default.
"""
import multiprocessing
import sys
import time

import h5py
import numpy as np


def work(pipe, taken):
    files = []
    while True:
        command = pipe.recv()
        if command[0] == "files":
            for f in files:
                f.close()
            files = [h5py.File(path, "r") for path in command[1]]
            pipe.send(None)
        elif command[0] == "read":
            sets = [f["raw"] for f in files]
            total = 0.0
            while True:
                with taken.get_lock():
                    at = taken.value
                    taken.value += 1
                if at >= len(command[1]):
                    break
                i, z, y, x, dz, dy, dx = command[1][at]
                patch = sets[i][z:z + dz, y:y + dy, x:x + dx]
                total += float(patch.ravel()[::4096].astype(np.float64).sum())
            pipe.send(total)
        else:
            return


def main():
    of = int(sys.argv[1])
    pipes = []
    taken = multiprocessing.Value("q", 0)
    for _ in range(of):
        here, there = multiprocessing.Pipe()
        process = multiprocessing.Process(target=work, args=(there, taken), daemon=True)
        process.start()
        pipes.append(here)
    print("ready h5py", h5py.version.version, "HDF5", h5py.version.hdf5_version, flush=True)
    for line in sys.stdin:
        words = line.split()
        if words[0] == "files":
            command = ("files", words[1:])
        elif words[0] == "read":
            with open(words[1]) as table:
                command = ("read", [tuple(map(int, row.split())) for row in table])
        else:
            break
        taken.value = 0
        begin = time.perf_counter()
        for pipe in pipes:
            pipe.send(command)
        answers = [pipe.recv() for pipe in pipes]
        seconds = time.perf_counter() - begin
        print(f"{seconds:.9f} {sum(a for a in answers if a is not None):.17g}", flush=True)
    for pipe in pipes:
        pipe.send(("end",))


if __name__ == "__main__":
    main()
