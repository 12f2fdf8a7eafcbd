"""Building a structure library from scans with known structures, with the recall of its own boxes."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ..embedding.inference import Model
from ..embedding.map import EmbeddingMap
from ..errors import PointsError
from .cross_validation import FoundBox, find_boxes, margins_of
from .examples import BoxCase
from .labelled_scans import refuse_twins
from .library import StructureLibrary
from .locating import Example, locate, make_example, stored

_EFFORT = "fast"
_MOST = 12  # examples of a structure; more add little
_FEWEST = 3
_OWN_EXAMPLES = 3  # that margins for a user's own examples suppose


def build_library(
    cases: Iterable[BoxCase],
    model: Model,
    about: dict,
    progress: Callable[[float, str], None] = lambda share, what: None,
) -> StructureLibrary:
    """A library of every structure that at least three scans hold whole, real scans first.

    Each scan is then located by the others, so that margins are those of scans the library does not hold.
    Raises PointsError when no structure has enough examples.
    """
    maps: dict[str, EmbeddingMap] = {}
    known: dict[str, BoxCase] = {}
    for case in cases:
        refuse_twins([*known.values(), case])
        progress(0.0, f"reading {case.id}")
        maps[case.id] = model.embed(case.volume)
        known[case.id] = case
    examples: dict[str, dict[str, Example]] = {}
    for number, case in enumerate(known.values()):
        progress(0.3 + 0.2 * number / len(known), case.id)
        for name, structure in case.structures.items():
            made = make_example(maps[case.id], structure.box_ras, structure.extremes_ras)
            examples.setdefault(name, {})[case.id] = stored(made, _EFFORT)
    examples = {name: of for name, of in sorted(examples.items()) if len({known[c].patient for c in of}) >= _FEWEST}
    if not examples:
        raise PointsError(f"no structure is whole in scans of {_FEWEST} patients; add labelled scans.")
    found = []
    for number, target in enumerate(known.values()):
        progress(0.5 + 0.5 * number / len(known), f"margins from {target.id}")
        others = {
            name: [example for c, example in of.items() if known[c].patient != target.patient][:_MOST]
            for name, of in examples.items()
            if name in target.structures
        }
        for name, located in locate(others, maps[target.id], _EFFORT).items():
            scan = target.volume.bounds_ras
            found.append(FoundBox(target.id, name, located, target.structures[name], scan, len(others[name])))
    few, _ = find_boxes(list(known.values()), model, _OWN_EXAMPLES)
    own = margins_of(few)
    kept = {name: list(of.values())[:_MOST] for name, of in examples.items()}
    return StructureLibrary(model.weights_hash, kept, _EFFORT, margins_of(found, by_structure=True), own, about)
