"""The scans of the session: read in the background, added as volume nodes, one of them the template."""

from __future__ import annotations

import ctypes
import gc
import shutil
import sys
from collections.abc import Callable
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import slicer.util

from AnatomicalEmbeddingLib.shared import SceneNodes
from AnatomicalEmbeddingLib.shared.maps.MapStore import FAILED, READY, WAITING, WORKING
from AnatomicalEmbeddingLib.shared.maps.Worker import Worker

from .origins import UNKNOWN, Origin, origin_in, place

if TYPE_CHECKING:
    from AnatomicalEmbedding.scan.sources import Source
    from AnatomicalEmbedding.scan.volume import Volume

    from .session import Session

Reader = Callable[[Callable[[], bool]], "list[tuple[Volume, Origin]]"]
_WORDS = {WAITING: "waiting", READY: "ready", FAILED: "cannot be used"}


def _ignore(_sentence: str) -> None:
    """Nobody else wants to know."""


class _Job(NamedTuple):
    name: str
    done: Callable[[], None]
    failed: Callable[[str], None]


class Scans:
    """Publishes `scans` (a list for the page), `unprepared` (is any?) and `work` (what the bar shows)."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._worker = Worker()
        self._reading: dict[int, _Job] = {}
        self._jobs = count()
        self._about: dict[str, str] = {}
        session.at_end(self._worker.end)

    # -- coming and going --------------------------------------------------------------------------------------------

    def read_source(self, name: str, source: Source, failed: Callable[[str], None] = _ignore) -> None:
        """Read a scan of the command line by the engine's own reader, whose sentences the page shows."""

        def read(_cancelled: Callable[[], bool]) -> list[tuple[Volume, Origin]]:
            return [(replace(source.read(), name=name), _origin_of(source))]

        self.read(name, read, failed=failed)

    def read(
        self,
        name: str,
        reader: Reader,
        done: Callable[[], None] = lambda: None,
        failed: Callable[[str], None] = _ignore,
    ) -> None:
        """Run a reader in the background; its scans become rows. done: called once it has ended, well or not, and its
        scans are there. failed: gets the sentence that the page shows, if it did not end well.
        """
        job = next(self._jobs)
        self._reading[job] = _Job(name, done, failed)
        self._worker.submit(job, lambda _progress, cancelled: reader(cancelled))

    def add(self, volume: Volume, origin: Origin = UNKNOWN):
        """A scan as a volume node with a row of its own; the first is the template. Returns the node."""
        session = self._session
        name = SceneNodes.freeName(session.scene, volume.name or "scan")
        node = slicer.util.addVolumeFromArray(volume.voxels, np.asarray(volume.ijk_to_ras), name=name)
        node.CreateDefaultDisplayNodes()
        node.GetDisplayNode().SetAndObserveColorNodeID("vtkMRMLColorTableNodeGrey")
        node.GetDisplayNode().SetAutoWindowLevel(False)
        place(session.scene, node, origin)
        session.origins[node.GetID()] = origin
        spacing = " × ".join(f"{mm:.3g}" for mm in volume.spacing)
        self._about[node.GetID()] = f"{' × '.join(map(str, volume.shape[::-1]))} voxels of {spacing} mm"
        for note in volume.notes:
            session.say(f"{name}: {note}.")
        session.scans.append(node)
        if session.template is None:
            session.template = node
        session.scans_changed.emit()
        session.store.request([node])
        return node

    def remove(self, scan_id: str) -> None:
        """Take a scan out of the session; the other features remove what belongs to it."""
        session, node = self._session, self._session.scan(scan_id)
        if node is None:
            return
        session.scan_leaves.emit(node)
        session.scans.remove(node)
        if session.template is node:
            session.template = session.scans[0] if session.scans else None
        session.scans_changed.emit()
        SceneNodes.removeNode(session.scene, node)
        self._about.pop(scan_id, None)
        origin = session.origins.pop(scan_id, UNKNOWN)
        if origin.kept is not None:
            shutil.rmtree(origin.kept, ignore_errors=True)
        del node
        _give_memory_back()

    def choose_template(self, scan_id: str) -> None:
        node = self._session.scan(scan_id)
        if node is not None and node is not self._session.template:
            self._session.template = node
            self._session.scans_changed.emit()

    def rename(self, scan_id: str, name: str) -> None:
        node, name = self._session.scan(scan_id), " ".join(name.split())[:80]
        if node is not None and name and name != node.GetName():
            node.SetName(SceneNodes.freeName(self._session.scene, name))
            self._session.scans_changed.emit()

    # -- work in the background --------------------------------------------------------------------------------------

    def prepare(self) -> None:
        """Embed what is not embedded, after Cancel or a failure."""
        self._session.store.request(self._session.scans)

    def cancel(self) -> None:
        """Stop reading and embedding; what is done stays."""
        for job in self._worker.cancel():
            self._reading.pop(job).done()
        self._session.store.cancel()

    @property
    def busy(self) -> bool:
        return bool(self._reading) or self._session.store.busy

    def poll(self) -> None:
        """Take over what the background has done."""
        for event in self._worker.poll():
            if event.kind == "progress":
                continue
            job = self._reading.pop(event.key)
            if event.kind == "failed":
                self._session.say(event.what)
                job.failed(event.what)
            try:
                for volume, origin in event.result or ():
                    self.add(volume, origin)
            finally:
                job.done()
        self._session.store.poll()

    # -- for the page --------------------------------------------------------------------------------------------------

    def publish(self, state) -> None:
        session = self._session
        states = {node.GetID(): session.store.state(node) for node in session.scans}
        state.scans = [
            {
                "id": node.GetID(),
                "name": node.GetName(),
                "about": self._about.get(node.GetID(), ""),
                "template": node is session.template,
                "status": (now := states[node.GetID()]).status,
                "words": _WORDS.get(
                    now.status, f"{100 * now.share:.0f} %" if now.status == WORKING else "not prepared"
                ),
                "sentence": now.sentence,
                "notes": "" if now.embedding is None else "; ".join((*now.embedding.notes, *now.embedding.faults)),
            }
            for node in session.scans
        ]
        state.unprepared = any(each.status in ("empty", FAILED) for each in states.values())
        state.work = self._work(states)

    def _work(self, states: dict) -> dict:
        """What is going on, for the bar: share 0 to 100, text; {} when nothing is."""
        if self._reading:
            names = [job.name for job in self._reading.values()]
            return {"share": 0, "text": f"reading {names[0]}" + (f" and {len(names) - 1} more" if names[1:] else "")}
        if not self._session.store.busy:
            return {}
        wanted = [s for s in states.values() if s.status in (WAITING, WORKING, READY)]
        share = sum(s.share for s in wanted) / max(len(wanted), 1)
        current = next((node for node in self._session.scans if states[node.GetID()].status == WORKING), None)
        what = "preparing scans" if current is None else f"preparing {current.GetName()}"
        return {"share": round(100 * share), "text": what}


def _give_memory_back() -> None:
    """Of a scan that has gone: maps lie in circles of references, and glibc keeps what embedding once needed."""
    gc.collect()
    if sys.platform == "linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # not in every C library
        if trim is not None:
            trim(0)


def _origin_of(source: Source) -> Origin:
    """Of a scan that could be read."""
    from AnatomicalEmbedding.scan.dicom import describe_series, is_dicom_file

    path = Path(source.path)
    if not source.series and not is_dicom_file(path):
        return UNKNOWN
    return origin_in(path, source.series or describe_series(path).uid)
