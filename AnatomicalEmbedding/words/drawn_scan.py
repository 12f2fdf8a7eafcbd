"""A CT-like volume drawn from a label map, so that the network can say where in the body its voxels lie.

Label maps of real patients are often published without the scans. Tissue is drawn from the names of the labels, the
body wall from the convex outline of all labels in a slice. On a scan with image and labels, coordinates by the drawing
differ from those by the image by about 5 mm (Testing/benchmarks/RESULTS.md).
"""

from __future__ import annotations

import re

import numpy as np
import SimpleITK as sitk

from ..scan.volume import Volume

_FAT, _WALL, _SKIN, _AIR, _INSIDE = -100, 30, 0, -1000, -60
_BONE_CORE, _BONE_SHELL = 180, 450
_SUBCUTANEOUS_MM, _SKIN_MM, _WALL_MM = 14.0, 2.0, 18.0
_SMOOTH_MM = 12.0  # along the body, of the outline
_DIRECTIONS = 32
_BONE = (
    r"vertebra|rib_|^ribs|sacrum|^hip|femur|femora|humer|scapula|clav|skull|sternum|spine|cranium|pelvis|mandible|"
    r"spongiosa|tibiae|ulnae"
)
# Pattern of a name -> HU; the first that fits.
_HU = (
    (r"teeth", 1500),
    (r"marrow|medullary|adipose|residual", -95),
    (r"cortical", 700),
    (r"lung", -850),
    (r"trachea|bronchi|nasal|air_inside", -900),
    (r"aorta|arter|trunk|vena|vein|heart|atri|portal|blood_vess", 140),
    (r"skin", 10),
    (r"liver|spleen|kidney", 110),
    (r"bladder|contents", 10),
    (r"cord|cartilage|brain", 40),
)
_OTHER_HU = 50


def draw_pseudo_scan(labels: np.ndarray, ijk_to_ras: np.ndarray, names: dict[int, str], name: str = "") -> Volume:
    """A CT-like volume, int16 HU, on the grid of a label map.

    labels: (k, j, i), 0 background. ijk_to_ras: (4, 4). names: of the labels, in any spelling.
    """
    spacing = np.linalg.norm(ijk_to_ras[:3, :3], axis=0)
    within = _outline(labels > 0, spacing)
    depth = _signed_distance(within, spacing)  # mm, positive outside
    hu = np.full(labels.shape, _AIR, dtype=np.float32)
    hu[depth < _SUBCUTANEOUS_MM] = _FAT
    hu[(depth < _SUBCUTANEOUS_MM) & (depth >= _SUBCUTANEOUS_MM - _SKIN_MM)] = _SKIN
    hu[within] = _INSIDE
    hu[within & (depth > -_WALL_MM)] = _WALL
    values = np.full(int(labels.max()) + 1, np.nan, dtype=np.float32)
    bones = np.zeros(len(values), dtype=bool)
    for value, label in names.items():
        if 0 < value < len(values):
            values[value], bones[value] = _hu_of(label)
    shown = values[labels]
    hu = np.where(np.isnan(shown), hu, shown)
    bone = bones[labels]
    core = sitk.GetArrayFromImage(sitk.BinaryErode(sitk.GetImageFromArray(bone.astype(np.uint8)), [1, 1, 1])) > 0
    hu[bone & core] = _BONE_CORE
    noise = np.random.default_rng(0).normal(0, 10, labels.shape)
    image = sitk.SmoothingRecursiveGaussian(sitk.GetImageFromArray(hu), 0.7)
    return Volume((sitk.GetArrayFromImage(image) + noise).astype(np.int16), ijk_to_ras, name=name)


def _hu_of(label: str) -> tuple[float, bool]:
    """HU of a label's tissue, and whether it is bone with a shell and a core."""
    plain = re.sub(r"[^a-z0-9]+", "_", label.lower())
    for pattern, value in _HU:
        if re.search(pattern, plain):
            return value, False
    return (_BONE_SHELL, True) if re.search(_BONE, plain) else (_OTHER_HU, False)


def _outline(known: np.ndarray, spacing: np.ndarray) -> np.ndarray:
    """(k, j, i) bool: the convex outline of what is known in each slice, smoothed along the body."""
    angles = np.linspace(0, 2 * np.pi, _DIRECTIONS, endpoint=False)
    directions = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    j, i = np.indices(known.shape[1:])
    along = np.stack([i, j], axis=-1).reshape(-1, 2) @ directions.T
    result = np.zeros(known.shape, dtype=np.float32)
    for slice_known, into in zip(known, result, strict=True):
        held = slice_known.ravel()
        if held.sum() > 30:
            into[...] = (along <= along[held].max(axis=0) + 0.5).all(axis=1).reshape(into.shape)
    image = sitk.GetImageFromArray(result)
    sigma = _SMOOTH_MM / float(spacing[2])
    return (
        sitk.GetArrayFromImage(
            sitk.RecursiveGaussian(image, sigma, False, sitk.RecursiveGaussianImageFilter.ZeroOrder, 2)
        )
        > 0.5
    )


def _signed_distance(mask: np.ndarray, spacing: np.ndarray) -> np.ndarray:
    image = sitk.GetImageFromArray(mask.astype(np.uint8))
    image.SetSpacing([float(s) for s in spacing])
    return sitk.GetArrayFromImage(
        sitk.SignedMaurerDistanceMap(image, insideIsPositive=False, squaredDistance=False, useImageSpacing=True)
    )
