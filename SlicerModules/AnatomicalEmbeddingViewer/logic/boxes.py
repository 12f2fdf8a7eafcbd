"""Finds boxes of structures, crops scans to boxes, and states which part of the body each scan shows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from AnatomicalEmbedding.errors import AnatomicalEmbeddingError
from AnatomicalEmbeddingLib.boxes import Crops
from AnatomicalEmbeddingLib.boxes.BoxLogic import BoxLogic, Cell
from AnatomicalEmbeddingLib.boxes.BoxNodes import ABSENT, CUT, UNCERTAIN
from AnatomicalEmbeddingLib.boxes.CoverageLogic import CoverageLogic
from AnatomicalEmbeddingLib.boxes.StructureNames import titled
from AnatomicalEmbeddingLib.shared import SceneNodes

if TYPE_CHECKING:
    from .session import Session

_RECALLS = (0.9, 0.95, 0.99)  # that `ui/boxes.html` offers
_MARGIN_LIMIT_MM = 100.0  # largest margin of a crop; by hand
# (text, CSS class) for each status of a structure; _FOUND is used for all other statuses
_SHOWN = {
    ABSENT: ("not in scan", "absent"),
    CUT: ("cut", "uncertain"),
    UNCERTAIN: ("perhaps cut", "uncertain"),
}
_FOUND = "found", "matched"


class Boxes:
    """Finds boxes and crops scans. Sets values of the page: `structures` (names in the library), `found` (table of
    boxes), `crops`, `boxing` (progress; {} while no search runs) and `coverage` (scan ID -> shown part of the body).
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._logic = BoxLogic(session.scene, session.store)
        self._coverage = CoverageLogic(session.store)
        self._crops: list = []
        self._changed = True
        self._logic.reported.connect(session.report)
        self._logic.changed.connect(self._on_changed)
        session.on_close(self._logic.close)
        session.scans_changed.connect(self._on_changed)
        session.store.changed.connect(self._on_changed)
        session.scan_leaves.connect(lambda scan: self._logic.removeBoxes([scan]))
        self._names = self._logic.libraryStructures()

    # -- actions of the page -----------------------------------------------------------------------------------------

    def find(self, structures: Sequence[str], recall: float) -> None:
        """Find structures of the library in all scans. A scan without a map is searched as soon as its map is ready."""
        if recall in _RECALLS:
            names = [name for name in structures if name in self._names]
            self._logic.find(self._session.scans, names, float(recall))

    def cancel(self) -> None:
        self._logic.cancel()

    def jump(self, scan_id: str, structure: str) -> None:
        """Show a box in the views of its scan. The user can change the box with the handles on its sides."""
        scan = self._session.scan(scan_id)
        if scan is not None and isinstance(structure, str):
            self._logic.jumpTo(scan, structure)

    def clear(self) -> None:
        """Remove all boxes, but keep the crops."""
        self._logic.removeBoxes(self._session.scans)

    def crop(self, structures: Sequence[str], margin_mm: float) -> None:
        """Crop every scan to one box around all boxes of these structures. The box is enlarged by `margin_mm`."""
        names = [str(name) for name in structures]
        margin_mm = min(max(float(margin_mm), 0.0), _MARGIN_LIMIT_MM)
        for scan in self._session.scans:
            try:
                self._crops += Crops.crop(self._logic, scan, names, marginMm=margin_mm)
            except AnatomicalEmbeddingError as error:
                self._session.report(str(error))
        self._changed = True

    def remove_crop(self, crop_id: str) -> None:
        crop = self.crop_node(crop_id)
        if crop is not None:
            self._crops.remove(crop)
            SceneNodes.removeNode(self._session.scene, crop)
            self._changed = True

    def crop_node(self, crop_id: object):
        """Return the volume node with an ID that the page has sent; None if no crop has this ID."""
        return next((crop for crop in self._crops if crop.GetID() == crop_id), None)

    # -- for the page ------------------------------------------------------------------------------------------------

    def poll(self) -> None:
        self._logic.poll()

    def publish(self, state) -> None:
        share, text = self._logic.progress if self._logic.busy else (0.0, "")
        state.boxing = {"share": round(100 * share), "text": text} if text else {}
        if not self._changed:
            return
        self._changed = False
        scans = self._session.scans
        state.structures = [{"name": name, "title": titled(name)} for name in self._names]
        state.found = [
            {
                "name": name,
                "title": titled(name),
                "cells": [_shown(cells.get(scan.GetID()), scan) for scan in scans],
            }
            for name, cells in self._logic.table(scans).items()
        ]
        crops = []
        for crop in self._crops:
            size = " × ".join(map(str, crop.GetImageData().GetDimensions()))
            crops.append({"id": crop.GetID(), "name": crop.GetName(), "size": size})
        state.crops = crops
        rows = {scan.GetID(): self._coverage.row(scan) for scan in scans}
        state.coverage = {key: row.holds for key, row in rows.items() if row.isKnown}

    def _on_changed(self, *_volume_id: str) -> None:
        self._changed = True


def _shown(cell: Cell | None, scan) -> dict:
    """Return the page's values for a structure in a scan. cell: the search result; None before a search."""
    shown = {"scan": scan.GetID(), "name": scan.GetName(), "boxed": bool(cell and cell.boxed)}
    if cell is None or cell.answer is None:
        return shown | {"status": "", "text": "–", "tip": "Not searched in this scan."}
    text, status = _SHOWN.get(cell.answer.status, _FOUND)
    tip = cell.answer.text
    if cell.edited:
        status = "moved"
        text += ", edited"
        tip += "; the user has changed this box"
    return shown | {"status": status, "text": text, "tip": tip}
