"""Outlines of organs by a segmenter that `anatemb segment train` made: in all scans, drawn over them, and as files."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from AnatomicalEmbeddingLib.boxes.Segments import trimmed
from AnatomicalEmbeddingLib.boxes.StructureNames import readable, titled, weightsHash
from AnatomicalEmbeddingLib.outlines import OutlineNodes
from AnatomicalEmbeddingLib.outlines.OutlineFolder import TABLE, fileNames
from AnatomicalEmbeddingLib.outlines.OutlineProcess import SECONDS_A_SCAN
from AnatomicalEmbeddingLib.shared import SceneNodes
from AnatomicalEmbeddingLib.shared.maps.MapStore import FAILED, READY, WAITING, WORKING
from AnatomicalEmbeddingLib.shared.maps.Worker import Work, Worker
from AnatomicalEmbeddingLib.shared.VolumeNodes import snapshot

from .session import file_content

if TYPE_CHECKING:
    from AnatomicalEmbedding.segmentation.outlining import Outline
    from AnatomicalEmbedding.segmentation.segmenter import Segmenter

    from .session import Session

_THICK = 2  # pixels of a contour


@dataclass(frozen=True, eq=False)
class _Found:
    """Of one scan. file: content of its .seg.nrrd. shapes: what is to be drawn, without empty margins."""

    outlines: tuple[Outline, ...]
    file: bytes
    shapes: Sequence[OutlineNodes.Shape]


class Outlines:
    """Publishes `outlining` (progress) and `outlines` (rows, how many scans are left, are they shown?)."""

    def __init__(self, session: Session, segmenter: Segmenter) -> None:
        from AnatomicalEmbedding.segmentation.files import colour

        self._session, self._segmenter = session, segmenter
        self._colours = {name: colour(n) for n, name in enumerate(segmenter.names)}
        self._worker = Worker()
        self._waiting: list = []  # scans that are not outlined yet, the one under way among them
        self._asked, self._share = 0, 0.0
        self._found: dict[str, _Found] = {}  # by node ID
        self._shown, self._dirty = True, True
        session.scans_changed.connect(self._follow)
        session.scan_leaves.connect(self._on_leaving)
        session.at_end(self._worker.end)

    # -- what the user does ------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Outline every scan that is not outlined; those that are not embedded yet follow when they are."""
        if not self._waiting:
            self._waiting = [scan for scan in self._session.scans if scan.GetID() not in self._found]
            self._asked = len(self._waiting)
            self._session.store.request(self._waiting)

    def cancel(self) -> None:
        """Stop; what is outlined stays."""
        self._worker.cancel()
        self._waiting, self._share = [], 0.0

    def jump(self, scan_id: str, structure: str) -> None:
        """Show the middle of a structure in the views of its scan."""
        for row in OutlineNodes.rowsIn(self._session.scene):
            if row.volume.GetID() == scan_id and row.structure == structure:
                OutlineNodes.jumpTo(self._session.scene, row)

    def show(self, shown: bool) -> None:
        """Draw contours, or hide them all."""
        self._shown, self._dirty = bool(shown), True
        for scan in self._session.scans:
            self._look(scan)

    def files(self) -> dict[str, bytes]:
        """Of each node of outlines, by its ID, its content as .seg.nrrd."""
        over = {key: OutlineNodes.nodesOver(self._session.scene, self._session.scan(key)) for key in self._found}
        return {node.GetID(): self._found[key].file for key, nodes in over.items() for node in nodes}

    def export(self) -> bytes:
        """A zip of the files that `anatemb segment run` writes: a .seg.nrrd of each scan, and the table.

        Raises AnatomicalEmbeddingError where there is nothing to export, or no space on the disk.
        """
        from AnatomicalEmbedding.cli.console import write_table
        from AnatomicalEmbedding.errors import AnatomicalEmbeddingError
        from AnatomicalEmbedding.segmentation.table import COLUMNS, table_rows

        scans = [scan for scan in self._session.scans if scan.GetID() in self._found]
        if not scans:
            raise AnatomicalEmbeddingError("There is no outline to export yet; outline the scans first.")
        names = fileNames([scan.GetName() for scan in scans])
        found = [self._found[scan.GetID()] for scan in scans]
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w", zipfile.ZIP_STORED) as archive:  # they are compressed already
            for name, each in zip(names, found, strict=True):
                archive.writestr(f"{name}.seg.nrrd", each.file)
            rows = table_rows([(name, each.outlines) for name, each in zip(names, found, strict=True)])
            archive.writestr(TABLE, self._written(TABLE, lambda path: write_table(path, COLUMNS, rows)))
        return packed.getvalue()

    # -- step by step ------------------------------------------------------------------------------------------------

    def poll(self) -> None:
        """Take over what the background has done, and start the next scan that is embedded."""
        for event in self._worker.poll():
            if event.kind == "progress":
                self._share = event.share
                continue
            scan = self._session.scan(event.key)
            if event.kind == "done":
                self._take(scan, event.result)
            elif event.kind == "failed":
                self._session.say(SceneNodes.naming(scan, event.what))
            self._finish(scan)
        for scan in list(self._waiting):
            state = self._session.store.state(scan)
            if state.status == READY and not self._worker.busy:  # one at a time: each holds a copy of its scan
                self._worker.submit(scan.GetID(), self._work(scan, state.embedding))
            elif state.status not in (READY, WAITING, WORKING):
                if state.status != FAILED:  # why that is stands at the scan
                    self._session.say(f"{scan.GetName()}: its preparation was stopped; outline the scans again.")
                self._finish(scan)

    def _work(self, scan, embedding) -> Work:
        """What outlines a scan, and may run in a background thread."""
        segmenter, colours, copy = self._segmenter, self._colours, snapshot(scan)

        def work(progress: Callable[[float, str], None], cancelled: Callable[[], bool]) -> _Found:
            from AnatomicalEmbedding.errors import CancelledError
            from AnatomicalEmbedding.segmentation.files import write_segments
            from AnatomicalEmbedding.segmentation.outlining import outline

            def step(share: float, what: str) -> None:
                if cancelled():
                    raise CancelledError(f"{copy.name}: outlining was cancelled.")
                progress(share, what)

            volume = copy.volume()
            found = outline(volume, embedding, segmenter, step)

            def write(path: Path) -> None:
                write_segments(path, found.labels, volume.ijk_to_ras, segmenter.names)

            shapes = []
            for n, name in enumerate(segmenter.names):
                mask, to_ras = trimmed(found.labels == n + 1, volume.ijk_to_ras)
                shapes.append(OutlineNodes.Shape(mask.copy(), to_ras, readable(name), colours[name]))
            return _Found(found.outlines, self._written(f"{copy.name}.seg.nrrd", write), shapes)

        return work

    def _written(self, shown: str, write: Callable[[Path], None]) -> bytes:
        """What is written to a file; it does not stay. shown: what to call the file in a sentence."""
        from AnatomicalEmbedding.errors import AnatomicalEmbeddingError, VolumeError

        try:
            return file_content(self._session.folder, f"made{''.join(Path(shown).suffixes[-2:])}", write)
        except (OSError, VolumeError) as error:
            raise AnatomicalEmbeddingError(f"{shown}: could not be written; check the space on the disk.") from error

    def _take(self, scan, found: _Found) -> None:
        """Draw what was found."""
        from AnatomicalEmbedding.segmentation.table import COLUMNS, table_rows

        rows = [dict(zip(COLUMNS, row, strict=True)) for row in table_rows([(scan.GetName(), found.outlines)])]
        self._found[scan.GetID()] = replace(found, shapes=())
        node = OutlineNodes.draw(self._session.scene, scan, OutlineNodes.rowsText(rows), found.shapes)
        node.GetDisplayNode().SetVisibility2DFill(False)
        node.GetDisplayNode().SetSliceIntersectionThickness(_THICK)
        self._look(scan)

    def _look(self, scan) -> None:
        for node in OutlineNodes.nodesOver(self._session.scene, scan):
            node.GetDisplayNode().SetVisibility(self._shown)

    def _finish(self, scan) -> None:
        """A scan is outlined, or nothing more can be done about it."""
        self._waiting = [each for each in self._waiting if each is not scan]
        self._share, self._dirty = 0.0, True

    def _follow(self) -> None:
        """Scans have come or gone."""
        self._dirty = True

    def _on_leaving(self, scan) -> None:
        """Drop what belongs to a scan."""
        self._worker.cancel(scan.GetID())
        self._finish(scan)
        self._found.pop(scan.GetID(), None)
        for node in OutlineNodes.nodesOver(self._session.scene, scan):
            SceneNodes.removeNode(self._session.scene, node)

    # -- for the page --------------------------------------------------------------------------------------------------

    def publish(self, state) -> None:
        state.outlining = self._progress()
        if not self._dirty:
            return
        self._dirty = False
        left = sum(scan.GetID() not in self._found for scan in self._session.scans)
        state.outlines = {
            "rows": [_shown(row, self._colours[row.structure]) for row in OutlineNodes.rowsIn(self._session.scene)],
            "left": left,
            "minutes": max(1, round(left * SECONDS_A_SCAN / 60)),
            "shown": self._shown,
        }

    def _progress(self) -> dict:
        """share 0 to 100, text; {} when nothing goes on."""
        if not self._waiting:
            return {}
        scan = next((scan for scan in self._waiting if self._session.store.map(scan) is not None), None)
        done = self._asked - len(self._waiting) + self._share
        text = "preparing scans" if scan is None else f"outlining {scan.GetName()}"
        return {"share": round(100 * done / max(self._asked, 1)), "text": text}


