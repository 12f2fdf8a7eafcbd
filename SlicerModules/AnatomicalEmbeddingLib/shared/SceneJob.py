"""Runs long work on the scans of a scene. One generator contains all steps of the work, in their order."""

from collections.abc import Generator, Sequence
from typing import TypeVar

from AnatomicalEmbedding.errors import AnatomicalEmbeddingError, VolumeError

from .maps.MapStore import EMPTY, FAILED, MapStore
from .maps.Worker import Event, Work, Worker
from .Signal import Listener, Signal
from .VolumeNodes import requireCt

Result = TypeVar("Result")
# runs on the main thread; each `yield` waits for the next poll
Steps = Generator[None, None, Result]
Part = tuple[float, float]  # start and end of a step on the progress bar of the whole job, 0 to 1
_WHOLE = (0.0, 1.0)


class SceneJob(Listener):
    """Runs generators on the main thread. A generator can wait for maps and for work in the background thread.

        def _find(self, volume):
            (map,) = yield from self._job.maps([volume])
            place = yield from self._job.inBackground(lambda *_: placeIn(map), [volume])
            self._show(volume, place)  # on the main thread again

        self._job = SceneJob(scene, store, "find boxes again")
        self._job.start(self._find(volume))  # then call self._job.poll() a few times a second, after MapStore.poll

    A `yield` without a value waits for the next poll. An uncaught AnatomicalEmbeddingError ends the generator and is
    reported. `cancel`, a change of weights and the closing of the scene also end the generator, which can clean up
    in `finally`. Generators with different names run at the same time and share one background thread.

    Signal changed(): a generator has started or ended. Signal reported(sentence): a message for the user. progress:
    the finished fraction of the whole job, 0 to 1, and the name of the current step.
    """

    def __init__(self, scene, store: MapStore | None = None, remedy: str = "start again") -> None:
        """
        Args:
            store: the store that makes maps; None if the generators need no maps.
            remedy: advice for the user after a scan was changed or removed. The error message ends with this advice.
        """
        self.scene = scene
        self.store = store
        self.remedy = remedy
        self.changed = Signal()
        self.reported = Signal()
        self.progress: tuple[float, str] = (0.0, "")
        self._worker = Worker()
        self._running: dict[str, Steps[None]] = {}
        self._events: dict[object, Event] = {}
        self._weights: object = None
        self.observe(scene, scene.StartCloseEvent, lambda *_: self.cancel())
        self.atEnd(self._worker.end, self.cancel)

    @property
    def busy(self) -> bool:
        return bool(self._running)

    def start(self, steps: Steps[None], name: str = "") -> None:
        """Start a generator and run it up to its first `yield`. Cancels a running generator with the same name."""
        self.cancel(name)
        if not self._running:
            self.progress = (0.0, "")
            self._weights = self._weightsNow()
        self._running[name] = steps
        self._advance(name)
        self.changed.emit()

    def cancel(self, name: str | None = None) -> None:
        """End the generator with this name and its background work. name: None to end all generators."""
        names = [jobName for jobName in self._running if name in (None, jobName)]
        for jobName in names:
            steps = self._running.pop(jobName)
            # if the generator itself called `cancel`, `_advance` closes it
            if not steps.gi_running:
                steps.close()
        if names:
            self.changed.emit()

    def poll(self) -> None:
        """Continue each generator. Call `poll` a few times a second, after `MapStore.poll`."""
        for event in self._worker.poll():
            self._events[event.key] = event
        if self._running and self._weights != self._weightsNow():
            self.cancel()
            self.reported.emit(
                f"The work was stopped, because other weights were chosen; {self.remedy}."
            )
        for name in list(self._running):
            self._advance(name)

    def inBackground(
        self,
        work: Work,
        volumes: Sequence = (),
        part: Part = _WHOLE,
        title: str = "",
    ) -> Steps[Result]:
        """Call work(progress, cancelled) in the background thread and wait for its result. `work` must not use nodes.

        Args:
            volumes: nodes whose copies or maps `work` uses. If a node is removed or its map changes, the wait ends with
                an error.
            part: start and end of this step on the progress bar of the whole job, 0 to 1.
            title: name of the step, until the work reports another name.

        Raises:
            AnatomicalEmbeddingError: the work failed, a volume was removed, or its map has changed.
        """
        key = object()
        maps = self._mapsOf(volumes)
        self.showProgress(0.0, title, part)
        self._worker.submit(key, work)
        try:
            while True:
                yield
                self._requirePresent(volumes)
                for volume, before, now in zip(volumes, maps, self._mapsOf(volumes), strict=True):
                    if now is not before:
                        raise VolumeError(
                            f"{volume.GetName()}: was changed during the work; {self.remedy}."
                        )
                event = self._events.pop(key, None)
                if event is None:
                    continue
                if event.kind == "done":
                    return event.result
                if event.kind != "progress":
                    raise AnatomicalEmbeddingError(event.message)
                self.showProgress(event.share, event.message, part)
        finally:
            self._worker.cancel(key)
            self._events.pop(key, None)

    def maps(self, volumes: Sequence, part: Part = _WHOLE) -> Steps[list]:
        """Wait until all volumes have a map, and return the maps. Call `MapStore.request` for these volumes first.

        Raises VolumeError if a volume is a film, is removed or cannot be embedded. part: start and end of the wait on
        the progress bar, 0 to 1.
        """
        for volume in volumes:
            requireCt(volume)
        while True:
            self._requirePresent(volumes)
            states = [self.store.state(volume) for volume in volumes]
            for volume, state in zip(volumes, states, strict=True):
                if state.status == FAILED:
                    isNamed = volume.GetName() in state.sentence
                    name = "" if isNamed else f"{volume.GetName()}: "
                    raise VolumeError(name + state.sentence)
                if state.status == EMPTY:
                    raise VolumeError(
                        f"{volume.GetName()}: was changed, or its preparation stopped; {self.remedy}."
                    )
            maps = self._mapsOf(volumes)
            if None not in maps:
                return maps
            share = sum(state.share for state in states) / len(states)
            self.showProgress(share, f"preparing {volumes[maps.index(None)].GetName()}", part)
            yield

    def showProgress(self, share: float, title: str, part: Part = _WHOLE) -> None:
        """Set `progress`.

        Args:
            share: finished share of the step, 0 to 1.
            title: the step.
            part: start and end of this step in the job, 0 to 1.
        """
        low, high = part
        self.progress = (low + (high - low) * share, title)

    def _advance(self, name: str) -> None:
        """Continue a generator up to its next `yield`. If it has ended, forget it and report its error."""
        steps = self._running.get(name)
        # a step that handles events can call `poll` again, while its generator is still running
        if steps is None or steps.gi_running:
            return
        hasEnded = True
        sentence = ""
        try:
            next(steps)
            hasEnded = False
        except StopIteration:
            pass
        except AnatomicalEmbeddingError as error:
            sentence = str(error)
        finally:  # also after an unexpected error
            isCancelled = self._running.get(name) is not steps  # by itself
            if hasEnded and not isCancelled:
                del self._running[name]
        if isCancelled and not hasEnded:
            steps.close()
        if sentence:
            self.reported.emit(sentence)
        if hasEnded and not isCancelled:
            self.changed.emit()

    def _requirePresent(self, volumes: Sequence) -> None:
        for volume in volumes:
            if volume.GetScene() is not self.scene:
                raise VolumeError(f"{volume.GetName()}: was removed from the scene; {self.remedy}.")

    def _mapsOf(self, volumes: Sequence) -> list:
        """Return the map of each volume; None for a volume without a map."""
        return [None if self.store is None else self.store.map(volume) for volume in volumes]

    def _weightsNow(self) -> object:
        return None if self.store is None else self.store.engine.weightsPath()
