"""Keeps the maps of the volumes in a scene. Maps are made in the background and removed when they are out of date."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import vtk

from AnatomicalEmbedding.errors import AnatomicalEmbeddingError

from ..Signal import Listener, Signal
from ..VolumeNodes import contentKey, films, scans, snapshot
from .Engine import Choice, Engine
from .Worker import Worker, waitForEnded

if TYPE_CHECKING:
    from AnatomicalEmbedding.embedding.map import EmbeddingMap

EMPTY = "empty"
WAITING = "waiting"
WORKING = "working"
READY = "ready"
FAILED = "failed"


@dataclass(frozen=True, eq=False)
class MapState:
    """The map of one volume, and the state of the work on this map. status: EMPTY, WAITING, WORKING, READY or FAILED.
    share: finished fraction of the work, 0 to 1. step: name of the current step. sentence: why the work has failed.
    content: `contentKey` of the volume. embedding: the map; None unless READY.
    """

    status: str = EMPTY
    share: float = 0.0
    step: str = ""
    sentence: str = ""
    content: tuple | None = None
    embedding: EmbeddingMap | None = None


class MapStore(Listener):
    """The maps of the volumes of a scene. Signal changed(volumeId): the state of a volume has changed.

    A map is removed, and the work on the map cancelled, if the volume is removed from the scene, if the voxels or the
    geometry of the volume change, or if other weights are chosen. While `busy`, call `poll` a few times a second.
    """

    def __init__(self, scene, engine: Engine | None = None) -> None:
        self.scene = scene
        self.engine = engine or Engine()
        self.changed = Signal()
        self._worker = Worker()
        self._states: dict[str, MapState] = {}
        self._waiting: list[str] = []  # IDs of volumes, in the order of the work
        self._kept: set[str] = set()  # IDs of volumes whose maps are only read from the disk
        # True until the maps of a loaded scene have been requested
        self._wasLoaded = bool(scene.GetURL())
        self.observe(scene, scene.NodeRemovedEvent, self._onScene)
        self.observe(scene, scene.StartCloseEvent, self._onScene)
        self.observe(scene, scene.EndImportEvent, self._onImported)

    @property
    def busy(self) -> bool:
        """True while a scan waits or is being embedded."""
        return bool(self._waiting) or self._worker.busy

    def state(self, volumeNode) -> MapState:
        """Return the state of a volume's map. Its status is EMPTY if the volume has changed since `request`."""
        state = self._states.get(volumeNode.GetID())
        if state is None or state.content != contentKey(volumeNode):
            return MapState()
        return state

    def map(self, volumeNode) -> EmbeddingMap | None:
        """Return the map of a volume; None if the map is not ready."""
        return None if volumeNode is None else self.state(volumeNode).embedding

    def isOwnKind(self, volumeNode) -> bool:
        """True if the map of a volume was made with weights of the kind "any"; its voxels are then no HU."""
        embedding = self.map(volumeNode)
        return embedding is not None and embedding.is_own_kind

    def request(self, volumeNodes: Iterable, retry: bool = True, onlyKept: bool = False) -> list:
        """Start to embed the volumes that have no map. Returns the volumes that this call has put into the queue.

        Args:
            volumeNodes: the volumes.
            retry: True to also embed volumes whose embedding failed before.
            onlyKept: True to only read maps that are on the disk.
        """
        started = []
        passed = (WAITING, WORKING, READY) if retry else (WAITING, WORKING, READY, FAILED)
        for node in volumeNodes:
            if not onlyKept:  # also if the map is read from the disk now
                self._kept.discard(node.GetID())
            if self.state(node).status in passed:
                continue
            if onlyKept:
                self._kept.add(node.GetID())
            self._stop({node.GetID()})  # of earlier voxels
            self._set(node.GetID(), MapState(WAITING, content=contentKey(node)))
            problem = self.engine.problem()
            if problem is not None:
                self._update(node.GetID(), status=FAILED, sentence=problem)
                continue
            self._waiting.append(node.GetID())
            started.append(node)
        self._advance()
        return started

    def _advance(self) -> None:
        """Start to embed the next volume if no volume is being embedded. Only this volume is copied, to save memory."""
        while self._waiting and not self._worker.busy:
            self._start(self.scene.GetNodeByID(self._waiting.pop(0)))

    def _start(self, node) -> None:
        """Copy a volume, and embed the copy in the background."""
        try:
            copy = snapshot(node)
        except AnatomicalEmbeddingError as error:
            self._update(node.GetID(), status=FAILED, sentence=str(error))
            return
        # the volume may have changed while it waited
        self._update(node.GetID(), content=contentKey(node))
        embed = self.engine.embed  # of the engine as it is now
        onlyKept = node.GetID() in self._kept

        def compute(*progress) -> EmbeddingMap:
            # the engine knows which kind of scan its weights embed, and checks it
            return embed(copy.volume(check=lambda volume: volume), *progress, onlyKept)

        self._worker.submit(node.GetID(), compute)

    def cancel(self, volumeNodes: Iterable | None = None) -> None:
        """Stop embedding these volumes, or all volumes if `volumeNodes` is None. Finished maps stay."""
        volumeIds = None if volumeNodes is None else {node.GetID() for node in volumeNodes}
        for volumeId in self._stop(volumeIds):
            self._drop(volumeId)
        self._advance()

    def _stop(self, volumeIds: set[str] | None = None) -> list[str]:
        """Stop embedding the given volumes, or all volumes if `volumeIds` is None. Returns the stopped volumes' IDs."""
        chosen = set(self._states) if volumeIds is None else volumeIds
        stopped = [volumeId for volumeId in self._waiting if volumeId in chosen]
        self._waiting = [volumeId for volumeId in self._waiting if volumeId not in chosen]
        for volumeId in chosen:
            stopped += self._worker.cancel(volumeId)
        return stopped

    def poll(self) -> None:
        """Store progress and results of the background thread, and start to embed the next volume."""
        for event in self._worker.poll():
            if event.kind == "progress":
                self._update(event.key, status=WORKING, share=event.share, step=event.message)
            elif event.kind == "done":
                self._update(event.key, status=READY, share=1.0, step="", embedding=event.result)
            elif event.kind == "failed":
                self._update(event.key, status=FAILED, sentence=event.message)
            else:  # "cancelled": the disk has no map of this volume
                self._drop(event.key)
                if event.key not in self._kept:  # meanwhile, the user has asked for the map
                    self.request([self.scene.GetNodeByID(event.key)])
        if self._wasLoaded and not self.scene.IsBatchProcessing() and self.engine.problem() is None:
            self._wasLoaded = False
            self.request([*scans(self.scene), *films(self.scene)], onlyKept=True)
        self._advance()

    def choose(self, choice: Choice) -> None:
        """Use other weights, another device or another cache from now on, and cancel the current work.

        If the weights change, all maps are removed. If the weights stay the same, the cancelled work starts again.
        """
        if choice == self.engine.choice:
            return
        sameMaps = choice.weights == self.engine.choice.weights
        stopped = self._stop()
        nodes = [self.scene.GetNodeByID(volumeId) for volumeId in stopped]
        for node in nodes:
            self._drop(node.GetID())
        self.engine.release()
        self.engine = type(self.engine)(choice)
        if sameMaps:
            self.request(nodes)
        else:
            self.clear()

    def clear(self) -> None:
        """Remove all maps and cancel all work."""
        self._stop()
        for volumeId in list(self._states):
            self._drop(volumeId)

    def close(self) -> None:
        """Cancel all work, wait for all background threads, and release all memory.

        Afterwards neither the store nor objects that use the store can be used.
        """
        self._waiting.clear()
        self._worker.end()
        waitForEnded()
        self._states.clear()
        super().close()
        self.engine.release()

    def _set(self, volumeId: str, state: MapState) -> None:
        self._states[volumeId] = state
        self.changed.emit(volumeId)

    def _update(self, volumeId: str, **values: object) -> None:
        if volumeId in self._states:
            self._set(volumeId, replace(self._states[volumeId], **values))

    def _drop(self, volumeId: str) -> None:
        if self._states.pop(volumeId, None) is not None:
            self.changed.emit(volumeId)

    def _onImported(self, *_: object) -> None:
        self._wasLoaded = True

    @vtk.calldata_type(vtk.VTK_OBJECT)
    def _onScene(self, caller, event: str, node=None) -> None:
        """Drop the map of a removed node; without a node, the scene is closing: drop all maps."""
        if node is None:  # the scene is closing
            self.clear()
            self.engine.release()
        elif node.GetID() in self._states:
            self._stop({node.GetID()})
            self._drop(node.GetID())
            self._advance()
