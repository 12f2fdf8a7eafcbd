"""Locates structures of labelled scans from examples of other patients."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from ..embedding.inference import Model
from ..embedding.map import EmbeddingMap
from ..errors import PointsError, ProgressCallback
from .examples import BoxCase
from .labelled_scans import refuse_twins
from .margins import KnownBox, known_boxes

# A function that finds boxes (2, 3) by other methods. Its arguments are (structure -> examples, target, scan -> map);
# it returns structure -> method -> box.
PeerBoxes = Callable[
    [Mapping[str, list[BoxCase]], BoxCase, Mapping[str, EmbeddingMap]],
    dict[str, dict[str, np.ndarray]],
]


def find_boxes(
    cases: Sequence[BoxCase],
    model: Model,
    shots: int,
    templates: Sequence[BoxCase] = (),
    peers: PeerBoxes | None = None,
    progress: ProgressCallback = lambda share, step: None,
) -> tuple[list[KnownBox], float]:
    """Locate every structure of every case from examples in at most `shots` scans of other patients.

    Args:
        cases: the scans in which structures are located.
        model: makes the maps.
        shots: largest number of scans with examples.
        templates: additional scans, used as examples only.
        peers: function that finds boxes by other methods, for comparison.
        progress: called with (fraction done, text of the step).

    Returns:
        The boxes, and the mean time to locate the structures of a scan, s.

    Raises:
        PointsError: no two patients share a structure.
    """
    all_cases = [*cases, *templates]
    refuse_twins([case.id for case in all_cases])
    maps = {case.id: model.embed(case.volume) for case in all_cases}
    located = []
    seconds = []
    for number, target in enumerate(cases):
        progress(number / len(cases), target.id)
        # of each structure: the scans with its examples, and the examples
        chosen = {}
        examples = {}
        for name in target.structures:
            sources = _example_cases(name, target, all_cases, shots, number)
            if sources:
                chosen[name] = sources
                examples[name] = [case.structures[name].example(maps[case.id]) for case in sources]
        if not chosen:
            continue
        start = time.perf_counter()
        boxes = known_boxes(target, maps[target.id], examples)
        seconds.append(time.perf_counter() - start)
        peer_boxes = peers(chosen, target, maps) if peers else {}
        located += [replace(box, peers=peer_boxes.get(box.located.name, {})) for box in boxes]
    if not located:
        raise PointsError(
            "no structure lies completely inside the scans of two patients; add labelled scans of the same body part."
        )
    return located, float(np.mean(seconds))


def _example_cases(
    name: str, target: BoxCase, cases: Sequence[BoxCase], shots: int, turn: int
) -> list[BoxCase]:
    """Return at most `shots` cases of other patients with the structure `name`.

    turn: number of the target. Each target begins with the next case, so that all cases are used.
    """
    sources = [case for case in cases if case.patient != target.patient and name in case.structures]
    start = turn % max(len(sources), 1)
    return [*sources[start:], *sources[:start]][:shots]
