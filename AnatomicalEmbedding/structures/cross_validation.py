"""Locates structures of labelled scans from examples of other patients. Also builds libraries, with margins."""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from ..embedding.inference import Model
from ..embedding.map import EmbeddingMap
from ..errors import PointsError
from .examples import SYNTHETIC, BoxCase
from .labelled_scans import refuse_twins, source_of
from .library import StructureLibrary
from .locating import Example, make_example
from .margins import KnownBox, known_boxes, learn_margins

# A function that finds boxes (2, 3) by other methods. Its arguments are (structure -> examples, target, scan -> map);
# it returns structure -> method -> box.
PeerBoxes = Callable[
    [Mapping[str, list[BoxCase]], BoxCase, Mapping[str, EmbeddingMap]], dict[str, dict[str, np.ndarray]]
]


def find_boxes(
    cases: Sequence[BoxCase],
    model: Model,
    shots: int,
    templates: Sequence[BoxCase] = (),
    peers: PeerBoxes | None = None,
    progress: Callable[[float, str], None] = lambda share, what: None,
) -> tuple[list[KnownBox], float]:
    """Locate every structure of every case from examples in at most `shots` scans of other patients.

    Args:
        templates: additional scans, used as examples only.
        peers: function that finds boxes by other methods, for comparison.
        progress: called with (fraction done, text of the step).

    Returns:
        The boxes, and the mean time to locate the structures of a scan, s.

    Raises:
        PointsError: no two patients share a structure.
    """
    every = [*cases, *templates]
    refuse_twins([case.id for case in every])
    maps = {case.id: model.embed(case.volume) for case in every}
    found: list[KnownBox] = []
    seconds = []
    for number, target in enumerate(cases):
        progress(number / len(cases), target.id)
        chosen = {name: _examples_of(name, target, every, shots, number) for name in target.structures}
        chosen = {name: sources for name, sources in chosen.items() if sources}
        if not chosen:
            continue
        examples = {
            name: [make_example(maps[c.id], (k := c.structures[name]).box_ras, k.extremes_ras) for c in sources]
            for name, sources in chosen.items()
        }
        start = time.perf_counter()
        boxes = known_boxes(target, maps[target.id], examples)
        seconds.append(time.perf_counter() - start)
        other = peers(chosen, target, maps) if peers else {}
        found += [replace(box, peers=other.get(box.located.name, {})) for box in boxes]
    if not found:
        raise PointsError(
            "no structure lies completely inside the scans of two patients; add labelled scans of the same body part."
        )
    return found, float(np.mean(seconds))


def _examples_of(name: str, target: BoxCase, every: Sequence[BoxCase], shots: int, turn: int) -> list[BoxCase]:
    others = [case for case in every if case.patient != target.patient and name in case.structures]
    start = turn % max(len(others), 1)
    return [*others[start:], *others[:start]][:shots]


PHANTOM_SEED = 72_000  # seed of the first synthetic patient for libraries
_EFFORT = "fast"
_MOST_EXAMPLES = 12  # for each structure; more examples hardly improve the boxes
_FEWEST_EXAMPLES = 3
_OWN_EXAMPLES = 3  # number of examples with which the margins for a user's own examples are learned


def build_library(
    cases: Iterable[BoxCase],
    model: Model,
    about: dict,
    progress: Callable[[float, str], None] = lambda share, what: None,
) -> StructureLibrary:
    """Build a library of all structures that lie completely in scans of at least three patients.

    Margins are learned from boxes that were located with examples of other patients, and in real scans only with
    examples of other sources, as new scans come from other scanners and were outlined by other people. about: origin of
    the library. Raises PointsError if no structure has enough examples.
    """
    maps: dict[str, EmbeddingMap] = {}
    known: dict[str, BoxCase] = {}
    for case in cases:
        refuse_twins([*known, case.id])
        progress(0.0, f"reading {case.id}")
        maps[case.id] = model.embed(case.volume)
        known[case.id] = case
    examples: dict[str, dict[str, Example]] = {}
    for number, case in enumerate(known.values()):
        progress(0.3 + 0.2 * number / len(known), case.id)
        for name, structure in case.structures.items():
            made = make_example(maps[case.id], structure.box_ras, structure.extremes_ras, _EFFORT)
            examples.setdefault(name, {})[case.id] = made
    examples = {
        name: of for name, of in sorted(examples.items()) if len({known[c].patient for c in of}) >= _FEWEST_EXAMPLES
    }
    if not examples:
        raise PointsError(
            f"no structure lies completely inside the scans of {_FEWEST_EXAMPLES} patients; add labelled scans."
        )
    found: list[KnownBox] = []
    sources = {source_of(c) for c in known if not c.startswith(SYNTHETIC)}

    def is_other(case: str, target: BoxCase) -> bool:
        if len(sources) < 2 or target.id.startswith(SYNTHETIC):
            return known[case].patient != target.patient
        return source_of(case) != source_of(target.id)

    for number, target in enumerate(known.values()):
        progress(0.5 + 0.5 * number / len(known), f"margins from {target.id}")
        chosen = {
            name: others[:_MOST_EXAMPLES]
            for name, of in examples.items()
            if name in target.structures and (others := [e for c, e in of.items() if is_other(c, target)])
        }
        found += known_boxes(target, maps[target.id], chosen, _EFFORT)
    few, _ = find_boxes(list(known.values()), model, _OWN_EXAMPLES)
    kept = {name: list(of.values())[:_MOST_EXAMPLES] for name, of in examples.items()}
    margins, own = learn_margins(found, by_structure=True), learn_margins(few, by_structure=False)
    return StructureLibrary(model.weights_hash, kept, _EFFORT, margins, own, about)
