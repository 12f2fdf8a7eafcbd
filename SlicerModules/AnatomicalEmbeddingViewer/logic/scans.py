"""The scans of the session. They are read in the background and added as volume nodes. One scan is the template."""

from __future__ import annotations

import gc
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import count
from typing import TYPE_CHECKING

import numpy as np
import slicer.util

from AnatomicalEmbeddingLib.shared import SceneNodes
from AnatomicalEmbeddingLib.shared.CtWindow import setWindow
from AnatomicalEmbeddingLib.shared.maps.MapStore import FAILED, READY, WAITING, WORKING
from AnatomicalEmbeddingLib.shared.maps.Worker import Worker

if TYPE_CHECKING:
    from AnatomicalEmbedding.scan.volume import Volume

    from .session import Session

# its argument returns True after the user has cancelled
Reader = Callable[[Callable[[], bool]], "list[Volume]"]
_STATUS_TEXTS = {WAITING: "waiting", READY: "ready", FAILED: "cannot be used"}
_NAME_LIMIT = 80  # largest number of characters in a name
_DEMO_SPACING_MM = (2.0, 2.0, 2.5)  # by hand, for scans that are made quickly
# Synthetic patients: (seed, (lowest, highest body height, mm)). A: from sacrum to neck. B: starts above the pelvis
_DEMO = {"Patient A": (20_001, (120.0, 600.0)), "Patient B": (20_002, (190.0, 600.0))}


