"""What a match is worth: evidence from the match itself, and what became of matches with like evidence.

A point that a target does not hold gives itself away: the target's coordinate at the answer is not the point's, and the
answer lies at the scan's edge. How exact an answer is shows less clearly: in how alike the places look, how well the
tissue around them agrees, how far the fine step moved the first answer, how the two bodies differ in size, and where in
the body the point lies, for some places are harder than others.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from ..embedding.calibration import ABSENT, MATCHED, UNCERTAIN, Calibration
from ..embedding.grid_reading import read_linear
from ..embedding.map import EmbeddingMap
from ..scan.geometry import transform_points
from .coordinates import CoordinateAnswers
from .target_rows import TargetRows

EVIDENCE = (
    "residual", "gap", "moved", "edge", "end", "template size", "target size", "r", "a", "s", "similarity", "spread",
    "cycle",
)  # fmt: skip
_PRESENT = 0.85  # least probability that the point is in the scan, of a match
_WITHIN = 0.2  # least probability that the answer is within 10 mm, of a match
_NEAR = 0.5  # and within 20 mm: what is more likely than not further off is no match
_SURE = 0.99  # no answer is called surer than a thousand or so matches with like evidence can show
_FAR_MM = 60.0  # from the edge; beyond it no answer is cut off


class Evidence:
    """Of n matches, collected as matching goes on; what a way of matching does not tell stays 0 for all."""

    def __init__(self, first: CoordinateAnswers, query: torch.Tensor, template_size: torch.Tensor) -> None:
        self.first, self.query, self.template_size = first, query, template_size
        self.similarity = self.spread_mm = self.cycle_mm = torch.zeros(len(query))

    def add_appearance(self, similarity: torch.Tensor, spread_mm: torch.Tensor | None = None) -> None:
        """(n,) similarity of the places; (n,) how far the tissue around them disagrees, where it was asked."""
        self.similarity = similarity
        self.spread_mm = self.spread_mm if spread_mm is None else spread_mm

    def add_cycle(self, cycle_mm: torch.Tensor) -> None:
        """(n,) how far from the point the way back from the answer ends."""
        self.cycle_mm = cycle_mm

    def table(self, cells: torch.Tensor, rows: TargetRows) -> np.ndarray:
        """(n, len(EVIDENCE)) float32 of answers in target cells (n, 3). Distances in the maps' unit or mm."""
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


@dataclass(frozen=True)
class Verdicts:
    """status, expected_error_mm, probability, probability_20: (n,) each; see `matching.Matches`."""

    status: np.ndarray
    expected_error_mm: np.ndarray
    probability: np.ndarray
    probability_20: np.ndarray


def judge(evidence: np.ndarray, calibration: Calibration | None, effort: str) -> Verdicts | None:
    """Verdicts on rows of evidence (n, len(EVIDENCE)), or None where no calibration is for this way of matching."""
    if calibration is None or calibration.evidence != EVIDENCE or effort not in calibration.forests:
        return None
    present, within, near, error = calibration.forests[effort].predict(evidence).T
    within, near = (np.clip(share, 1 - _SURE, _SURE) for share in (within, near))
    doubtful = (present < _PRESENT) | (within < _WITHIN) | (near < _NEAR)
    status = np.where(present < 0.5, ABSENT, np.where(doubtful, UNCERTAIN, MATCHED))
    return Verdicts(status, error / np.maximum(present, 1e-3), within, near)
