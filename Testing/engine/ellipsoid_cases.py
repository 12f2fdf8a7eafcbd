"""Labelled scans whose truth is known: the body and the organs are ellipsoids at chosen places."""

import json

import numpy as np
from scan_files import voxel_positions

from AnatomicalEmbedding.scan.volume import Volume

SPACING = np.array((4.0, 3.0, 5.0))
SIZE = np.array((64, 60, 40))  # i, j, k
ORIGIN = np.array((-120.0, -80.0, 300.0))
PLAIN = np.eye(3)
# i to the left, j to inferior, k to anterior
FLIPPED = np.array([(-1.0, 0, 0), (0, 0, 1.0), (0, -1.0, 0)])
OBLIQUE = np.array([(np.cos(0.2), -np.sin(0.2), 0), (np.sin(0.2), np.cos(0.2), 0), (0, 0, 1.0)])
ORGANS = {  # name: (centre, semi-axes) in mm; asymmetric in every direction
    "liver": ((-20.0, 20.0, 420.0), (37.0, 26.0, 31.0)),
    "left_kidney": ((45.0, -20.0, 380.0), (18.0, 14.0, 24.0)),
    "Kidney Right": ((-55.0, -25.0, 375.0), (17.0, 15.0, 23.0)),
}


def grid(directions=PLAIN, about=None):
    """ijk_to_ras and (k,j,i,3) voxel centres of a grid; centred on `about`, or at ORIGIN."""
    affine = np.eye(4)
    affine[:3, :3] = directions * SPACING
    affine[:3, 3] = ORIGIN if about is None else about - affine[:3, :3] @ ((SIZE - 1) / 2)
    return affine, voxel_positions(SIZE[::-1], affine)


MIDDLE = ORIGIN + SPACING * (SIZE - 1) / 2


def inside(ras, centre, axes):
    return (((ras - centre) / axes) ** 2).sum(axis=-1) <= 1


def write_case(folder, case_id, shift=(0, 0, 0), organs=ORGANS, landmarks=None, directions=PLAIN):
    """A body of fat and organs, all moved by `shift`; the grid stays."""
    affine, ras = grid(directions, MIDDLE)
    moved = ras - np.asarray(shift, dtype=float)
    hu = np.where(inside(moved, (-5.0, 5.0, 395.0), (95.0, 70.0, 90.0)), -90, -1000).astype(
        np.int16
    )
    labels = np.zeros(hu.shape, dtype=np.uint8)
    for value, (centre, axes) in enumerate(organs.values(), start=1):
        labels[inside(moved, centre, axes)] = value
    hu[labels > 0] = 60 + 40 * labels[labels > 0]
    Volume(hu, affine).write(folder / f"{case_id}.nii.gz")
    if organs:
        Volume(labels.astype(np.int16), affine).write(folder / f"{case_id}.seg.nii.gz")
        names = {str(value): name for value, name in enumerate(organs, start=1)}
        (folder / f"{case_id}.labels.json").write_text(json.dumps(names))
    if landmarks is not None:
        content = {
            "frame": "RAS",
            "unit": "mm",
            "points": {name: list(p) for name, p in landmarks.items()},
        }
        (folder / f"{case_id}.landmarks.json").write_text(json.dumps(content))
