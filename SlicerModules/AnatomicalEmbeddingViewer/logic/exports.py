"""Files to download: points of each scan, a table, a report, the scene for 3D Slicer, and crops."""

from __future__ import annotations

import csv
import io
import shutil
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

import numpy as np

from AnatomicalEmbedding.errors import AnatomicalEmbeddingError, PointsError
from AnatomicalEmbedding.matching.status import ABSENT
from AnatomicalEmbeddingLib.landmarks.AnswerList import REMOVED, Answer
from AnatomicalEmbeddingLib.landmarks.ControlPoints import fromNode, worldOf
from AnatomicalEmbeddingLib.landmarks.ResultsTable import COLUMNS, rowOf
from AnatomicalEmbeddingLib.shared.SceneNodes import nodesOf
from AnatomicalEmbeddingLib.shared.VolumeNodes import isFilm, snapshot

from .session import file_content, file_name

if TYPE_CHECKING:
    from .landmarks import Landmarks
    from .session import Session


class _Place(NamedTuple):
    """The place of a point in a scan.

    place: (3,) RAS mm of the scene; None if the answer has no place. answer: None for the point in the template.
    """

    label: str
    scan: object
    place: np.ndarray | None
    answer: Answer | None = None


class Exports:
    """Makes each file when the page requests it. Sets the value `exporting` of the page: True while a scene is packed.

    Each method returns the content of a file, or a function that returns the content. This function may run in another
    thread. If there is no point yet, or a file cannot be written, AnatomicalEmbeddingError is raised.
    """

    def __init__(self, session: Session, landmarks: Landmarks) -> None:
        self._session = session
        self._logic = landmarks.logic
        self._exporting = False

    def publish(self, state) -> None:
        state.exporting = self._exporting

    def points(self) -> bytes:
        """Return a zip with one .mrk.json file for each scan: for the template the points, for a target the answers."""
        from AnatomicalEmbedding.scan.points import PointList, write_markups

        self._check_points()
        packed = io.BytesIO()
        folder = self._session.folder
        with (
            tempfile.TemporaryDirectory(dir=folder) as work,
            zipfile.ZipFile(packed, "w") as archive,
        ):
            for number, scan in enumerate(self._session.scans, 1):
                rows = [row for row in self._places() if row.scan is scan]
                if not rows:
                    continue
                name = f"{file_name(scan.GetName())}.mrk.json"
                path = Path(work, name if name not in archive.namelist() else f"{number}-{name}")
                labels = tuple(row.label for row in rows)
                texts = tuple("" if row.answer is None else row.answer.text for row in rows)
                missing = [row.place is None for row in rows]
                points_ras = np.zeros((len(rows), 3))
                for n, row in enumerate(rows):
                    if row.place is not None:
                        points_ras[n] = row.place
                write_markups(path, PointList(labels, points_ras, texts), scan.GetName(), missing)
                archive.write(path, path.name)
        return packed.getvalue()

    def table(self) -> bytes:
        """Return a CSV with a row for each point and scan, in the scene's RAS mm, with the columns COLUMNS."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(COLUMNS)
        writer.writerows(rowOf(*row) for row in self._places())
        return text.getvalue().encode()

    def _places(self) -> Iterator[_Place]:
        """Yield the place of each point of the template, and then the place of each answer to this point."""
        logic = self._logic
        for row in logic.rows():
            yield _Place(row.label, logic.template, worldOf(logic.points, row.pointId))
            for scan in logic.targets:
                answer = row.answers.get(scan.GetID())
                if answer is not None:
                    place = logic.answersIn(scan).worldOf(answer)
                    yield _Place(row.label, scan, place, answer)

    def report(self) -> Callable[[], bytes]:
        """Return a function that makes the HTML report of the points and their answers."""
        from AnatomicalEmbedding.matching.match import Matches
        from AnatomicalEmbedding.reports.matches import write_report
        from AnatomicalEmbedding.scan.points import PointList

        self._check_points()
        logic = self._logic
        rows = [row for row in logic.rows() if row.inside]
        points_ras = np.array([worldOf(logic.points, row.pointId) for row in rows])
        points = PointList(tuple(row.label for row in rows), points_ras)
        targets = []
        for scan in logic.targets:
            answer_list = logic.answersIn(scan)
            if answer_list is None:
                continue
            answers = [row.answers.get(scan.GetID()) for row in rows]
            judged = [None if a is None or a.byHand or a.errorMm is None else a for a in answers]
            matches = Matches(
                np.array([_reported_place(answer_list, answer) for answer in answers]),
                None,
                np.array(["" if a is None else a.status for a in answers]),
                np.array([np.nan if a is None else a.errorMm for a in judged]),
                np.array([np.nan if a is None else a.probability for a in judged]),
            )
            targets.append((scan.GetName(), _volume(scan), matches))
        template = _volume(logic.template)
        model = self._session.store.engine.weightsPath(isFilm(logic.template)).stem
        title = f"Points of {template.name}"
        embedding = self._session.store.map(logic.template)
        unit_mm = 1.0 if embedding is None else embedding.unit_mm

        def write(path: Path) -> None:
            write_report(path, template, points, targets, title, model, unit_mm)

        return partial(file_content, self._session.folder, "report.html", write)

    def scene(self) -> Callable[[], BinaryIO]:
        """Write the scene into a folder. Returns a function that packs the folder as a bundle (.mrb) for 3D Slicer.

        Packing is slow: call this function in another thread. The function returns a file that is deleted when closed.
        """
        refused = AnatomicalEmbeddingError(
            "The scene could not be written; free some space on the viewer's disk."
        )
        work = Path(tempfile.mkdtemp(prefix="bundle-", dir=self._session.folder))
        (work / "scene").mkdir()
        for node in nodesOf(self._session.scene, "vtkMRMLVolumeNode"):
            node.AddDefaultStorageNode()
            node.GetStorageNode().SetUseCompression(False)  # the bundle is compressed
        if not self._session.scene.SaveSceneToSlicerDataBundleDirectory(str(work / "scene")):
            shutil.rmtree(work, ignore_errors=True)
            raise refused
        self._exporting = True

        def pack() -> BinaryIO:
            try:
                packed = tempfile.TemporaryFile(dir=self._session.folder)  # noqa: SIM115, the caller closes it
                with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
                    for path in sorted(work.rglob("*")):
                        archive.write(path, path.relative_to(work))
            except OSError as error:
                raise refused from error
            finally:
                self._exporting = False
                shutil.rmtree(work, ignore_errors=True)
            packed.seek(0)
            return packed

        return pack

    def volume(self, node) -> Callable[[], bytes]:
        """Return a function that makes the .nii.gz of a volume node."""
        return partial(file_content, self._session.folder, "volume.nii.gz", _volume(node).write)

    def _check_points(self) -> None:
        if not any(row.inside for row in self._logic.rows()):
            raise PointsError("There is no point to export yet; place a point first.")


def _reported_place(answer_list, answer) -> np.ndarray:
    """Return the position (3,), RAS mm, of an answer, even if its status is absent. Return NaN if the list of
    answers lacks the answer."""
    if answer is None or answer.status == REMOVED or not answer_list.hasPoint(answer):
        return np.full(3, np.nan)
    if answer.status == ABSENT:
        return fromNode(answer_list.node, answer.pointId)
    return answer_list.worldOf(answer)


def _volume(node):
    """Return a copy of a node's image for another thread. Any image size is allowed, because crops may be small."""
    return snapshot(node).volume(check=lambda volume: volume)
