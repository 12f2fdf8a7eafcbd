"""Estimates how reliable a match is: collects its evidence, and looks up the errors of matches with similar evidence.

If the target does not show a point, the coordinate at the answer differs from the coordinate of the point, or the
answer lies at the edge of the scan. The error of an answer depends on the similarity of the two places, the agreement
of the tissue around them, the distance from the first answer, the sizes of the two bodies, and the place in the body.
"""

import numpy as np
import torch

from ..embedding.calibration import Calibration
from ..embedding.grid_reading import read_linear
from ..embedding.map import EmbeddingMap
from ..scan.geometry import mm_to_sides, transform_points
from .coordinates import CoordinateAnswers
from .query import Query
from .status import decide
from .target_batch import TargetRows

# residual, gap: distance of the answer's coordinate from the point's coordinate, after the first step and at the end.
# moved: mm from the first answer. edge, end: mm to the target's nearest edge, and to its nearest end along S. sizes:
# mm^3 of body frame per mm^3 of scan. r, a, s: body coordinate of the point. similarity, spread: see `evidence_table`.
EVIDENCE = (
    "residual",
    "gap",
    "moved",
    "edge",
    "end",
    "template size",
    "target size",
    "r",
    "a",
    "s",
    "similarity",
    "spread",
)
# highest probability that is stated: a thousand similar matches cannot prove a higher one
_HIGHEST = 0.99
PLACE = [EVIDENCE.index(axis) for axis in "ras"]  # columns of the point's body coordinate (r, a, s)
_FAR_MM = 60.0  # larger distances to an edge are reduced to this distance


def evidence_table(
    cells: torch.Tensor,
    rows: TargetRows,
    first: CoordinateAnswers,
    query: Query,
    similarity: torch.Tensor,
    spread_mm: torch.Tensor,
) -> np.ndarray:
    """Make the table of evidence, (n, len(EVIDENCE)), of n answers: those of one target after the other.

    Args:
        cells: (n, 3) answers, in target cells i, j, k.
        rows: their targets.
        first: first answers, found by body coordinates.
        query: values of the template at the points.
        similarity: (n,) similarity of descriptors at the point and at the answer; 0 if they are not compared.
        spread_mm: (n,) root mean square error of the affine function fitted to the displacements around the point;
            for scans of another kind, the `slack`; 0 for efforts without both.
    """
    coordinates = query.coordinates.repeat(len(rows.maps), 1)
    values = rows.apply(_coordinate_and_edges, cells)
    columns = [  # in the order of EVIDENCE
        first.residual,
        (values[:, :3] - coordinates).norm(dim=1),
        ((cells - first.cells) * rows.cell_mm).norm(dim=1),
        values[:, 3],
        values[:, 4],
        query.sizes.repeat(len(rows.maps)),
        first.size,
        *coordinates.unbind(1),
        similarity,
        spread_mm,
    ]
    return torch.stack([column.double() for column in columns], dim=1).float().numpy()


def _coordinate_and_edges(target: EmbeddingMap, cells: torch.Tensor) -> torch.Tensor:
    """Return (n, 5) for n cells i, j, k of the target: the body coordinate (3 numbers), the distance, mm, from the
    nearest side of the scan, and the distance, mm, from the top or the bottom of the scan, whichever is nearer."""
    mixed = read_linear(target.coordinate_and_body, cells[None].float())[0]
    coordinate = mixed[:, :3] / mixed[:, 3:].clamp_min(1e-6)
    voxel = transform_points(target.cell_to_scan, cells.numpy())
    sides_mm = mm_to_sides(voxel, target.scan_to_ras, target.scan_shape)
    distance_mm = np.minimum(sides_mm, _FAR_MM * target.unit_mm)
    upward = np.abs(target.scan_to_ras[2, :3]).argmax()  # the axis i, j or k that changes S most
    ends = np.stack([distance_mm.min(axis=1), distance_mm[:, upward]], axis=1)
    return torch.cat([coordinate.double(), torch.from_numpy(ends)], dim=1)


def judge(
    evidence: np.ndarray, calibration: Calibration | None, effort: str, unit_mm: float = 1.0
) -> dict[str, np.ndarray]:
    """Estimate the reliability of n matches from their evidence.

    Returns a dict of arrays (n,), named as in `matching.match.Matches`: status, present, expected_error_mm, probability
    and probability_20. The dict is empty if there is no calibration for this effort.

    Args:
        evidence: (n, len(EVIDENCE)).
        calibration: of the weights, or None.
        effort: effort of the matches.
        unit_mm: unit of the maps; the limits of the status and the errors of the calibration are in this unit.
    """
    if calibration is None or calibration.evidence != EVIDENCE or effort not in calibration.forests:
        return {}
    present, within, within_20, error = calibration.forests[effort].predict(evidence).T
    # the forest counts the error of an absent point as 0: this is the error if the scan shows the point
    expected = error / np.maximum(present, 1e-3)
    stated, within, within_20 = (
        np.clip(share, 1 - _HIGHEST, _HIGHEST) for share in (present, within, within_20)
    )
    return {
        "status": decide(present, expected),
        "present": stated,
        "expected_error_mm": expected * unit_mm,
        "probability": within,
        "probability_20": within_20,
    }
