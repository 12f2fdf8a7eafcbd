"""Measure expected errors and probabilities on scans of a source that the calibration does not contain.

    python Testing/benchmarks/confidence_by_source.py LABELLED... --scans SCANS... [--model auto]

For each source, a calibration is
made as `anatemb calibrate` makes it: from matches between labelled scans of the other sources, from deformed scans of
the other sources, and from synthetic patients. This calibration is then tested on the matches whose target belongs to
the source that was left out.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from AnatomicalEmbedding import Volume, load_model
from AnatomicalEmbedding.embedding.calibration import Calibration
from AnatomicalEmbedding.embedding.inference import Model
from AnatomicalEmbedding.evaluation.confidence import Judged, summarise_confidence
from AnatomicalEmbedding.matching.confidence import EVIDENCE, judge
from AnatomicalEmbedding.structures.labelled_scans import Case, list_scans, load_case, source_of
from AnatomicalEmbedding.training.calibrate import (
    BENT,
    LABELLED,
    PHANTOMS,
    WEIGHTS,
    Outcomes,
    grow_forest,
    try_matching,
)
from AnatomicalEmbedding.training.known_matches import (
    CLICKED,
    Trial,
    bent_trials,
    labelled_trials,
    phantom_trials,
)

_EFFORT = "standard"
_PATIENTS = range(70_000, 70_010)


@dataclass(frozen=True, eq=False)
class Tried:
    """Matches of one trial, the sources of its two scans, and what its points are."""

    outcomes: Outcomes
    template: str
    target: str
    groups: np.ndarray
    whole: bool


def labelled_cases(folders: Iterable[Path]) -> list[Case]:
    return [
        case
        for folder in folders
        for path in list_scans(folder)
        if (case := load_case(path)) is not None
    ]


def tried(trials: Iterable[Trial]) -> list[Tried]:
    return [
        Tried(
            try_matching(trial, _EFFORT),
            source_of(trial.template.provenance.scan),
            source_of(trial.target.provenance.scan),
            np.array(trial.groups),
            trial.whole,
        )
        for trial in trials
        if len(trial.template_ras)
    ]


def judged(of: list[Tried], calibration: Calibration) -> Judged:
    """What the calibration says of the matches."""
    every = Outcomes.joined(each.outcomes for each in of)
    verdicts = judge(every.evidence, calibration, _EFFORT)
    return Judged(
        every.errors_mm,
        np.concatenate([each.groups for each in of]),
        np.concatenate([np.full(len(each.groups), each.whole) for each in of]),
        verdicts["status"],
        verdicts["expected_error_mm"],
        verdicts["probability"],
        verdicts["probability_20"],
    )


def without(
    source: str, labelled: list[Tried], bent: list[Tried], phantoms: list[Tried], model: Model
) -> Calibration:
    """A calibration by all that is not of a source."""
    outcomes = {
        LABELLED: Outcomes.joined(
            each.outcomes for each in labelled if source not in (each.template, each.target)
        ),
        BENT: Outcomes.joined(each.outcomes for each in bent if source != each.template),
        PHANTOMS: Outcomes.joined(each.outcomes for each in phantoms),
    }
    return Calibration(model.weights_hash, EVIDENCE, {_EFFORT: grow_forest(outcomes, WEIGHTS)})


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("labelled", nargs="+", type=Path)
    parser.add_argument(
        "--scans", nargs="*", type=Path, default=[], help="folders of scans to be bent as well"
    )
    parser.add_argument("--model", default="auto")
    options = parser.parse_args()
    model = load_model(options.model, "cpu")
    paths = {
        path.name: path
        for folder in [*options.labelled, *options.scans]
        for path in list_scans(folder)
    }
    labelled = tried(labelled_trials(labelled_cases(options.labelled), model.embed, CLICKED))
    bent = tried(bent_trials((Volume.read(path) for path in paths.values()), model.embed))
    phantoms = tried(phantom_trials(_PATIENTS, model.embed, CLICKED))
    print(
        f"trials: {len(labelled)} labelled, {len(bent)} bent, {len(phantoms)} synthetic", flush=True
    )
    parts: list[Judged] = []
    for source in sorted({each.target for each in labelled}):
        tested = [each for each in labelled if each.target == source]
        parts.append(judged(tested, without(source, labelled, bent, phantoms, model)))
        print(summarise_confidence(parts[-1], f"{source} left out").table(), flush=True)
    every = Judged(*map(np.concatenate, zip(*parts, strict=True)))
    print(
        summarise_confidence(every, "every source, each by a calibration without it").table(),
        flush=True,
    )


if __name__ == "__main__":
    main()
