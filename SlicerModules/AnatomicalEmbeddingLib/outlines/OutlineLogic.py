"""Segment the rest like these: learns from segmentations of a few scans and outlines the others, in the background."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from AnatomicalEmbedding.errors import AnatomicalEmbeddingError, PointsError

from ..shared import Views
from ..shared.maps.Engine import Choice
from ..shared.SceneJob import SceneJob, Steps
from ..shared.VolumeNodes import hasVoxels, snapshot
from . import OutlineNodes
from .OutlineFolder import OutlineFolder, fileNames
from .OutlineNodes import OutlinedScan, outlinedScans, titlesAndColours
from .OutlineProcess import SECONDS_A_SCAN, TRAINING_SECONDS, OutlineProcess

_SAVED = 0.05  # share of the progress, when the process starts


class OutlineLogic(SceneJob):
    """changed(): a scan was outlined, or the work has begun or ended. reported(sentence): to be read.

    Scans and examples are written to a folder, in a background thread; a process learns and outlines; outlines come
    into the scene one by one. The same examples and folder again: the work continues where it stopped.
    """

    def __init__(self, scene, pythonCommand: Sequence[str]) -> None:
        self.process = OutlineProcess(pythonCommand)
        super().__init__(scene)
        self.atEnd(self.process.close, self.cancel)
        self._ownViews = Views.OwnViews(scene)

    @property
    def busy(self) -> bool:
        """Is anything saved, learned or outlined, or a process not ended yet?"""
        return super().busy or self.process.running

    def poll(self) -> None:
        """Continue, and let outlines follow views; to be called a few times a second."""
        self._ownViews.follow()
        self.process.poll()
        super().poll()

    def stop(self) -> None:
        """Let the process save and end; outlines that were made stay, and the same start continues."""
        if self.process.running:
            self.process.stop()  # `_outline` ends with the process
            self.showProgress(self.progress[0], "stopping")
        else:
            self.cancel()

    def rest(self, segmentations: Sequence, volumes: Sequence) -> list:
        """The volumes to be outlined: all with voxels that are not the scan of an example.

        Raises PointsError for segmentations that are no examples.
        """
        own = [each.volume for each in outlinedScans(segmentations)]
        return [volume for volume in volumes if volume not in own and hasVoxels(volume)]

    def segmentRest(self, segmentations: Sequence, volumes: Sequence, folder: str, choice: Choice) -> bool:
        """Learn from segmentations, each on its own scan, and outline the rest of the volumes.

        Args:
            folder: for files, new or of an earlier run.
            choice: weights, device and folder of maps.

        Returns:
            False where it cannot start; `reported` states why.
        """
        if self.busy:
            return False
        place = OutlineFolder(folder)
        try:
            self.process.requireReady()
            examples, rest = outlinedScans(segmentations), self.rest(segmentations, volumes)
            if not examples:
                raise PointsError("Tick the segmentations to learn from.")
            if not rest:
                raise PointsError("The chosen scans are all examples; choose others to be outlined.")
            names = fileNames([volume.GetName() for volume in [*(each.volume for each in examples), *rest]])
            place.prepare(names)
        except AnatomicalEmbeddingError as error:
            self.reported.emit(str(error))
            return False
        except OSError as error:
            self.reported.emit(_folderProblem(place, error))
            return False
        for each in examples:
            if each.segmentation.GetDisplayNode() is not None:  # other scans get outlines of the same colours
                Views.showOnlyIn(each.segmentation.GetDisplayNode(), self.scene, each.volume)
        named = dict(zip(names, [*examples, *rest], strict=True))
        self.start(self._outline(place, named, titlesAndColours(segmentations), choice))
        return True

    def _outline(
        self, folder: OutlineFolder, named: Mapping[str, object], looks: Mapping, choice: Choice
    ) -> Steps[None]:
        """named: by name of its files, each example (OutlinedScan) and each volume to be outlined."""
        try:
            volumes = yield from self._save(folder, named)
            total = TRAINING_SECONDS + len(volumes) * SECONDS_A_SCAN
            trained = _SAVED + (1 - _SAVED) * TRAINING_SECONDS / total
            run = folder.run()
            cache = [] if choice.cacheFolder is not None else ["--no-cache"]
            options = ["--device", choice.device, *cache]
            environment = {"ANATEMB_CACHE": choice.cacheFolder} if choice.cacheFolder else {}
            most = [] if self.process.mostMinutes is None else ["--minutes", f"{self.process.mostMinutes:g}"]
            words = ["segment", "train", str(folder.examples), "-o", str(run), "--model", choice.weights, *most]
            self.process.start([*words, *options], folder.path, environment)
            while self.process.running:
                if not self.process.stopping:
                    self.showProgress(self.process.share, self.process.text or "learning", (_SAVED, trained))
                yield
            self._requireEnded()
            words = ["segment", "run", str(folder.scans), "--model", str(run), "-o", str(folder.results), "--no-report"]
            self.process.start([*words, *options], folder.path, environment)
            left = dict(volumes)
            while self.process.running:
                self._addNext(folder, folder.outlined(run), left, looks)
                volume = volumes.get(self.process.name)
                if not self.process.stopping:
                    title = f"outlining {'' if volume is None else volume.GetName()}"
                    self.showProgress(self.process.share, title, (trained, 1.0))
                yield
            self._requireEnded()
            while self._addNext(folder, folder.outlined(run), left, looks):
                yield
            made = len(volumes) - len(left)
            self.reported.emit(f"{made} of {len(volumes)} scans outlined; check the first rows of the table first.")
        except OSError as error:
            raise AnatomicalEmbeddingError(_folderProblem(folder, error)) from None
        finally:
            self.process.stop()

    def _save(self, folder: OutlineFolder, named: Mapping[str, object]) -> Steps[dict[str, object]]:
        """Write all scans; returns the volumes to be outlined, by name, without volumes that cannot be written."""
        volumes = {name: each for name, each in named.items() if not isinstance(each, OutlinedScan)}
        for number, (name, each) in enumerate(named.items()):
            example = each if isinstance(each, OutlinedScan) else None
            volume = each if example is None else example.volume
            try:
                scan = snapshot(volume)
                labels = () if example is None else example.labels()
                part = (_SAVED * number / len(named), _SAVED * (number + 1) / len(named))
                work = _writing(folder, name, scan, labels)
                yield from self.inBackground(work, [volume], part, "saving scans")
            except AnatomicalEmbeddingError as error:
                volumes.pop(name, None)
                if example is not None or not volumes:
                    raise
                self.reported.emit(str(error))
        return volumes

    def _requireEnded(self) -> None:
        """Report skipped scans; raise AnatomicalEmbeddingError where the process was stopped or has failed."""
        for sentence in self.process.skipped:
            self.reported.emit(sentence)
        if self.process.problem:
            raise AnatomicalEmbeddingError(self.process.problem)

    def _addNext(self, folder: OutlineFolder, outlined: Sequence[str], left: dict, looks: Mapping) -> bool:
        """Add the next written outlines to the scene, and remove their scan from `left`; False without new outlines."""
        name = next((name for name in outlined if name in left), None)
        if name is None:
            return False
        volume = left.pop(name)
        if volume.GetScene() is self.scene:
            try:
                OutlineNodes.addOutlines(self.scene, volume, folder, name, looks)
            except AnatomicalEmbeddingError as error:
                self.reported.emit(str(error))
            self.changed.emit()
        return True


def _writing(folder: OutlineFolder, name: str, scan, labels: tuple):
    return lambda *_: folder.write(name, scan, *labels)


def _folderProblem(folder: OutlineFolder, error: OSError) -> str:
    return f"{folder.path}: {(error.strerror or 'cannot be used').lower()}; choose another folder."
