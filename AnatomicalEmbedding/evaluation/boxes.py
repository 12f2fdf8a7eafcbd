"""Measure boxes that were found with few examples: overlap (IoU), recall, and volume ratio (VR), in cross-validation.

VR is the volume of the scan divided by the volume of the box. Protocol: Goncharov et al., MICCAI 2024, section 2.3
(IoU, VR@99). In addition, recall and VR are measured with margins that were learned on other scans.
"""

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..embedding.inference import Model
from ..errors import PointsError, ProgressCallback
from ..scan.boxes import grown, intersection_over_union
from ..structures.examples import BoxCase
from ..structures.labelled_scans import patient_of
from ..structures.library import StructureLibrary
from ..structures.margins import KnownBox, Margins, known_boxes
from .results import Section, Tables

_Row = dict[str, float | str]  # column -> value
_RECALLS = (0.9, 0.99)  # whose margins are measured
# tried as factors of a box's sides; if none is enough, the whole scan counts
_FACTORS = np.arange(1.0, 6.01, 0.05)


def find_by_library(
    cases: Sequence[BoxCase],
    model: Model,
    library: StructureLibrary,
    progress: ProgressCallback,
) -> tuple[list[KnownBox], float]:
    """Locate the structures of each case with a library. Returns the boxes, and the mean seconds for one scan.

    Args:
        cases: the scans with their true structures. Examples from the patient of a case are not used.
        model: makes the maps.
        library: the structure library.
        progress: called with the share of the work that is done, 0 to 1, and the scan.

    Raises PointsError if no case has a structure of the library.
    """
    boxes = []
    seconds = []
    for number, case in enumerate(cases):
        progress(number / len(cases), case.id)
        embedding = model.embed(case.volume)
        examples = {}
        for name in case.structures:
            independent = [
                e for e in library.examples.get(name, ()) if patient_of(e.scan) != case.patient
            ]
            if independent:
                examples[name] = independent
        start = time.perf_counter()
        boxes += known_boxes(case, embedding, examples, library.effort)
        seconds.append(time.perf_counter() - start)
    if not boxes:
        raise PointsError(
            "no structure of the library lies completely inside a labelled scan; add labelled scans."
        )
    return boxes, float(np.mean(seconds))


@dataclass(frozen=True, eq=False)
class BoxResult(Tables):
    """Found boxes, each with the true box. margins: margins learned on other scans. seconds: mean time for one scan."""

    model: str
    boxes: tuple[KnownBox, ...]
    margins: Margins
    seconds: float

    def rows(self) -> list[_Row]:
        """Return a row for each structure, then a row of means. VR: median of scan volume / box volume."""
        rows = [self._row(name) for name in sorted({box.located.name for box in self.boxes})]
        mean: _Row = {"structure": "mean", "boxes": len(self.boxes)}
        for column in list(rows[0])[2:]:
            mean[column] = float(np.nanmean([float(row[column]) for row in rows]))
        return [*rows, mean]

    def _row(self, name: str) -> _Row:
        """Return the figures of one structure, by column. Boxes of other methods (`peers`) have a column of overlaps
        each; a figure is NaN if a method found no box of the structure."""
        boxes = [box for box in self.boxes if box.located.name == name]
        overlaps = [intersection_over_union(box.located.box_ras, box.truth_ras) for box in boxes]
        row: _Row = {"structure": name, "boxes": len(boxes), "IoU": float(np.mean(overlaps))}
        for peer in sorted({peer for box in self.boxes for peer in box.peers}):
            overlaps = [
                intersection_over_union(box.peers[peer], box.truth_ras)
                for box in boxes
                if peer in box.peers
            ]
            row[f"IoU, {peer}"] = float(np.mean(overlaps)) if overlaps else float("nan")
        for recall in _RECALLS:
            grown_boxes = [self.margins.box(box.located, recall) for box in boxes]
            mean_recall, ratio = _recall_and_ratio(boxes, grown_boxes)
            row[f"recall at {recall:g}"] = mean_recall
            row[f"VR at {recall:g}"] = ratio
        row["VR@99, alpha on test"] = _papers_volume_ratio(boxes)
        return row

    def sections(self) -> list[Section]:
        note = f"{self.seconds:.3f} s to locate the structures of one scan, embedding not included"
        rows = self.rows()
        table = (tuple(rows[0]), *map(_cells, rows))
        return [Section(f"Boxes, {self.model}", table, (note,))]

    def to_json(self) -> str:
        """Return JSON text with the figures of each structure; null for a figure that is undefined."""

        def cell(value: float | str) -> float | str | None:
            return None if isinstance(value, float) and not np.isfinite(value) else value

        rows = [{key: cell(value) for key, value in row.items()} for row in self.rows()]
        return json.dumps(
            {"model": self.model, "seconds": self.seconds, "structures": rows}, indent=1
        )


def _cells(row: _Row) -> tuple[str, ...]:
    """Return a row of the table as text; "-" for a figure that is undefined."""
    cells = []
    for column, value in row.items():
        if not isinstance(value, float):
            cells.append(str(value))
        elif np.isnan(value):
            cells.append("-")
        else:
            cells.append(format(value, ".1f" if column.startswith("VR") else ".3f"))
    return tuple(cells)


def _papers_volume_ratio(boxes: list[KnownBox]) -> float:
    """Return VR@99 of the paper: the median volume ratio of boxes whose sides are multiplied by one factor.

    The factor is the smallest of `_FACTORS` with a mean recall of 0.99. If there is none, only whole scans reach this
    recall, and the ratio is 1.
    """
    for factor in _FACTORS:
        enlarged = []
        for box in boxes:
            low, high = box.located.box_ras
            margin_mm = (factor - 1) / 2 * (high - low)
            enlarged.append(grown(box.located.box_ras, np.tile(margin_mm, 2)))
        recall, ratio = _recall_and_ratio(boxes, enlarged)
        if recall >= 0.99:
            return ratio
    return 1.0


def _recall_and_ratio(boxes: list[KnownBox], grown_boxes: list[np.ndarray]) -> tuple[float, float]:
    """Return the mean recall of the grown boxes (2, 3), and the median of scan volume / volume of the grown box."""
    recalls = map(KnownBox.recall, boxes, grown_boxes)
    ratios = map(KnownBox.volume_ratio, boxes, grown_boxes)
    return float(np.mean(list(recalls))), float(np.median(list(ratios)))
