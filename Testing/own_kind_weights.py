"""Weights of the kind "any" made from one synthetic shape, for tests of what takes such weights."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from specimens import make_specimen

from AnatomicalEmbedding.embedding.calibration import Calibration, Forest, calibration_file
from AnatomicalEmbedding.embedding.frames.frame import SPACING, Frame, FrameSpec
from AnatomicalEmbedding.embedding.frames.grey_image import ANY, GreyImage
from AnatomicalEmbedding.embedding.models.registry import write_weights
from AnatomicalEmbedding.matching import EFFORTS
from AnatomicalEmbedding.matching.confidence import EVIDENCE

_UNITS = 200.0  # of the radius of an object


def write_shape_weights(path: Path) -> None:
    """Write weights whose frame is a single shape, with a calibration that expects an error of 5 units everywhere."""
    image = GreyImage(make_specimen(0).volume)
    spacing_mm = max(SPACING * image.radius_mm / _UNITS, image.voxel_mm)
    grid = image.on_grid(spacing_mm)
    lattice = grid.lattice
    spec = FrameSpec(ANY, lattice.origin_ras, spacing_mm, lattice.size, image.radius_mm, 0.7)
    occupancy = (grid.hu > image.threshold / 2).float()
    sha256 = write_weights(Frame(spec, grid.hu, occupancy), path, "shape", {"kind": "any"})
    leaf = (np.zeros(1, np.int32), np.full(1, -1, np.int8), np.zeros(1, np.float32))
    outcomes = np.array([(1.0, 1.0, 1.0, 5.0)], np.float16)  # see `OUTCOMES`
    forest = Forest(*leaf, np.zeros(1, np.int32), outcomes)
    calibration = Calibration(sha256, EVIDENCE, {EFFORTS[0]: forest}, {})
    calibration.save(calibration_file(path))
