"""Segment the rest like these: learns from segmentations of a few scans and outlines the others, in the background."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from ..shared import Views
from ..shared.maps.Engine import Choice
from ..shared.maps.Worker import Worker
from ..shared.processes.EngineProcess import FAILED, FINISHED
from ..shared.Signal import Listener, Signal
from ..shared.VolumeNodes import hasVoxels, snapshot
from ..training.TrainingLog import signature
from . import OutlineNodes
from .OutlineExamples import OutlinedScan, looksOf, outlinedScans
from .OutlineFolder import TABLE, OutlineFolder, fileNames
from .OutlineProcess import OutlineProcess

_SAVING = 0.05  # of the whole, before the process starts


@dataclass(eq=False)
class _Batch:
    """files: name of each scan's files -> its volume. waiting: scans that are not written yet."""

    folder: OutlineFolder
    choice: Choice
    looks: dict
    files: dict[str, object]
    waiting: list[tuple[str, object, OutlinedScan | None]]
    total: int
    made: list[str] = field(default_factory=list)
    seen: tuple[int, int] | None = None  # state of the table of results whose outlines are all in the scene


class OutlineLogic(Listener):
    """changed(): a scan was outlined, or the work has begun or ended. reported(sentence): to be read.

    Scans and examples are written to a folder, in a background thread; a process learns and outlines; outlines come
    into the scene one by one. Starting again with the same examples and folder goes on where it stopped.
    """

    def __init__(self, scene, pythonCommand: Sequence[str]) -> None:
        self.scene = scene
        self.changed, self.reported = Signal(), Signal()
        self.process = OutlineProcess(pythonCommand)
        self.process.skipped.connect(self.reported.emit)
        self.process.finished.connect(self._onFinished)
        self._worker = Worker()
        self._batch: _Batch | None = None
        self._ownViews = Views.OwnViews(scene)
        self.observe(scene, scene.StartCloseEvent, lambda *_: self._forget())

    def close(self) -> None:
        """Stop, and stop observing; outlines stay in the scene, and what is on disk is gone on with next time."""
        self._batch = None
        self._worker.end()
        self.process.close()
        super().close()

    @property
    def busy(self) -> bool:
        return self._batch is not None or self.process.running

    @property
    def progress(self) -> tuple[float, str]:
        """Share done (0..1) and what is being done."""
        batch = self._batch
        if batch is None:
            return 1.0, "stopping" if self.process.running else ""
        if self.process.stopping:
            return self.process.progress[0], "stopping"
        if not self.process.running:
            return _SAVING * (1 - len(batch.waiting) / batch.total), "saving scans"
        share, what = self.process.progress
        if self.process.outlining:
            what = f"outlining {batch.files[what].GetName() if what in batch.files else what}"
        return _SAVING + (1 - _SAVING) * share, what or "learning"

    def rest(self, segmentations: Sequence, volumes: Sequence) -> list:
        """The volumes that are to be outlined: all but those of the examples, and but those without voxels.

        Raises PointsError for segmentations that are no examples.
        """
        own = [each.volume for each in outlinedScans(segmentations)]
        return [volume for volume in volumes if volume not in own and hasVoxels(volume)]

    def start(self, segmentations: Sequence, volumes: Sequence, folder: str, choice: Choice) -> bool:
        """Learn from segmentations, each on its own scan, and outline the rest of the volumes.

        folder: for files, new or of an earlier run. choice: weights, device and folder of maps. False where nothing
        could be started, which `reported` states.
        """
        from AnatomicalEmbedding.errors import AnatomicalEmbeddingError, PointsError

        if self.busy:
            return False
        place = OutlineFolder(folder)
        try:
            self.process.requireReady()
            examples, rest = outlinedScans(segmentations), self.rest(segmentations, volumes)
            if not examples:
                raise PointsError("Tick the segmentations that show what to outline.")
            if not rest:
                raise PointsError("The chosen scans are all examples; choose others to be outlined.")
            if problem := place.problem():
                raise AnatomicalEmbeddingError(problem)
            scans = [each.volume for each in examples] + rest
            names = fileNames([volume.GetName() for volume in scans])
            place.prepare(names)
        except (AnatomicalEmbeddingError, OSError) as error:
            self.reported.emit(_sentence(error, folder))
            return False
        for each in examples:
            if each.segmentation.GetDisplayNode() is not None:  # other scans get outlines of the same colours
                Views.showOnlyIn(each.segmentation.GetDisplayNode(), self.scene, each.volume)
        waiting = list(zip(names, scans, [*examples, *[None] * len(rest)], strict=True))
        files = dict(zip(names[len(examples) :], rest, strict=True))
        self._batch = _Batch(place, choice, looksOf(segmentations), files, waiting, len(waiting))
        self.changed.emit()
        return True

    def cancel(self) -> None:
        """Stop; outlines that were made stay, and the same start goes on."""
        if self._batch is not None and not self.process.running:
            self._end()
        else:
            self.process.stop()

    def _forget(self) -> None:
        """The scene is closing."""
        self._batch = None
        self._worker.cancel()
        self.process.stop()

    def poll(self) -> None:
        """To be called a few times a second: goes on, and lets outlines follow views."""
        self._ownViews.follow()
        self.process.poll()
        if self._batch is None:
            return
        if self.process.running:
            written = signature(self._batch.folder.results / TABLE)
            if self.process.outlining and written != self._batch.seen and not self._take():
                self._batch.seen = written
            return
        for event in self._worker.poll():
            if event.kind == "failed":
                self.reported.emit(event.what)
                if self._batch.files.pop(event.key, None) is None or not self._batch.files:
                    self._end()  # an example, or the last scan to be outlined
                    return
        if not self._worker.busy:
            self._saveNext()

    def _saveNext(self) -> None:
        """Write the next scan, or start the process after the last."""
        from AnatomicalEmbedding.errors import AnatomicalEmbeddingError

        batch = self._batch
        if batch.waiting:
            name, volume, example = batch.waiting.pop(0)
            if self.scene.GetNodeByID(volume.GetID()) is not volume:
                self._end(f"{name}: has left the scene; start again.")
                return
            try:
                scan = snapshot(volume)
                labels = example.labels() if example is not None else None
            except AnatomicalEmbeddingError as error:
                self._end(str(error))
                return
            if labels is None:
                self._worker.submit(name, lambda *_: batch.folder.writeScan(name, scan))
            else:
                self._worker.submit(name, lambda *_: batch.folder.writeExample(name, scan, *labels))
            return
        options = ["--device", batch.choice.device]
        options += ["--no-cache"] if batch.choice.cacheFolder is None else []
        environment = {"ANATEMB_CACHE": batch.choice.cacheFolder} if batch.choice.cacheFolder else {}
        try:
            self.process.start(batch.folder, len(batch.files), options, batch.choice.weights, environment)
        except (AnatomicalEmbeddingError, OSError) as error:
            self._end(_sentence(error, str(batch.folder.path)))

    def _take(self) -> bool:
        """Bring the next outlines that were written into the scene; False where there are none."""
        from AnatomicalEmbedding.errors import AnatomicalEmbeddingError

        batch = self._batch
        left = [name for name in batch.files if name not in batch.made]
        name = next((name for name in left if batch.folder.isOutlined(name, self.process.run)), None)
        if name is None:
            return False
        batch.made.append(name)
        volume = batch.files[name]
        if self.scene.GetNodeByID(volume.GetID()) is volume:
            try:
                OutlineNodes.bringIn(self.scene, volume, batch.folder, name, batch.looks)
            except AnatomicalEmbeddingError as error:
                self.reported.emit(str(error))
            self.changed.emit()
        return True

    def _onFinished(self, outcome: str, sentence: str) -> None:
        if self._batch is None:
            return
        if outcome == FINISHED:
            while self._take():
                pass
            made, of = len(self._batch.made), len(self._batch.files)
            sentence = f"{made} of {of} scans outlined; look at those on top of the table first."
        self._end(sentence if outcome in (FINISHED, FAILED) else "Stopped; Segment goes on where it stopped.")

    def _end(self, sentence: str = "") -> None:
        self._worker.cancel()
        self._batch = None
        if sentence:
            self.reported.emit(sentence)
        self.changed.emit()


def _sentence(error: Exception, folder: str) -> str:
    if isinstance(error, OSError):
        return f"{folder}: {(error.strerror or 'cannot be used').lower()}; choose another folder."
    return str(error)
