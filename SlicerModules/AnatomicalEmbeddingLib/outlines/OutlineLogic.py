"""The work of "Segment the rest like these": learns from the segmentations of a few scans and outlines other scans."""

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from AnatomicalEmbedding.errors import AnatomicalEmbeddingError, PointsError

from ..shared import Views
from ..shared.maps.Engine import Choice
from ..shared.processes.EngineProcess import EngineProcess, folderErrors, stopReason
from ..shared.SceneJob import Part, SceneJob, Steps
from ..shared.SceneNodes import fileNames
from ..shared.VolumeNodes import hasVoxels, snapshot
from . import OutlineNodes
from .OutlineFolder import OutlineFolder
from .OutlineNodes import labelsOf, outlinedScans, titlesAndColours

_SAVED = 0.05  # fraction of the progress bar for writing the files
# approximate seconds on two processor cores: for the training, and for each scan
_TRAINING = 120
_SCAN = 12
_PROGRESS = re.compile(r"^anatemb: (\d+) % (.*)$")
_SKIPPED = "anatemb: skipped: "


class OutlineProcess(EngineProcess):
    """Runs one command of the engine: the training on examples, or the outlining of scans.

    progress: finished fraction (0 to 1) and name of the current step. skipped: a sentence for each scan that could not
    be outlined. problem: a sentence that states why the command ended early; "" if it ended as planned.
    """

    def start(self, words: Sequence[str], folder: OutlineFolder, choice: Choice) -> None:
        """Start `anatemb segment` in a folder.

        Args:
            words: the arguments after `segment`.
            folder: the folder.
            choice: device and folder of maps.

        Raises:
            AnatomicalEmbeddingError: the process cannot be started.
            OSError: the folder cannot be used.
        """
        self.progress = (0.0, "starting")
        self.problem = ""
        self.skipped: list[str] = []
        # no folder: maps are not kept; an empty text: they are kept in the default folder
        environment = {"ANATEMB_CACHE": choice.cacheFolder} if choice.cacheFolder else {}
        cache = ["--no-cache"] if choice.cacheFolder is None else []
        self.begin(["segment", *words, "--device", choice.device, *cache], folder.path, environment)

    def onLine(self, line: str) -> None:
        progress = _PROGRESS.match(line)
        if progress is not None:
            self.progress = int(progress[1]) / 100, progress[2]
        elif line.startswith(_SKIPPED):
            self.skipped.append(line.removeprefix(_SKIPPED))

    def onEnded(self, code: int, lines: Sequence[str], stopped: bool) -> None:
        """Report the result of the command.

        Args:
            code, lines, stopped: as in `EngineProcess.onEnded`.
        """
        if stopped:
            self.problem = "Stopped; press Segment to continue the run."
        # the exit code is also nonzero if scans were skipped, which the last line says
        elif code and not (lines and "scans were skipped" in lines[-1]):
            self.problem = stopReason(code, lines)


