"""Words to places in the scans of a scene: what words name, shown in all of them one place after the other; and the
name of what lies at a point.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING

from ..shared import Views
from ..shared.maps.MapStore import FAILED, MapStore
from ..shared.maps.Worker import Event, Worker
from ..shared.SceneNodes import dropLostItems
from ..shared.Signal import Listener, Signal
from ..shared.VolumeNodes import fromWorld, snapshot, toWorld
from .PlaceRegion import Region, RegionNodes, regionOf

if TYPE_CHECKING:
    import numpy as np

    from AnatomicalEmbedding.embedding.map import EmbeddingMap
    from AnatomicalEmbedding.words import Mention, Place, PlaceFinder, Sentence
    from AnatomicalEmbedding.words.qualifiers import Qualifier

_READ, _NAME, _REPORT, _PREPARE = (
    "read the words",
    "name a point",
    "read the report",
    "prepare a scan",
)  # keys of jobs; those of places are volume IDs
_MOST_STEPS = 60  # places of one text
_REST = 0.12  # seconds that a point stays before its name is looked up
_LIKELY = 0.5  # of a name at the crosshair


@dataclass(frozen=True)
class Step:
    """One place of the words. name: of the term. words: as written. negated: the words say that a finding, or the
    place, is not there. remark: what the words say besides, for people, or "".
    """

    name: str
    words: str
    qualifier: Qualifier | None
    negated: bool
    remark: str = ""


@dataclass(frozen=True, eq=False)
class FoundPlace:
    """Where a place is in one scan. world: (3,) mm, or None where the scan does not show it."""

    place: Place
    region: Region | None
    world: np.ndarray | None

    @property
    def text(self) -> str:
        """For people."""
        place = self.place
        if self.world is None:
            return f"not in this scan{f'; it lies {place.side} to it' if place.side else ''}"
        where = "found" if not place.side else f"partly in this scan; the rest lies {place.side} to it"
        if place.status == "uncertain" and place.remark:
            return f"not certain ({_percent(place.probability)}): {place.remark}"
        where = f"{where}; {place.doubt}" if place.doubt else where
        return f"{where} ({_percent(place.probability)})"


@dataclass(eq=False)
class _Query:
    text: str
    steps: list[Step] = field(default_factory=list)
    at: int = 0
    found: dict[str, FoundPlace] = field(default_factory=dict)  # of this step, by volume ID
    failed: dict[str, str] = field(default_factory=dict)

    @property
    def step(self) -> Step | None:
        return self.steps[self.at] if self.steps else None


@dataclass(eq=False)
class _Searched:
    """A scan and its finder, which the worker makes when it first needs it; it goes with the scan.

    prepared: the worker was asked to read it for the first question; where that fails, the question reports it.
    """

    embedding: EmbeddingMap
    finder: PlaceFinder | None = None
    prepared: bool = False


class WordSearch(Listener):
    """Lives on the main thread; `poll` must be called a few times a second.

    volumes: the scans that are searched; those without a map are embedded when something is looked for, the others
    prepared for the first question from the first letters on.
    changed(): answers have come, or another place is shown. reported(sentence): something to read.
    reportRead(): `sentences` of a report are there. named(): `name`, of what lies at the latest point, has changed.
    """

    def __init__(self, scene, store: MapStore, clock: Callable[[], float] = time.monotonic) -> None:
        self.scene, self.store = scene, store
        self.volumes: list = []
        self.sentences: list[Sentence] = []
        self.changed, self.reported, self.reportRead, self.named = Signal(), Signal(), Signal(), Signal()
        self.regions = RegionNodes(scene)
        self._worker = Worker()
        self._query: _Query | None = None
        self._finders: dict[str, _Searched] = {}  # by volume ID
        self._typed = False
        self.name = ""
        self.naming = False  # is a name being looked up?
        self._clock, self._moved = clock, 0.0
        self._point: tuple | None = None
        self.listen(store.changed, self._onMap)
        self.observe(scene, scene.StartCloseEvent, lambda *_: self._forget())
        self._sceneLoaded = True
        self.observe(scene, scene.EndImportEvent, lambda *_: self._onImport())
        self.atEnd(self._finders.clear, self._worker.end, self.clear)

    # -- what is asked -----------------------------------------------------------------------------------------------

    @property
    def busy(self) -> bool:
        """Is anything worked on in the background here?"""
        return self._worker.busy or self._point is not None

    @property
    def text(self) -> str:
        """The words that are looked for; "" for none."""
        return "" if self._query is None else self._query.text

    def offers(self, text: str) -> list[str]:
        """What the words that are being typed may become. From now on scans are prepared for the question."""
        from AnatomicalEmbedding.words import completions

        self._typed = True
        self._goOn()
        return completions(text)

    def find(self, text: str) -> None:
        """Look for what words name; what was found before is shown no more."""
        self.clear()
        text = text.strip()
        if not text:
            return
        self._query = _Query(text)
        self._worker.submit(_READ, lambda *_: _stepsOf(text))
        self.changed.emit()

    def findMentions(self, text: str, mentions: Sequence[Mention]) -> None:
        """Look for the places of a sentence of a report."""
        self.clear()
        self._query = _Query(text)
        self._take(self._query, _steps(mentions))

    def step(self, by: int = 1) -> None:
        """Show the next place of the words, after the last the first."""
        query = self._query
        if query is None or not query.steps:
            return
        query.at = (query.at + by) % len(query.steps)
        query.found.clear()
        query.failed.clear()
        self.regions.clear()
        self._goOn()
        self.changed.emit()

    def clear(self) -> None:
        """Look for nothing; nothing is shaded any more."""
        was, self._query = self._query, None
        self._worker.cancel(_READ)
        self.regions.clear()
        if was is not None:
            self.changed.emit()

    def readReport(self, text: str) -> None:
        """Find the places in each sentence of a report."""
        from AnatomicalEmbedding.words import parse_report

        self._worker.submit(_REPORT, lambda *_: parse_report(text))

    def openReport(self, path: str) -> None:
        """The same for a file: text, or a DICOM structured report."""

        def read(*_):
            from AnatomicalEmbedding.words import parse_report
            from AnatomicalEmbedding.words.report_text import read_report

            return parse_report(read_report(Path(path)))

        self._worker.submit(_REPORT, read)

    def nameAt(self, volumeNode, pointWorld: Sequence[float]) -> None:
        """Ask for the name of what lies at a point of a scan: it comes when no other is asked for, a moment later."""
        self._worker.cancel(_NAME)
        self._point, self._moved = (volumeNode, tuple(pointWorld)), self._clock()
        self._tell("", naming=True)

    # -- what is known -----------------------------------------------------------------------------------------------

    @property
    def title(self) -> str:
        """Which place is shown: "2 of 3: left adrenal gland"."""
        query = self._query
        if query is None or not query.steps:
            return ""
        step = query.step
        said = f" ({step.remark})" if step.remark else ""
        return f"{f'{query.at + 1} of {len(query.steps)}: ' if query.steps[1:] else ''}{_titleOf(step)}{said}"

    @property
    def steps(self) -> list[Step]:
        """The places of the words."""
        return [] if self._query is None else list(self._query.steps)

    def found(self, volumeNode) -> FoundPlace | None:
        """The answer in a scan, or None while there is none."""
        return None if self._query is None else self._query.found.get(volumeNode.GetID())

    def answers(self) -> list[tuple[str, str]]:
        """(name of the scan, what is known of the place in it), for people."""
        return [(node.GetName(), self._answer(node)) for node in self.volumes] if self.steps else []

    def absences(self) -> dict[str, str]:
        """By volume ID, what to write over the scans that do not show the place."""
        found = {} if self._query is None else self._query.found
        return {key: f"{each.place.title}: {each.text}" for key, each in found.items() if each.world is None}

    def _answer(self, node) -> str:
        query = self._query
        found = query.found.get(node.GetID())
        if found is not None:
            return found.text
        state = self.store.state(node)
        if node.GetID() in query.failed or state.status == FAILED:
            return query.failed.get(node.GetID()) or state.sentence
        return "looking" if state.embedding is not None else f"being prepared, {_percent(state.share)}"

    # -- step by step ------------------------------------------------------------------------------------------------

    def poll(self) -> None:
        """Take over what the background thread has done, and go on; to be called after the store's."""
        for event in self._worker.poll():
            self._onEvent(event)
        self._goOn()
        self.regions.follow()
        if self._sceneLoaded:  # not before: the hierarchy is put together after the import
            self._sceneLoaded = False
            dropLostItems(self.scene)

    def _onEvent(self, event: Event) -> None:
        if event.kind == "progress" or event.key == _PREPARE:
            return
        query, failed = self._query, event.kind != "done"
        if event.key == _NAME:
            self._tell("" if failed else event.result)
        elif event.key == _REPORT:
            self.sentences = [] if failed else event.result
            self.reportRead.emit()
        elif query is not None and event.key == _READ and not failed:
            steps, missed = event.result
            for sentence in missed if steps else ():
                self.reported.emit(sentence)
            self._take(query, steps)
        elif query is not None and event.key != _READ:
            self._show(query, event)
        if failed and event.what and event.key in (_READ, _REPORT):
            self.reported.emit(event.what)

    def _take(self, query: _Query, steps: list[Step]) -> None:
        from AnatomicalEmbedding.words import not_understood

        query.steps = steps
        if not steps:
            self.reported.emit(not_understood(query.text))
        else:
            self.store.request(self.volumes, retry=False)
            self._goOn()
        self.changed.emit()

    def _show(self, query: _Query, event: Event) -> None:
        node = self.scene.GetNodeByID(event.key)
        if node is None:
            return
        if event.kind != "done":
            query.failed[event.key] = event.what
        else:
            step, place, region = event.result
            if step is not query.step:  # of a place that is looked for no more
                return
            world = None if place.point_ras is None else toWorld(node, [place.point_ras])[0]
            query.found[event.key] = FoundPlace(place, region, world)
            self.regions.show(node, place.title, region)
            if world is not None:
                Views.jump(self.scene, node, world)
        self.changed.emit()

    def _goOn(self) -> None:
        """One job at a time: a scan is copied for its first, and only one copy should be held."""
        if self._worker.busy:
            return
        query = self._query
        step = None if query is None else query.step
        if step is not None:
            for node in self.volumes:
                key = node.GetID()
                if key not in query.found and key not in query.failed and self.store.map(node) is not None:
                    self._work(key, node, lambda finder: _look(finder, step))
                    return
        if self._point is not None and self._clock() - self._moved >= _REST:
            (node, world), self._point = self._point, None
            if node.GetScene() is self.scene and self.store.map(node) is not None:
                point = fromWorld(node, [world])[0]
                self._work(_NAME, node, lambda finder: _nameOf(finder, point))
            else:
                self._tell("")
        elif self._typed and self._point is None and not self.store.busy:
            embedded = (node for node in self.volumes if self.store.map(node) is not None)
            node = next((node for node in embedded if not self._searchedOf(node).prepared), None)
            if node is not None:
                self._searchedOf(node).prepared = True
                self._work(_PREPARE, node, lambda finder: finder.prepare())

    def _searchedOf(self, node) -> _Searched:
        """Of a scan with a map."""
        searched, embedding = self._finders.get(node.GetID()), self.store.map(node)
        if searched is None or searched.embedding is not embedding:
            searched = self._finders[node.GetID()] = _Searched(embedding)
        return searched

    def _work(self, key: str, node, work: Callable[[PlaceFinder], object]) -> None:
        searched = self._searchedOf(node)
        copy = None if searched.finder is not None else snapshot(node)

        def run(*_):
            if searched.finder is None:
                from AnatomicalEmbedding.words import PlaceFinder

                searched.finder = PlaceFinder(searched.embedding, copy.volume())
            return work(searched.finder)

        self._worker.submit(key, run)

    def _tell(self, name: str, naming: bool = False) -> None:
        self.naming = naming
        if name != self.name:
            self.name = name
            self.named.emit()

    def _onMap(self, volumeId: str) -> None:
        """A scan's state has changed: what is known of other voxels counts no more."""
        node = self.scene.GetNodeByID(volumeId)
        if node is not None and self.store.map(node) is not None:
            return
        self._finders.pop(volumeId, None)
        self.regions.drop(volumeId)
        if self._query is not None:
            self._query.found.pop(volumeId, None)
            self._query.failed.pop(volumeId, None)
            self.changed.emit()

    def _onImport(self) -> None:
        self._sceneLoaded = True

    def _forget(self) -> None:
        self.volumes, self._point = [], None
        self._worker.cancel()
        self._finders.clear()
        self._typed = False
        self.sentences = []
        self.clear()


