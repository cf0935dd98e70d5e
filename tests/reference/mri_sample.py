#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes samples/mri out of the "Colin 27" head of Debian's package mricron-data (samples/mri/README.md).

usage: mri_sample.py FOLDER-WITH-ch2.nii.gz-AND-ch2-brain-mask.nii.gz samples/mri
"""
import os
import sys

import nibabel
import numpy as np

source, target = sys.argv[1:]
box = (slice(10, 98), slice(60, 156), slice(96, 160))
os.makedirs(target, exist_ok=True)
for name, out in (("ch2.nii.gz", "head_image.nii.gz"), ("ch2-brain-mask.nii.gz", "head_label.nii.gz")):
    volume = nibabel.load(os.path.join(source, name))
    values = np.asarray(volume.dataobj)[box]
    affine = volume.affine @ nibabel.affines.from_matvec(np.eye(3), [s.start for s in box])
    cut = nibabel.Nifti1Image(values, affine)
    cut.header.set_xyzt_units("mm")
    nibabel.save(cut, os.path.join(target, out))
    print(out, values.shape, values.dtype, os.path.getsize(os.path.join(target, out)), float(values.mean()))