class Scans:
    """Reads, adds and removes scans. Sets values of the page: `scans` (the list), `unprepared` (True if a map is
    missing) and `work` (the progress bar; {} while no work runs).

    report: called with an error message for the terminal if a scan cannot be read. The page shows this message too.
    """

    def __init__(self, session: Session, report: Callable[[str], None]) -> None:
        self._session = session
        self._report = report
        self._worker = Worker()
        # by number: name, function to call at the end
        self._jobs: dict[int, tuple[str, Callable[[], object]]] = {}
        self._job_numbers = count()
        session.on_close(self._worker.end)

    def read(self, name: str, reader: Reader, done: Callable[[], object] = lambda: None) -> None:
        """Run `reader` in the background, then add the scans that `reader` returns.

        Args:
            name: name of the work in the progress bar.
            reader: reader(cancelled) returns the scans; cancelled() returns True after the user has cancelled.
            done: called after the scans are added, and also if the reader failed or was cancelled.
        """
        number = next(self._job_numbers)
        self._jobs[number] = name, done
        self._worker.submit(number, lambda _progress, cancelled: reader(cancelled))

    def read_demo(self) -> None:
        """Add two synthetic patients, so that users can try the viewer without data."""
        for name, (seed, heights_mm) in _DEMO.items():
            self.read(name, partial(_make_patient, name, seed, heights_mm))

    def _add(self, volume: Volume) -> None:
        """Add a volume node for a scan. If the session has no template, the volume node becomes the template."""
        from AnatomicalEmbedding.reports.pictures import choose_window
        from AnatomicalEmbedding.scan.volume import Film

        session = self._session
        name = SceneNodes.freeName(session.scene, volume.name or "scan")
        node = slicer.util.addVolumeFromArray(
            volume.voxels, np.asarray(volume.ijk_to_ras), name=name
        )
        SceneNodes.placeUnderPatient(session.scene, node, volume.patient_id)
        node.CreateDefaultDisplayNodes()
        node.GetDisplayNode().SetAndObserveColorNodeID("vtkMRMLColorTableNodeGrey")
        node.GetDisplayNode().SetAutoWindowLevel(False)
        if isinstance(volume, Film):
            window = choose_window(volume, np.zeros(3))
            setWindow([node], window.width, window.centre)
        for note in volume.notes:
            session.report(f"{name}: {note}.")
        session.scans.append(node)
        if session.template is None:
            session.template = node
        session.scans_changed.emit()
        session.store.request([node])

    def remove(self, scan_id: str) -> None:
        """Remove a scan. The other features remove the points, boxes and views of the scan."""
        session = self._session
        node = self._session.scan(scan_id)
        if node is None:
            return
        session.scan_leaves.emit(node)
        session.scans.remove(node)
        if session.template is node:
            session.template = session.scans[0] if session.scans else None
        session.scans_changed.emit()
        SceneNodes.removeNode(session.scene, node)
        del node
        gc.collect()  # maps are in reference cycles, and take much memory

    def choose_template(self, scan_id: str) -> None:
        node = self._session.scan(scan_id)
        if node is not None and node is not self._session.template:
            self._session.template = node
            self._session.scans_changed.emit()

    def rename(self, scan_id: str, name: str) -> None:
        node = self._session.scan(scan_id)
        name = " ".join(name.split())[:_NAME_LIMIT]
        if node is not None and name and name != node.GetName():
            node.SetName(SceneNodes.freeName(self._session.scene, name))
            self._session.scans_changed.emit()

    def prepare(self) -> None:
        """Embed all scans that have no map, for example after the user has cancelled, or after an error."""
        self._session.store.request(self._session.scans)

    def cancel(self) -> None:
        """Stop reading and embedding, but keep the maps that are finished."""
        for number in self._worker.cancel():
            _name, done = self._jobs.pop(number)
            done()
        self._session.store.cancel()

    def poll(self) -> None:
        """Add the scans that were read since the last call, and poll the map store."""
        for event in self._worker.poll():
            if event.kind == "progress":
                continue
            _name, done = self._jobs.pop(event.key)
            if event.kind == "failed":
                self._session.report(event.message)
                self._report(event.message)
            try:
                for volume in event.result or ():
                    self._add(volume)
            finally:
                done()
        self._session.store.poll()
        self._session.relations.poll()

    def publish(self, state) -> None:
        session = self._session
        states = {node.GetID(): session.store.state(node) for node in session.scans}
        state.scans = [self._row(node, states[node.GetID()]) for node in session.scans]
        state.unprepared = any(
            scan_state.status in ("empty", FAILED) for scan_state in states.values()
        )
        state.work = self._work(states)

    def _row(self, node, scan_state) -> dict:
        text = "not prepared"
        if scan_state.status == WORKING:
            text = f"{100 * scan_state.share:.0f} %"
        size = " × ".join(map(str, node.GetImageData().GetDimensions()))
        spacing = " × ".join(f"{mm:.3g}" for mm in node.GetSpacing())
        notes = ()
        if scan_state.embedding is not None:
            notes = (*scan_state.embedding.notes, *scan_state.embedding.faults)
        return {
            "id": node.GetID(),
            "name": node.GetName(),
            "size": f"{size} voxels of {spacing} mm",
            "template": node is self._session.template,
            "status": scan_state.status,
            "text": _STATUS_TEXTS.get(scan_state.status, text),
            "sentence": scan_state.sentence,
            "notes": "; ".join(notes),
        }

    def _work(self, states: dict) -> dict:
        """Return the progress bar: "share", in percent, and "text"; {} if no scan is being read or prepared."""
        if self._jobs:
            names = [name for name, _done in self._jobs.values()]
            more = f" and {len(names) - 1} more" if len(names) > 1 else ""
            return {"share": 0, "text": f"reading {names[0]}{more}"}
        if not self._session.store.busy:
            return {}
        shares = []
        current = "scans"
        for node in self._session.scans:
            scan_state = states[node.GetID()]
            if scan_state.status in (WAITING, WORKING, READY):
                shares.append(scan_state.share)
            if scan_state.status == WORKING:
                current = node.GetName()
        share = sum(shares) / max(len(shares), 1)
        return {"share": round(100 * share), "text": f"preparing {current}"}


def _make_patient(
    name: str, seed: int, heights_mm: tuple[float, float], _cancelled: Callable[[], bool]
) -> list[Volume]:
    from AnatomicalEmbedding.phantom import make_phantom

    phantom = make_phantom(seed, spacing=_DEMO_SPACING_MM, coverage_mm=heights_mm)
    return [replace(phantom.volume, name=name)]
