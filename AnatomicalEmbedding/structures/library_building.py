"""Builds a structure library from labelled scans and synthetic patients, with margins."""

from collections.abc import Iterable, Mapping

from ..embedding.inference import Model
from ..errors import PointsError, ProgressCallback
from .cross_validation import find_boxes
from .examples import SYNTHETIC, BoxCase
from .labelled_scans import refuse_twins, source_of
from .library import StructureLibrary
from .locating import Example
from .margins import known_boxes, learn_margins

PHANTOM_SEED = 72_000  # seed of the first synthetic patient for libraries
_EFFORT = "fast"
_MOST_EXAMPLES = 12  # for each structure; more examples hardly improve the boxes
_FEWEST_EXAMPLES = 3  # patients; by hand: with fewer, no example can be tested by others
# number of examples with which the margins for a user's own examples are learned
_USER_EXAMPLES = 3


def build_library(
    cases: Iterable[BoxCase],
    model: Model,
    facts: dict,
    progress: ProgressCallback,
) -> StructureLibrary:
    """Build a library of all structures that lie completely in scans of at least three patients.

    Margins are learned from boxes that were located with examples of other patients, and in real scans only with
    examples of other sources, as new scans come from other scanners and were outlined by other people.

    Args:
        cases: the labelled scans and synthetic patients.
        model: makes the maps.
        facts: origin of the library, stored with it.
        progress: called with (fraction done, text of the step).

    Raises PointsError if no structure has enough examples.
    """
    maps = {}
    cases_by_id: dict[str, BoxCase] = {}
    examples: dict[str, dict[str, Example]] = {}  # structure -> scan -> example
    for case in cases:
        refuse_twins([*cases_by_id, case.id])
        progress(0.0, f"reading {case.id}")
        cases_by_id[case.id] = case
        maps[case.id] = embedding = model.embed(case.volume)
        for name, structure in case.structures.items():
            examples.setdefault(name, {})[case.id] = structure.example(embedding, _EFFORT)

    examples = {
        name: scans
        for name, scans in sorted(examples.items())
        if len({cases_by_id[scan].patient for scan in scans}) >= _FEWEST_EXAMPLES
    }
    if not examples:
        raise PointsError(
            f"no structure lies completely inside the scans of {_FEWEST_EXAMPLES} patients; add labelled scans."
        )
    boxes = []
    for number, target in enumerate(cases_by_id.values()):
        progress(0.5 + 0.5 * number / len(cases_by_id), f"margins from {target.id}")
        usable = _independent_scans(target, cases_by_id)
        chosen = {}
        for name, scans in examples.items():
            independent = [example for scan, example in scans.items() if scan in usable]
            if name in target.structures and independent:
                chosen[name] = independent[:_MOST_EXAMPLES]
        boxes += known_boxes(target, maps[target.id], chosen, _EFFORT)
    few_boxes, _ = find_boxes(list(cases_by_id.values()), model, _USER_EXAMPLES)
    margins = learn_margins(boxes, by_structure=True)
    example_margins = learn_margins(few_boxes, by_structure=False)
    stored = {name: list(scans.values())[:_MOST_EXAMPLES] for name, scans in examples.items()}
    return StructureLibrary(model.weights_hash, stored, _EFFORT, margins, example_margins, facts)


def _independent_scans(target: BoxCase, cases: Mapping[str, BoxCase]) -> set[str]:
    """Return the scans whose examples may locate the structures of `target`: of other sources, or else patients."""
    sources = {source_of(scan) for scan in cases if not scan.startswith(SYNTHETIC)}
    if len(sources) < 2 or target.id.startswith(SYNTHETIC):
        return {scan for scan, case in cases.items() if case.patient != target.patient}
    source = source_of(target.id)
    return {scan for scan in cases if source_of(scan) != source}
