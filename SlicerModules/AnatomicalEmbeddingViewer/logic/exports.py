"""What there is as files: points of each scan, a table, a report, a scene for Slicer, and cropped scans."""

from __future__ import annotations

import csv
import io
import zipfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import numpy as np
import slicer.util

from AnatomicalEmbedding.matching.status import ABSENT
from AnatomicalEmbeddingLib.landmarks.AnswerList import REMOVED
from AnatomicalEmbeddingLib.landmarks.ControlPoints import fromNode, worldOf
from AnatomicalEmbeddingLib.landmarks.ResultsTable import COLUMNS, rowOf
from AnatomicalEmbeddingLib.shared.VolumeNodes import ijkToRas

from . import bundle
from .session import file_content, file_name

if TYPE_CHECKING:
    from .landmarks import Landmarks
    from .outlines import Outlines
    from .session import Session


class Exports:
    """Each export is made when it is asked for. `report`, `scene` and `volume` give functions that may run in another
    thread. Publishes `exporting`: what is being written, or "".
    """

    def __init__(self, session: Session, landmarks: Landmarks, outlines: Outlines | None) -> None:
        self._session, self._landmarks, self._outlines = session, landmarks, outlines
        self._doing = ""

    def publish(self, state) -> None:
        state.exporting = self._doing

    def points_of(self, scan_id: str) -> tuple[str, bytes]:
        """Name and content of a .mrk.json of the points, or answers, in one scan. Raises AnatomicalEmbeddingError."""
        from AnatomicalEmbedding.errors import PointsError
        from AnatomicalEmbedding.scan.points import PointList, write_markups

        logic, scan = self._landmarks.logic, self._session.scan(scan_id)
        rows = logic.rows()
        if scan is None or not rows:
            raise PointsError("There is no point to export yet; place one first.")
        labels, places, texts, missing = [], [], [], []
        for row in rows:
            if scan is logic.template:
                place, text, gone = worldOf(logic.points, row.pointId), "", False
            elif scan.GetID() in row.answers:
                answer = row.answers[scan.GetID()]
                found = logic.answersIn(scan).worldOf(answer)
                place, text, gone = np.zeros(3) if found is None else found, answer.text, found is None
            else:
                continue
            labels.append(row.label)
            places.append(place)
            texts.append(text)
            missing.append(gone)
        if not labels:
            raise PointsError(f"{scan.GetName()}: has no answer yet; wait until it is prepared.")
        name = f"{file_name(scan.GetName())}.mrk.json"
        points = PointList(tuple(labels), np.array(places), tuple(texts))

        def write(path: Path) -> None:
            write_markups(path, points, scan.GetName(), missing)

        return name, file_content(self._session.folder, "points.mrk.json", write)

    def all_points(self) -> bytes:
        """A zip of a .mrk.json for each scan that has points."""
        from AnatomicalEmbedding.errors import PointsError

        packed, names = io.BytesIO(), set()
        with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
            for number, scan in enumerate(self._session.scans, 1):
                try:
                    name, content = self.points_of(scan.GetID())
                except PointsError:
                    if scan is self._session.template:
                        raise
                    continue
                name = name if name not in names else f"{number}-{name}"
                names.add(name)
                archive.writestr(name, content)
            if not names:
                raise PointsError("There is no point to export yet; place one first.")
        return packed.getvalue()

    def table(self) -> str:
        """CSV: a row for each point and scan, world RAS mm; columns as in Slicer's table of matches."""
        logic, text = self._landmarks.logic, io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(COLUMNS)
        for row in logic.rows():
            place = worldOf(logic.points, row.pointId)
            writer.writerow(rowOf(row.label, logic.template, place))
            for scan in logic.targets:
                answer = row.answers.get(scan.GetID())
                if answer is not None:
                    writer.writerow(rowOf(row.label, scan, logic.answersIn(scan).worldOf(answer), answer))
        return text.getvalue()

    def report(self) -> Callable[[], bytes]:
        """What writes the HTML report of points that every scan has an answer to."""
        from AnatomicalEmbedding.errors import PointsError
        from AnatomicalEmbedding.matching.match import Matches
        from AnatomicalEmbedding.reports.matches import write_report
        from AnatomicalEmbedding.scan.points import PointList

        logic = self._landmarks.logic
        rows = [row for row in logic.rows() if row.inside]
        if not rows:
            raise PointsError("There is no point to report yet; place one first.")
        points = PointList(
            tuple(row.label for row in rows), np.array([worldOf(logic.points, row.pointId) for row in rows])
        )
        targets = []
        for scan in logic.targets:
            answers, each = [row.answers.get(scan.GetID()) for row in rows], logic.answersIn(scan)
            if each is None:
                continue
            matches = Matches(
                np.array([_place(each, answer) for answer in answers]),
                None,
                np.array(["" if a is None else a.status for a in answers]),
                np.array([np.nan if a is None or a.errorMm is None or a.byHand else a.errorMm for a in answers]),
                np.array([np.nan if a is None or a.errorMm is None or a.byHand else a.probability for a in answers]),
            )
            targets.append((scan.GetName(), _volume(scan), matches))
        template, model = _volume(logic.template), self._session.store.engine.weightsPath().stem
        folder = self._session.folder

        def write(path: Path) -> None:
            write_report(path, template, points, targets, f"Points of {template.name}", None, model)

        return partial(file_content, folder, "report.html", write)

    def scene(self) -> Callable[[], BinaryIO]:
        """What finishes the scene as a bundle (.mrb) that Slicer opens; see `bundle`."""
        files = None if self._outlines is None else self._outlines.files()
        finish = bundle.begin(self._session.scene, self._session.folder, files)

        def write() -> BinaryIO:
            try:
                return finish(self._report)
            finally:
                self._report("")

        return write

    def volume(self, node) -> Callable[[], bytes]:
        """What writes a scan, or a crop, as .nii.gz."""
        return partial(file_content, self._session.folder, "volume.nii.gz", _volume(node).write)

    def _report(self, what: str) -> None:
        self._doing = what


def _place(each, answer) -> np.ndarray:
    """(3,) RAS mm of an answer, also of one that is absent; NaN where none is known."""
    if answer is None or answer.status == REMOVED or not each.hasPoint(answer):
        return np.full(3, np.nan)
    return fromNode(each.node, answer.pointId) if answer.status == ABSENT else each.worldOf(answer)


def _volume(node):
    from AnatomicalEmbedding.scan.volume import Volume

    return Volume(slicer.util.arrayFromVolume(node).copy(), ijkToRas(node), name=node.GetName())
