"""Organ boxes from the structure library, crops to them, and which part of the body each scan shows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from AnatomicalEmbeddingLib.boxes.BoxLogic import BoxLogic, Cell
from AnatomicalEmbeddingLib.boxes.BoxNodes import ABSENT, CUT, UNCERTAIN
from AnatomicalEmbeddingLib.boxes.CoverageLogic import CoverageLogic
from AnatomicalEmbeddingLib.boxes.CropLogic import CropLogic
from AnatomicalEmbeddingLib.boxes.StructureNames import titled
from AnatomicalEmbeddingLib.shared import SceneNodes

if TYPE_CHECKING:
    from .session import Session

RECALLS = (0.9, 0.95, 0.99)
_MOST_CROPS = 24


class Boxes:
    """Publishes `structures` (what can be found), `found` (a table), `crops`, `boxing` (progress) and `coverage`."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self.logic = BoxLogic(session.scene, session.store)
        self.cropping = CropLogic(session.scene, self.logic)
        self.coverage = CoverageLogic(session.store)
        self.crops: list = []
        self._dirty = True
        for each in (self.logic, self.cropping):
            each.reported.connect(session.say)
            each.changed.connect(self._on_changed)
            session.at_end(each.close)
        session.scans_changed.connect(self._on_changed)
        session.store.changed.connect(lambda _volume_id: self._on_changed())
        session.scan_leaves.connect(self._on_leaving)
        self._names = self.logic.libraryStructures()

    # -- what the user does ------------------------------------------------------------------------------------------

    def find(self, structures: Sequence[str], recall: float) -> None:
        """Look for structures of the library in all scans; scans that are not embedded yet follow when they are."""
        if recall in RECALLS:
            self.logic.find(self._session.scans, [name for name in structures if name in self._names], float(recall))

    def cancel(self) -> None:
        self.logic.cancel()

    def jump(self, scan_id: str, structure: str) -> None:
        """Show a box in the views of its scan, with handles to change it by."""
        scan = self._session.scan(scan_id)
        if scan is not None and isinstance(structure, str):
            self.logic.jumpTo(scan, structure)

    def clear(self) -> None:
        """Remove all boxes; crops stay."""
        self.logic.removeBoxes(self._session.scans)

    def crop(self, structures: Sequence[str], margin_mm: float) -> None:
        """Cut every scan that shows one of the structures down to their boxes."""
        from AnatomicalEmbedding.errors import AnatomicalEmbeddingError

        shown = [str(name) for name in structures]
        made = []
        for scan in self._session.scans:
            try:
                made += self.cropping.crop(scan, shown, False, min(max(float(margin_mm), 0.0), 100.0))
            except AnatomicalEmbeddingError as error:
                self._session.say(str(error))
        self.crops += made
        for crop in self.crops[: max(0, len(self.crops) - _MOST_CROPS)]:
            SceneNodes.removeNode(self._session.scene, crop)
        self.crops = self.crops[-_MOST_CROPS:]
        self._dirty = True

    def drop_crop(self, crop_id: str) -> None:
        crop = self.crop_of(crop_id)
        if crop is not None:
            self.crops.remove(crop)
            SceneNodes.removeNode(self._session.scene, crop)
            self._dirty = True

    def crop_of(self, crop_id: object):
        """A crop by the ID that the page sent, or None."""
        return next((crop for crop in self.crops if crop.GetID() == crop_id), None)

    # -- for the page --------------------------------------------------------------------------------------------------

    @property
    def busy(self) -> bool:
        return self.logic.busy

    def poll(self) -> None:
        self.logic.poll()
        self.cropping.poll()

    def publish(self, state) -> None:
        if self.logic.busy:
            share, what = self.logic.progress
            state.boxing = {"share": round(100 * share), "text": what}
        else:
            state.boxing = {}
        if not self._dirty:
            return
        self._dirty = False
        state.structures = [{"name": name, "title": titled(name)} for name in self._names]
        scans = self._session.scans
        state.found = [
            {"name": name, "title": titled(name), "cells": [_shown(cells.get(scan.GetID()), scan) for scan in scans]}
            for name, cells in self.logic.table(scans).items()
        ]
        state.crops = [
            {
                "id": crop.GetID(),
                "name": crop.GetName(),
                "size": " × ".join(map(str, crop.GetImageData().GetDimensions())),
            }
            for crop in self.crops
        ]
        rows = {scan.GetID(): self.coverage.row(scan) for scan in scans}
        state.coverage = {key: row.holds for key, row in rows.items() if row.known}

    def _on_changed(self) -> None:
        self._dirty = True

    def _on_leaving(self, scan) -> None:
        self.logic.removeBoxes([scan])


def _shown(cell: Cell | None, scan) -> dict:
    """What is known of a structure in a scan, for the table."""
    about = {"scan": scan.GetID(), "name": scan.GetName(), "boxed": bool(cell and cell.boxed)}
    if cell is None or cell.found is None:
        return {**about, "status": "", "words": "–", "tip": "It was not looked for in this scan."}
    status, tip = cell.found.status, cell.found.text
    words = {ABSENT: "not in scan", CUT: "cut", UNCERTAIN: "perhaps cut"}.get(status, "found")
    if cell.edited:
        return {**about, "status": "moved", "words": f"{words}, edited", "tip": f"{tip}; changed by hand"}
    return {
        **about,
        "status": {ABSENT: "absent", CUT: "uncertain", UNCERTAIN: "uncertain"}.get(status, "matched"),
        "words": words,
        "tip": tip,
    }