class OutlineLogic(SceneJob):
    """Outlines scans in the background. A thread writes examples and scans to a folder. Then a separate process trains
    and outlines the scans. Each finished outline is added to the scene. To continue after a stop, start again with the
    same examples and the same folder.

    Signal changed(): a scan was outlined, or the work has begun or ended. Signal reported(sentence): a message to show.
    """

    def __init__(self, scene, pythonCommand: Sequence[str]) -> None:
        self.process = OutlineProcess(pythonCommand)
        super().__init__(scene)
        self.atEnd(self.process.close, self.cancel)
        self._ownViews = Views.OwnViews(scene)

    @property
    def busy(self) -> bool:
        """True while files are written or a process runs."""
        return super().busy or self.process.running

    def poll(self) -> None:
        """Continue the work, and draw outlines only in the views of their scans. Call `poll` a few times a second."""
        self._ownViews.follow()
        self.process.poll()
        super().poll()

    def stop(self) -> None:
        """Ask the process to save and end. Finished outlines are kept, and the work can be continued later."""
        if self.process.running:
            self.process.stop()  # `_outline` ends when the process has ended
            self.showProgress(self.progress[0], "stopping")
        else:
            self.cancel()

    def examplesAndRest(
        self, segmentations: Sequence, volumes: Sequence
    ) -> tuple[list[tuple], list]:
        """Return the examples as (volume, segmentation), and the volumes to outline: all other volumes with voxels.

        Raises PointsError if a segmentation cannot be an example, or if there is no example or no volume to outline.
        """
        if not segmentations:
            raise PointsError("Tick at least one segmentation as an example.")
        examples = outlinedScans(segmentations)
        outlined = [volume for volume, _segmentation in examples]
        remaining = [volume for volume in volumes if volume not in outlined and hasVoxels(volume)]
        if not remaining:
            raise PointsError(
                "The chosen scans are all examples; also choose the scans to outline."
            )
        return examples, remaining

    def segmentRest(
        self, segmentations: Sequence, volumes: Sequence, folder: str, choice: Choice
    ) -> bool:
        """Start to train on the segmentations, and to outline all other volumes.

        Args:
            segmentations: the examples, each drawn on a different scan.
            volumes: the scans; a scan on which an example was drawn is not outlined.
            folder: path of the working folder: new, empty, or from an earlier run.
            choice: weights, device and folder of maps.

        Returns:
            False if the work cannot start; `reported` then states the reason.
        """
        if self.busy:
            return False
        place = OutlineFolder(folder)
        try:
            self.process.requireReady()
            outlined, remaining = self.examplesAndRest(segmentations, volumes)
            ordered = [*(volume for volume, _ in outlined), *remaining]
            names = fileNames([volume.GetName() for volume in ordered])
            place.prepare(names)
        except AnatomicalEmbeddingError as error:
            self.reported.emit(str(error))
            return False
        for volume, segmentation in outlined:
            # otherwise outlines of all scans would cover each other
            Views.showOnlyIn(segmentation.GetDisplayNode(), self.scene, volume)
        # the first names are those of the examples
        examples = dict(zip(names, outlined, strict=False))
        scans = dict(zip(names[len(outlined) :], remaining, strict=True))
        self.start(self._outline(place, examples, scans, titlesAndColours(segmentations), choice))
        return True

    def _outline(
        self, folder: OutlineFolder, examples: Mapping, scans: dict, looks: Mapping, choice: Choice
    ) -> Steps:
        """Write examples and scans to `folder`, train a segmenter on the examples, and outline the scans with it.

        examples: file name -> (volume, segmentation). scans: file name -> volume. looks: structure -> (title, colour).
        """
        try:
            with folderErrors(folder.path):
                yield from self._save(folder, examples, scans)
                count = len(scans)
                waiting = dict(scans)  # without those whose outlines are in the scene
                # place on the progress bar at which the training ends
                trained = _SAVED + (1 - _SAVED) * _TRAINING / (_TRAINING + count * _SCAN)
                run = folder.run()
                words = ["train", str(folder.examples), "-o", str(run), "--model", choice.weights]
                self.process.start(words, folder, choice)
                yield from self._follow((_SAVED, trained))
                words = ["run", str(folder.scans), "--model", str(run)]
                words += ["-o", str(folder.results), "--no-report"]
                self.process.start(words, folder, choice)
                addNext = partial(self._addNext, folder, run, waiting, looks)
                yield from self._follow((trained, 1.0), addNext)
                while addNext():
                    yield
            summary = f"{count - len(waiting)} of {count} scans outlined"
            self.reported.emit(
                f"{summary}. First check the top rows of the table: they are the least certain."
            )
        finally:
            self.process.stop()

    def _save(self, folder: OutlineFolder, examples: Mapping, scans: dict) -> Steps:
        """Write all examples and scans. A scan that cannot be written is reported and removed from `scans`. Raises
        AnatomicalEmbeddingError if an example cannot be written, or if no scan is left."""
        volumes = {name: volume for name, (volume, _segmentation) in examples.items()} | scans
        for number, (name, volume) in enumerate(volumes.items()):
            part = (_SAVED * number / len(volumes), _SAVED * (number + 1) / len(volumes))
            try:
                copy = snapshot(volume)
                labels = labelsOf(*examples[name]) if name in examples else None
                write = partial(folder.write, name, copy, labels)
                yield from self.inBackground(
                    lambda *_, write=write: write(), [volume], part, "saving scans"
                )
            except AnatomicalEmbeddingError as error:
                if name in examples:
                    raise
                del scans[name]
                if not scans:
                    raise
                self.reported.emit(str(error))

    def _follow(self, part: Part, update: Callable[[], object] = lambda: None) -> Steps:
        """Show the progress of the process until it ends, waiting for the next poll. Then report skipped scans.

        Args:
            part: start and end of this step on the progress bar, from 0 to 1.
            update: called at every poll.

        Raises:
            AnatomicalEmbeddingError: the process was stopped or has failed.
        """
        process = self.process
        while process.running:
            update()
            if not process.stopping:
                self.showProgress(*process.progress, part)
            yield
        for sentence in process.skipped:
            self.reported.emit(sentence)
        if process.problem:
            raise AnatomicalEmbeddingError(process.problem)

    def _addNext(self, folder: OutlineFolder, run: Path, waiting: dict, looks: Mapping) -> bool:
        """Show outlines of a finished scan and remove the scan from `waiting`. Return False if no scan is finished."""
        name = next((name for name in folder.outlined(run) if name in waiting), None)
        if name is None:
            return False
        volume = waiting.pop(name)
        if volume.GetScene() is self.scene:
            try:
                OutlineNodes.addOutlines(self.scene, volume, folder, name, looks)
            except AnatomicalEmbeddingError as error:
                self.reported.emit(str(error))
            self.changed.emit()
        return True
