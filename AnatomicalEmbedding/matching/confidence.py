"""The reliability of a match: its evidence, and the outcomes of matches with similar evidence.

A point that is absent from the target is recognised by the coordinate at the answer, which differs from the point's,
and by the answer's place at the scan's edge. The error of an answer depends on the similarity of the two places, the
agreement of the tissue around them, the distance from the first answer, the sizes of the two bodies, and the place in
the body.
"""

import numpy as np
import torch

from ..embedding.calibration import Calibration
from ..embedding.grid_reading import read_linear
from ..embedding.map import EmbeddingMap
from ..scan.geometry import transform_points
from .coordinates import CoordinateAnswers
from .status import decide
from .target_batch import TargetRows

EVIDENCE = (
    "residual", "gap", "moved", "edge", "end", "template size", "target size", "r", "a", "s", "similarity", "spread",
    "cycle",
)  # fmt: skip
_HIGHEST = 0.99  # probability that about a thousand similar matches can support
PLACE = [EVIDENCE.index(axis) for axis in "ras"]  # of the point in the body frame
_FAR_MM = 60.0  # from the edge; beyond it an edge has no influence


class Evidence:
    """Evidence of n matches, completed while they are made; columns that an effort does not compute stay 0.

    Attributes:
        first, query, template_size: first answers, and (n, 3) coordinates and (n,) sizes of the template's points.
        similarity: (n,) of the places.
        spread_mm: (n,) of the tissue around them.
        cycle_mm: (n,) distance of each point from its answer matched back to the template.
    """

    def __init__(self, first: CoordinateAnswers, query: torch.Tensor, template_size: torch.Tensor) -> None:
        self.first, self.query, self.template_size = first, query, template_size
        self.similarity = self.spread_mm = self.cycle_mm = torch.zeros(len(query))

    def table(self, cells: torch.Tensor, rows: TargetRows) -> np.ndarray:
        """Evidence (n, len(EVIDENCE)), float32, of answers in target cells (n, 3), in the maps' unit or mm."""
        found = rows.read(_coordinate_and_edges, cells)
        cell_mm = torch.from_numpy(rows.maps[0].cell_mm.copy())
        moved = ((cells - self.first.cells) * cell_mm).norm(dim=1)
        gap = (found[:, :3] - self.query).norm(dim=1)
        first = (self.first.residual, gap, moved, found[:, 3], found[:, 4], self.template_size, self.first.size)
        last = (self.similarity, self.spread_mm, self.cycle_mm)
        columns = [*first, *self.query.unbind(1), *last]
        return torch.stack([column.double() for column in columns], dim=1).float().numpy()


def _coordinate_and_edges(target: EmbeddingMap, cells: torch.Tensor) -> torch.Tensor:
    """(n, 5) of places in cells (n, 3): coordinate, mm to the scan's nearest edge, mm to its nearest end along S."""
    mixed = read_linear(target.coordinate_and_body, cells[None].float())[0]
    coordinate = mixed[:, :3] / mixed[:, 3:].clamp_min(1e-6)
    voxel = transform_points(target.cell_to_scan, cells.numpy())
    axes = target.scan_to_ras[:3, :3]
    left = np.minimum(voxel + 0.5, np.array(target.scan_shape[::-1]) - 0.5 - voxel)
    left = np.minimum(left * np.linalg.norm(axes, axis=0), _FAR_MM)
    ends = np.stack([left.min(axis=1), left[:, np.abs(axes[2]).argmax()]], axis=1)
    return torch.cat([coordinate.double(), torch.from_numpy(ends)], dim=1)


def judge(evidence: np.ndarray, calibration: Calibration | None, effort: str) -> dict[str, np.ndarray]:
    """Judge rows of evidence (n, len(EVIDENCE)).

    Returns status, present, expected_error_mm, probability and probability_20, (n,) each, see `matching.match.Matches`;
    nothing without a calibration for this effort.
    """
    if calibration is None or calibration.evidence != EVIDENCE or effort not in calibration.forests:
        return {}
    present, within, near, error = calibration.forests[effort].predict(evidence).T
    within, near = (np.clip(share, 1 - _HIGHEST, _HIGHEST) for share in (within, near))
    expected = error / np.maximum(present, 1e-3)
    return {
        "status": decide(present, expected),
        "present": present,
        "expected_error_mm": expected,
        "probability": within,
        "probability_20": near,
    }