def open_segmenter(folder: Path, device: str) -> Segmenter:
    """What `anatemb segment train` wrote into a folder. Raises AnatomicalEmbeddingError for a folder without, a damaged
    one, and weights of the embedding that are not there any more or have changed.
    """
    from AnatomicalEmbedding.embedding.device import choose_device
    from AnatomicalEmbedding.errors import WeightsError
    from AnatomicalEmbedding.resources import weights_file
    from AnatomicalEmbedding.segmentation.segmenter import load_segmenter

    segmenter = load_segmenter(folder, choose_device(device))
    weights = weights_file(segmenter.weights)
    if not weights.is_file():
        raise WeightsError(
            f"{folder}: was trained with the embedding {segmenter.weights}, which is not there any more."
        )
    segmenter.check(weightsHash(weights), folder)
    return segmenter


def _shown(row: OutlineNodes.OutlineRow, colour: Sequence[float]) -> dict:
    """A structure in a scan, for the table."""
    about = {
        "key": f"{row.volume.GetID()} {row.structure}", "scan": row.volume.GetID(), "name": row.volume.GetName(),
        "structure": row.structure, "title": titled(row.structure), "there": row.doubt is not None,
        "colour": f"rgb({', '.join(str(round(255 * part)) for part in colour)})",
    }  # fmt: skip
    if row.doubt is None:
        return {**about, "status": "absent", "remark": f"Absent: {row.remark}."}
    remark = row.remark or ("cut by the border of the scan" if row.status == OutlineNodes.CUT else "")
    return {
        **about,
        "status": row.status,
        "volume": f"{row.volumeMl:.0f} ml" if row.volumeMl >= 10 else f"{row.volumeMl:.1f} ml",
        "remark": remark[:1].upper() + remark[1:],
    }
