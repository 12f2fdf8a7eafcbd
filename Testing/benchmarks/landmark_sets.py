"""Measure answers from 1 to 10 examples of a landmark: organ centres, with scans of other patients as examples.

python Testing/benchmarks/landmark_sets.py DIR

DIR is a folder of labelled scans. For each structure of each scan, examples are drawn from the other scans at random,
four times.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from pathlib import Path

import numpy as np
from regions import REGIONS, region_of

from AnatomicalEmbedding import load_model
from AnatomicalEmbedding.evaluation.confidence import auroc, calibration_error
from AnatomicalEmbedding.landmarks.combination import combine
from AnatomicalEmbedding.landmarks.landmark_set import (
    Landmark,
    LandmarkExample,
)
from AnatomicalEmbedding.matching.match import Matches, join_matches, match_query
from AnatomicalEmbedding.matching.query import query_from_text, query_to_text, read_query
from AnatomicalEmbedding.structures.labelled_scans import Case, load_cases, source_of

COUNTS = (1, 2, 3, 5, 10)
_DRAWS = 4
Pairs = dict[str, dict[tuple[str, str], Matches]]  # structure -> (example, target) -> the answer


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    options = parser.parse_args()
    patients = {case.patient: case for case in load_cases(options.folder) if case.structures}
    cases = {case.id: case for case in patients.values()}
    pairs = match_pairs(cases)
    rng = np.random.default_rng(0)
    print(
        "| examples | region | answers | error, mean / median | stated | within 10 mm | stated | AUROC > 10 mm | ECE |"
    )
    for count in COUNTS:
        answers = defaultdict(list)
        for structure, matches in pairs.items():
            for target in sorted({pair[1] for pair in matches}):
                examples = sorted(example for example, other in matches if other == target)
                for _ in range(_DRAWS if len(examples) >= count else 0):
                    drawn = rng.choice(examples, count, replace=False).tolist()
                    answers[region_of(structure)].append(
                        answer(structure, drawn, target, cases, matches)
                    )
        for region in (*REGIONS, "all"):
            values = np.array(
                [row for name, rows in answers.items() if region in (name, "all") for row in rows]
            )
            if len(values):
                print(f"| {count} | {region} | {len(values)} | {summary(values)} |", flush=True)


def match_pairs(cases: dict[str, Case]) -> Pairs:
    """Find the centres of each scan's structures in all other scans."""
    model = load_model("ct-open", "cpu")
    maps = {name: model.embed(case.volume) for name, case in cases.items()}
    pairs: Pairs = defaultdict(dict)
    for name, case in cases.items():
        structures = list(case.structures)
        centres = np.array([case.structures[structure][0] for structure in structures])
        query = query_from_text(query_to_text(read_query(maps[name], centres)))
        others = [other for other in cases if cases[other].patient != case.patient]
        for other, matches in zip(
            others, match_query(query, [maps[other] for other in others]), strict=True
        ):
            for n, structure in enumerate(structures):
                drawn_alike = structure != "esophagus" or source_of(name) == source_of(other)
                if structure in cases[other].structures and drawn_alike:
                    pairs[structure][name, other] = matches[[n]]
    return pairs


def answer(
    structure: str,
    examples: list[str],
    target: str,
    cases: dict[str, Case],
    matches: dict[tuple[str, str], Matches],
) -> tuple[float, float, float]:
    """Return error, mm, stated error, mm, and probability of an error below 10 mm of the answer in one target."""

    def error_mm(found: Matches, scan: str) -> float:
        return float(np.linalg.norm(found.points_ras[0] - cases[scan].structures[structure][0]))

    def answers_in(scan: str) -> Matches:
        return join_matches([matches[example, scan] for example in examples if example != scan])

    landmark = Landmark(
        structure,
        tuple(
            LandmarkExample(example, tuple(cases[example].structures[structure][0]), "")
            for example in examples
        ),
    )
    for example in examples if len(examples) > 1 else ():
        landmark = landmark.measured(example, answers_in(example), dict.fromkeys(examples, ()))
    combined = combine(answers_in(target), landmark.weights, landmark.error_factor)
    return (
        error_mm(combined, target),
        float(combined.expected_error_mm[0]),
        float(combined.probability[0]),
    )


def summary(values: np.ndarray) -> str:
    errors, stated, probability = values.T
    wrong = errors > 10
    area = auroc(stated, wrong)
    return (
        f"{errors.mean():.1f} / {np.median(errors):.1f} | {stated.mean():.1f} | {(~wrong).mean():.2f} | "
        f"{probability.mean():.2f} | {'' if area is None else f'{area:.2f}'} | "
        f"{calibration_error(probability, ~wrong):.3f}"
    )


if __name__ == "__main__":
    main()
