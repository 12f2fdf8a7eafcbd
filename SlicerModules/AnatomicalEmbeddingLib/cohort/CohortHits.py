"""Reads scans of a cohort into the scene, in the background, and shows the place that was found in each scan."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import slicer.util

from AnatomicalEmbedding.errors import AnatomicalEmbeddingError

from ..shared import Views
from ..shared.Markers import Markers
from ..shared.SceneJob import SceneJob, Steps
from ..shared.SceneNodes import freeName, placeUnderPatient
from ..shared.VolumeNodes import ctVolumes, toWorld
from .CohortPlaces import CohortPlace, readPlaces

if TYPE_CHECKING:
    from AnatomicalEmbedding.scan.volume import Volume

_SCAN = "AnatomicalEmbedding.CohortScan"  # attribute of a volume node: file or folder from which it was read
_ACROSS_MM = 250.0  # largest field of view: length of the view's shorter side, mm
_COLOUR = (1.0, 0.82, 0.2)  # of the place in the views; by eye


class CohortHits(SceneJob):
    """The places in a table that `anatemb cohort find` wrote, and their scans in the scene.

    Signal changed(): emitted when the places have changed or a scan is shown. places: the places of the opened table,
    one for each scan that shows the place. absent: number of scans that do not show the place. loading: the place whose
    scan is being read, or None. layOut(volumeNode): shows a volume next to the visible volumes; returns False if no
    volume is visible or there is no window.
    """

    def __init__(self, scene) -> None:
        super().__init__(scene)
        self.places: list[CohortPlace] = []
        self.absent = 0
        self.loading: CohortPlace | None = None
        self.layOut: Callable[[object], bool] = lambda _volumeNode: False
        self._shown = None  # the cohort scan shown last; the next scan replaces it in the views
        self.markers = Markers(scene, "Place in a cohort", _COLOUR)
        self.observe(scene, scene.StartCloseEvent, lambda *_: self._forgetAll())
        self.atEnd(self._forgetAll)

    def open(self, path: str | Path) -> None:
        """Read a table of places. If this fails, `reported` states the reason, and `places` does not change."""
        try:
            places = readPlaces(path)
        except AnatomicalEmbeddingError as error:
            self.reported.emit(str(error))
            return
        self.cancel()
        self.places = [place for place in places if place.place is not None]
        self.absent = len(places) - len(self.places)
        self.changed.emit()

    def show(self, hit: CohortPlace) -> None:
        """Show a place in its scan. If the scan is not in the scene, the scan is read first."""
        self.cancel()
        for volume in ctVolumes(self.scene):
            if volume.GetAttribute(_SCAN) == hit.scan:
                self._showAt(volume, hit)
                return
        self.loading = hit
        self.start(self._load(hit))

    def poll(self) -> None:
        """Continue to read a scan, and draw each mark in the views of its scan. Call this a few times a second."""
        super().poll()
        self.markers.follow()

    def _load(self, hit: CohortPlace) -> Steps[None]:
        """Read the scan of a place in the background, add it to the scene, and show the place."""
        try:
            volume = yield from self.inBackground(lambda *_: _read(hit.scan))
        finally:
            self.loading = None
            self.changed.emit()
        self._showAt(self._added(hit, volume), hit)

    def _added(self, hit: CohortPlace, volume: Volume):
        """Add a scan of the cohort to the scene. Returns its volume node."""
        node = self.scene.AddNewNodeByClass(
            "vtkMRMLScalarVolumeNode", freeName(self.scene, hit.name)
        )
        slicer.util.updateVolumeFromArray(node, volume.voxels)
        node.SetIJKToRASMatrix(slicer.util.vtkMatrixFromArray(volume.ijk_to_ras))
        node.SetAttribute(_SCAN, hit.scan)
        placeUnderPatient(self.scene, node, volume.patient_id)
        node.CreateDefaultDisplayNodes()
        return node

    def _showAt(self, node, hit: CohortPlace) -> None:
        """Move the views of the volume `node` to the place `hit`, and mark this place.

        If no view shows the volume, the volume replaces the scan of the cohort that was shown last. If no view shows
        that scan either, the volume is shown next to the visible volumes, or in all views if that is not possible.
        """
        if not Views.viewsOf(self.scene, node):
            before = self._shown
            # a removed scan is in no view
            isReplaced = before is not None and bool(Views.viewsOf(self.scene, before))
            isLaidOut = not isReplaced and self.layOut(node)
            if not isLaidOut:
                Views.show(self.scene, node, before if isReplaced else None)
        self._shown = node
        world = toWorld(node, hit.place)[0]
        Views.jump(self.scene, node, world, atMostMm=_ACROSS_MM)
        self.markers.put(node, world)
        self.changed.emit()

    def _forgetAll(self) -> None:
        """Remove the marks from the scene and forget the scans. The list of places is kept."""
        self._shown = None
        self.markers.clear()
        self.changed.emit()


def _read(scan: str) -> Volume:
    from AnatomicalEmbedding.scan.sources import read_scan

    return read_scan(scan)
