"""Aligning a moving volume with a fixed one: prepares both, registers them in the background, moves the volume."""

from __future__ import annotations

from dataclasses import dataclass

from AnatomicalEmbedding.registration import COARSE, DEFORMABLE

from ..shared import Views
from ..shared.maps.MapStore import FAILED, READY, WAITING, WORKING, MapStore
from ..shared.maps.Worker import Worker
from ..shared.Signal import Signal
from ..shared.VolumeNodes import snapshot
from .AlignmentJob import Outcome, alignmentWork
from .AlignmentNodes import addResampled, align, alignmentOf, undoAlignment, whyNotInto

_PREPARING = 0.5  # share of the progress, where a scan is not prepared
_JOB = "align"


@dataclass(eq=False)
class _Task:
    """fixed, moving: volume nodes. transform: node to write to, None for a new one. begun: volumes whose embedding was
    started for it. maps: of both, once the registration has begun.
    """

    fixed: object
    moving: object
    kind: str
    transform: object
    resample: bool
    begun: list
    maps: tuple | None = None
    share: float = 0.0
    what: str = "preparing the scans"

    @property
    def volumes(self) -> tuple:
        return self.fixed, self.moving


class AlignmentLogic:
    """One alignment at a time. changed(): something to show has changed. reported(sentence): why there is no result."""

    def __init__(self, scene, store: MapStore) -> None:
        self.scene, self.store = scene, store
        self.changed, self.reported = Signal(), Signal()
        self._worker = Worker()
        self._task: _Task | None = None

    @property
    def busy(self) -> bool:
        return self._task is not None

    @property
    def progress(self) -> tuple[float, str]:
        """Share done (0..1) and what is being done."""
        task = self._task
        if task is None:
            return 1.0, ""
        if task.maps is None:
            shares = [self.store.state(node).share for node in task.volumes]
            return _PREPARING * sum(shares) / 2, task.what
        return (_PREPARING + (1 - _PREPARING) * task.share if task.begun else task.share), task.what

    def problem(self, fixedNode, movingNode, kind: str, transformNode=None) -> str:
        """Why these cannot be aligned, a sentence with the remedy; "" where nothing is known against it."""
        if fixedNode is None or movingNode is None:
            return "Load two CTs, or choose a fixed and a moving scan."
        if fixedNode is movingNode:
            return f"{fixedNode.GetName()}: is chosen as fixed and as moving; choose another scan for one of them."
        if transformNode is None:
            return ""
        return whyNotInto(transformNode, fixedNode, movingNode, kind in (COARSE, DEFORMABLE))

    def start(self, fixedNode, movingNode, kind: str = DEFORMABLE, transformNode=None, resample: bool = False) -> bool:
        """Align the moving volume with the fixed one; scans that are not prepared are prepared first.

        kind: "rigid", "affine", "coarse" or "deformable". transformNode: whose content is replaced, None for a new one.
        resample: also make a volume on the fixed one's voxels. False where it cannot start, which `reported` states.
        """
        self.cancel()
        problem = self.problem(fixedNode, movingNode, kind, transformNode)
        if problem:
            self.reported.emit(problem)
            return False
        begun = self.store.request((fixedNode, movingNode))
        self._task = _Task(fixedNode, movingNode, kind, transformNode, resample, begun)
        self.changed.emit()
        return True

    def cancel(self) -> None:
        """Stop; nothing stays, not even scans half prepared for it."""
        task, self._task = self._task, None
        if task is not None:
            self._worker.cancel()
            self.store.cancel([node for node in task.begun if self._isWorkedOn(node)])
            self.changed.emit()

    def poll(self) -> None:
        """To be called a few times a second, after the store's: goes on, and takes over what was found."""
        if self._task is not None:
            self._goOn(self._task)
        for event in self._worker.poll():
            task = self._task
            if event.kind == "failed":
                self._stop(event.what)
                continue
            if event.kind == "done":
                self._task = None
                self._finish(task, event.result)
            else:
                task.share, task.what = event.share, event.what
            self.changed.emit()

    def undo(self, volumeNode) -> None:
        """Put an aligned volume back to where it was; does nothing with others."""
        if alignmentOf(volumeNode) is not None:
            undoAlignment(volumeNode)
            Views.fit(self.scene, volumeNode)
            self.changed.emit()

    def close(self) -> None:
        """Cancel and let the thread end."""
        self.cancel()
        self._worker.end()

    def _goOn(self, task: _Task) -> None:
        """Stop where a scan has gone or changed; begin to register once both are prepared."""
        for node in task.volumes:
            why = self._obstacle(node)
            if why:
                self._stop(why)
                return
            if self.store.state(node).status == WORKING:
                task.what = f"preparing {node.GetName()}"
        maps = tuple(self.store.map(node) for node in task.volumes)
        if task.maps is None and None not in maps:
            task.maps = maps
            fixed, moving = (snapshot(node) for node in task.volumes)
            self._worker.submit(_JOB, alignmentWork((fixed, moving), maps, task.kind, self.store.engine, task.resample))
        elif task.maps is not None and any(now is not then for now, then in zip(maps, task.maps, strict=True)):
            self._stop(f"{task.fixed.GetName()} or {task.moving.GetName()} was changed meanwhile; align again.")

    def _obstacle(self, node) -> str:
        """Why nothing will come of this scan, as a sentence; "" where it is prepared or will be."""
        name, state = node.GetName(), self.store.state(node)
        if node.GetScene() is not self.scene:
            return f"{name}: was removed; choose another scan."
        if state.status == FAILED:
            return state.sentence if name in state.sentence else f"{name}: {state.sentence}"
        if state.status == READY or self._isWorkedOn(node):
            return ""
        return f"{name}: was changed, or its preparation stopped; align again."

    def _finish(self, task: _Task, outcome: Outcome) -> None:
        """Put the result into the scene."""
        chosen = task.transform if task.transform is not None and task.transform.GetScene() is self.scene else None
        transform = align(self.scene, outcome.registration, task.fixed, task.moving, chosen)
        transform.SetDescription(outcome.text)
        Views.fit(self.scene, task.moving)  # it may have moved by a metre, out of its own views
        if outcome.resampled is not None:
            addResampled(self.scene, outcome.resampled, task.fixed, task.moving)

    def _stop(self, sentence: str) -> None:
        self.cancel()
        self.reported.emit(sentence)

    def _isWorkedOn(self, node) -> bool:
        return self.store.state(node).status in (WAITING, WORKING)
