"""Search by words: finds the places that the user's words name, and shows one place at a time in all chosen scans.

Also finds the name of the structure at a point.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from AnatomicalEmbedding.errors import AnatomicalEmbeddingError

from ..shared import Views
from ..shared.maps.MapStore import FAILED, MapStore
from ..shared.SceneJob import SceneJob, Steps
from ..shared.SceneNodes import dropLostItems
from ..shared.Signal import Listener, Signal
from ..shared.VolumeNodes import fromWorld, requireCt, snapshot, toWorld
from .PlaceRegion import Region, RegionNodes, regionOf
from .WordSteps import FoundPlace, Step, nameOf, percent, steps, stepsOf, titleOf

if TYPE_CHECKING:
    from AnatomicalEmbedding.embedding.map import EmbeddingMap
    from AnatomicalEmbedding.words import Mention, Place, PlaceFinder, Sentence

# names of the generators in `_job`
_WORDS = "words"
_REPORT = "report"
_PLACE = "place"
_NAME = "name"
_PREPARE = "prepare"
_REST_SECONDS = 0.12  # a point must stay unchanged for this time before its name is looked up


@dataclass(eq=False)
class _Query:
    """A search by words. text: the user's words. steps: the places that the words name. index: index in `steps` of the
    shown place. answers: volume ID -> answer for the shown place. failed: volume ID -> error message."""

    text: str = ""
    steps: list[Step] = field(default_factory=list)
    index: int = 0
    answers: dict[str, FoundPlace] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)

    @property
    def step(self) -> Step:
        return self.steps[self.index]


@dataclass(eq=False)
class _Searched:
    """The state of the word search in one scan. A scan that gets a new map gets a new state.

    embedding: the map of the scan. finder: finds places in this map; None before the first search. prepared: True if
    the preparation for a quick first answer has started.
    """

    embedding: EmbeddingMap
    finder: PlaceFinder | None = None
    prepared: bool = False


class WordSearch(Listener):
    """The search by words in one scene.

    Signal changed(): there are new answers, or another place is shown. Signal reported(sentence): a message to show.
    Signal reportRead(): `sentences` now holds the sentences of a new report. Signal named(): `name`, the name of the
    structure at the latest point, has changed. naming: True while this name is being looked up.

    volumes: the scans that are searched. A scan without a map is embedded when a search starts. A scan with a map is
    prepared as soon as the user types the first letters, so that the first answer comes quickly.
    """

    def __init__(self, scene, store: MapStore) -> None:
        self.scene = scene
        self.store = store
        self.volumes: list = []
        self.sentences: list[Sentence] = []
        self.changed = Signal()
        self.reported = Signal()
        self.reportRead = Signal()
        self.named = Signal()
        self.name = ""
        self.naming = False
        self.regions = RegionNodes(scene)
        self._job = SceneJob(scene, store, "search again")
        self._job.reported.connect(self.reported.emit)
        self._query = _Query()  # a query without words means that there is no search
        self._searched: dict[str, _Searched] = {}  # by volume ID
        self._typed = False  # True after the user has typed words
        self._moved = 0.0  # time at which `_point` was set
        self._point: tuple | None = None  # (volume node, world point) that waits for its name
        # True if a scene was loaded and `dropLostItems` has not been called for it yet
        self._wasLoaded = True
        self.listen(store.changed, self._onMap)
        self.observe(scene, scene.StartCloseEvent, lambda *_: self._forgetAll())
        self.observe(scene, scene.EndImportEvent, self._onImported)
        self.atEnd(self._searched.clear, self._job.close, self.clear)

    # -- questions ---------------------------------------------------------------------------------------------------

    @property
    def busy(self) -> bool:
        return self._job.busy or self._point is not None

    @property
    def text(self) -> str:
        return self._query.text

    def offers(self, text: str) -> list[str]:
        """Return completions of the typed words. The first call also starts to prepare each scan that has a map."""
        from AnatomicalEmbedding.words import completions

        self._typed = True
        self._startNext()
        return completions(text)

    def find(self, text: str) -> None:
        """Search for the places that the words name. An earlier search is stopped, and its results are removed."""
        self.clear()
        if text.strip():
            self._query = _Query(text.strip())
            self._job.start(self._readWords(self._query), _WORDS)
            self.changed.emit()

    def findMentions(self, text: str, mentions: Sequence[Mention]) -> None:
        """Search for `mentions`, the places that the sentence `text` of a report names. Ends an earlier search."""
        self.clear()
        self._query = _Query(text)
        self._setSteps(self._query, steps(mentions))

    def step(self, offset: int = 1) -> None:
        """Show the place that is `offset` places after the shown place. After the last place comes the first place."""
        query = self._query
        if not query.steps:
            return
        self._job.cancel(_PLACE)
        query.index = (query.index + offset) % len(query.steps)
        query.answers.clear()
        query.failed.clear()
        self.regions.clear()
        self._startNext()
        self.changed.emit()

    def clear(self) -> None:
        """Stop the search, and remove its answers and drawn regions."""
        query = self._query
        self._query = _Query()
        self._job.cancel(_WORDS)
        self._job.cancel(_PLACE)
        self.regions.clear()
        if query.text:
            self.changed.emit()

    def readReport(self, text: str) -> None:
        """Set `sentences` to the sentences of a report, with the places that each sentence names."""
        self._job.start(self._readReport(lambda: text), _REPORT)

    def openReport(self, path: str) -> None:
        """Read a text file or a DICOM structured report, and set `sentences` to its sentences, as `readReport` does."""
        from AnatomicalEmbedding.words.report_text import read_report

        self._job.start(self._readReport(lambda: read_report(Path(path))), _REPORT)

    def nameAt(self, volumeNode, pointWorld: Sequence[float]) -> None:
        """If no other call comes within 0.12 s, find the name of the structure at a point."""
        self._job.cancel(_NAME)
        self._point = (volumeNode, tuple(pointWorld))
        self._moved = time.monotonic()
        self._setName("", naming=True)

    # -- answers -----------------------------------------------------------------------------------------------------

    @property
    def title(self) -> str:
        """Title of the place that is shown, for example "2 of 3: left adrenal gland"."""
        query = self._query
        if not query.steps:
            return ""
        number = f"{query.index + 1} of {len(query.steps)}: " if len(query.steps) > 1 else ""
        remark = f" ({query.step.remark})" if query.step.remark else ""
        return f"{number}{titleOf(query.step)}{remark}"

    @property
    def steps(self) -> list[Step]:
        return self._query.steps

    def found(self, volumeNode) -> FoundPlace | None:
        """Return the answer for the shown place in a scan; None while the answer is not known yet."""
        return self._query.answers.get(volumeNode.GetID())

    def answers(self) -> list[tuple[str, str]]:
        """Return (name of the scan, answer in this scan) as texts, for each scan."""
        if not self.steps:
            return []
        return [(node.GetName(), self._answerText(node)) for node in self.volumes]

    def absences(self) -> dict[str, str]:
        """Return volume ID -> text to write over the scan, for each scan that does not show the searched place."""
        return {
            volumeId: f"{answer.place.title}: {answer.text}"
            for volumeId, answer in self._query.answers.items()
            if answer.world is None
        }

    def _answerText(self, node) -> str:
        """Return the answer in a scan as text, or the state of the search in this scan."""
        query = self._query
        state = self.store.state(node)
        answer = query.answers.get(node.GetID())
        if answer is not None:
            return answer.text
        if node.GetID() in query.failed or state.status == FAILED:
            return query.failed.get(node.GetID()) or state.sentence
        if state.embedding is not None:
            return "being searched"
        return f"being prepared, {percent(state.share)}"

    # -- work --------------------------------------------------------------------------------------------------------

    def poll(self) -> None:
        """Continue the work. Call `poll` a few times a second, after `MapStore.poll`."""
        self._job.poll()
        self._startNext()
        self.regions.follow()
        # only now, because Slicer builds the subject hierarchy after the import event
        if self._wasLoaded:
            self._wasLoaded = False
            dropLostItems(self.scene)

    def _startNext(self) -> None:
        """If no work is running, start the most urgent work: find a place, name a point, or prepare a scan."""
        if self._job.busy:
            return
        query = self._query
        withMap = [node for node in self.volumes if self.store.map(node) is not None]
        answered = {*query.answers, *query.failed}
        unanswered = [node for node in withMap if node.GetID() not in answered]
        if query.steps and unanswered:
            self._job.start(self._findPlace(query, unanswered[0]), _PLACE)
        elif self._point is not None:
            if time.monotonic() - self._moved >= _REST_SECONDS:
                node, world = self._point
                self._point = None
                self._job.start(self._findName(node, world), _NAME)
        elif self._typed and not self.store.busy:
            for node in withMap:
                searched = self._searchedOf(node)
                if not searched.prepared:
                    searched.prepared = True
                    self._job.start(self._prepare(node), _PREPARE)
                    break

    def _readWords(self, query: _Query) -> Steps[None]:
        steps, misunderstood = yield from self._job.inBackground(lambda *_: stepsOf(query.text))
        if steps:
            for sentence in misunderstood:
                self.reported.emit(sentence)
        self._setSteps(query, steps)

    def _setSteps(self, query: _Query, places: list[Step]) -> None:
        """Start to search for places, or report that the words name no place."""
        from AnatomicalEmbedding.words import not_understood

        query.steps = places
        if places:
            self.store.request(self.volumes, retry=False)
            self._startNext()
        else:
            self.reported.emit(not_understood(query.text))
        self.changed.emit()

    def _findPlace(self, query: _Query, node) -> Steps[None]:
        """Find the shown place in a scan, draw its region, and move the views to it."""
        step = query.step
        embedding = self.store.map(node)

        def find(finder: PlaceFinder) -> tuple[Place, Region | None]:
            place = finder.place(step.name, step.qualifier, step.negated)
            return place, regionOf(place)

        try:
            place, region = yield from self._askFinder(node, find)
        except AnatomicalEmbeddingError as error:
            # if not, the scan has changed and will be searched again
            if self.store.map(node) is embedding:
                query.failed[node.GetID()] = str(error)
        else:
            world = None if place.point_ras is None else toWorld(node, [place.point_ras])[0]
            query.answers[node.GetID()] = FoundPlace(place, region, world)
            self.regions.show(node, place.title, region)
            if world is not None:
                Views.jump(self.scene, node, world)
        self.changed.emit()

    def _findName(self, node, world: Sequence[float]) -> Steps[None]:
        """Find the name of the structure at a point of a scan. world: (3,) world mm."""
        name = ""
        if node.GetScene() is self.scene and self.store.map(node) is not None:
            point = fromWorld(node, [world])[0]
            # the scan was changed or removed: the point has no name
            with suppress(AnatomicalEmbeddingError):
                name = yield from self._askFinder(node, lambda finder: nameOf(finder, point))
        self._setName(name)

    def _prepare(self, node) -> Steps[None]:
        with suppress(AnatomicalEmbeddingError):  # the first search of the scan reports the error
            yield from self._askFinder(node, lambda finder: finder.prepare())

    def _readReport(self, readText: Callable[[], str]) -> Steps[None]:
        """Read a report in the background. readText(): returns its text."""
        from AnatomicalEmbedding.words import parse_report

        self.sentences = []
        try:
            self.sentences = yield from self._job.inBackground(lambda *_: parse_report(readText()))
        except AnatomicalEmbeddingError as error:
            self.reported.emit(str(error))
        self.reportRead.emit()

    def _askFinder(self, node, ask: Callable[[PlaceFinder], object]) -> Steps:
        """Call `ask` in the background with the scan's PlaceFinder, and return the result of `ask`."""
        requireCt(node)
        searched = self._searchedOf(node)
        # only the first question needs the voxels
        copy = None if searched.finder is not None else snapshot(node)

        def run(*_):  # in the background thread
            if searched.finder is None:
                from AnatomicalEmbedding.words import PlaceFinder

                searched.finder = PlaceFinder(searched.embedding, copy.volume())
            return ask(searched.finder)

        return (yield from self._job.inBackground(run, [node]))

    def _searchedOf(self, node) -> _Searched:
        """Return the state of the search in a scan. A scan with a new map gets a new state."""
        searched = self._searched.get(node.GetID())
        embedding = self.store.map(node)
        if searched is None or searched.embedding is not embedding:
            searched = self._searched[node.GetID()] = _Searched(embedding)
        return searched

    def _setName(self, name: str, naming: bool = False) -> None:
        self.naming = naming
        if name != self.name:
            self.name = name
            self.named.emit()

    def _onMap(self, volumeId: str) -> None:
        """If the volume was removed from the scene or has no map any more, remove its answers and its drawn region."""
        node = self.scene.GetNodeByID(volumeId)
        if node is not None and self.store.map(node) is not None:
            return
        self._searched.pop(volumeId, None)
        self.regions.drop(volumeId)
        self._query.answers.pop(volumeId, None)
        self._query.failed.pop(volumeId, None)
        self.changed.emit()

    def _onImported(self, *_: object) -> None:
        self._wasLoaded = True

    def _forgetAll(self) -> None:
        """Forget all scans, because the scene is closing."""
        self.volumes = []
        self._point = None
        self.sentences = []
        self._searched.clear()
        self._typed = False
        self.clear()