def _stepsOf(text: str) -> tuple[list[Step], list[str]]:
    """The places of what was typed, and a sentence for each part that is not understood."""
    from AnatomicalEmbedding.words import not_understood, parse_query

    parts = parse_query(_ended(text))
    missed = [not_understood(part.text) for part in parts if not part.mentions]
    return _steps([mention for part in parts for mention in part.mentions]), missed


def _ended(text: str) -> str:
    """Words that only begin a place, as the place: the only offer, or the only one that ends the last word."""
    from AnatomicalEmbedding.words import completions, parse

    offers = [] if parse(text) else completions(text)
    ending = [each for each in offers if each.lower().startswith(text.lower()) and " " not in each[len(text) :]]
    return next((each[0] for each in (offers, ending) if len(each) == 1), text)


def _steps(mentions: Sequence[Mention]) -> list[Step]:
    steps = [
        Step(name, each.text, each.qualifier, each.negated, each.remark) for each in mentions for name in each.places
    ]
    return list(dict.fromkeys(steps))[:_MOST_STEPS]


def _titleOf(step: Step) -> str:
    from AnatomicalEmbedding.words import load_terms

    title = load_terms()[step.name].title
    return title if step.qualifier is None else f"{step.qualifier.text} {title}"


def _look(finder: PlaceFinder, step: Step) -> tuple[Step, Place, Region | None]:
    place = finder.place(step.name, step.qualifier, step.negated)
    return step, place, regionOf(place)


def _nameOf(finder: PlaceFinder, point: np.ndarray) -> str:
    """The name that is likelier than not; else two that are so together; else ""."""
    from AnatomicalEmbedding.errors import PointsError
    from AnatomicalEmbedding.words import load_terms

    try:
        found = finder.name_at(point)
    except PointsError:  # outside the scan
        return ""
    for each in found:
        if each.probability >= _LIKELY:
            return f"{each.title}, {_percent(each.probability)}"
    for one, other in combinations(found, 2):
        related = other.name in load_terms().ancestors(one.name) or one.name in load_terms().ancestors(other.name)
        if not related and one.probability + other.probability >= _LIKELY:
            return f"{one.title} or {other.title}, {_percent(one.probability + other.probability)}"
    return ""


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"
