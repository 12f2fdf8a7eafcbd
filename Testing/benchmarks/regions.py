"""Measure errors of weights by region of the body, at organ centres and extreme points, between different patients.

python Testing/benchmarks/regions.py DEV --model ct-research --model run/weights.safetensors [--effort standard]

DEV is a folder of labelled scans.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from AnatomicalEmbedding import load_model
from AnatomicalEmbedding.evaluation.protocol import EmbeddingMatcher, evaluate_landmarks
from AnatomicalEmbedding.evaluation.results import MeasuredPair
from AnatomicalEmbedding.structures.labelled_scans import load_cases

REGIONS = {
    "head, neck": r"brain.*|parotid.*|mandible|larynx|thyroid.*|skull|eye.*|pharynx",
    "spine": r"vertebra.*|sacrum",
    "chest": r"lung.*|heart.*|trachea|esophagus|aorta|pulmonary.*|superior_vena.*|atrial.*|brachio.*|sternum|clavic.*|"
    r"scapula.*|subclavian.*|common_carotid.*|rib_.*|humerus.*",
    "pelvis": r"urinary_bladder|prostate|hip.*|femur.*|femoral.*|glut.*|iliac.*|iliopsoas.*|uterus|rectum",
    "abdomen": r".*",
}


def region_of(structure: str) -> str:
    """The first region of REGIONS whose expression is the whole name."""
    return next(region for region, pattern in REGIONS.items() if re.fullmatch(pattern, structure))


def mean_and_median(errors_mm: Iterable[float]) -> str:
    """Of those that are finite, and their number; "-" for none."""
    errors = np.array(list(errors_mm))
    errors = errors[np.isfinite(errors)]
    return (
        f"{errors.mean():6.1f} / {np.median(errors):5.1f} ({len(errors)})" if len(errors) else "-"
    )


def _drawn_in_part(structure: str, measured: MeasuredPair) -> bool:
    """Head-and-neck radiotherapy draws the upper part of the oesophagus, thoracic radiotherapy all of it."""
    return structure == "esophagus" and measured.template[:3] != measured.target[:3]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--model", action="append", required=True)
    parser.add_argument("--effort", default="standard")
    parser.add_argument(
        "--templates", type=Path, help="further labelled scans that are templates alone, for all"
    )
    parser.add_argument(
        "--from-templates", action="store_true", help="count answers of those templates alone"
    )
    options = parser.parse_args()
    cases = load_cases(options.folder)
    templates = load_cases(options.templates) if options.templates else []
    counted = (
        {case.id for case in templates}
        if options.from_templates
        else {case.id for case in cases + templates}
    )
    matchers = {Path(m).parent.name if "/" in m else m: m for m in options.model}
    print(
        f"| {'weights':24} | {'region':10} | centres, mean / median (n) | extremes, mean / median |"
    )
    for name, weights in matchers.items():
        matcher = EmbeddingMatcher(load_model(weights, "cpu"), options.effort)
        result = evaluate_landmarks(cases, {name: matcher}, templates=templates)
        rows = [
            (region_of(structure), group, error)
            for measured in result.measured
            for structure, group, error in zip(
                measured.names, measured.groups, measured.errors_mm, strict=True
            )
            if group != "landmark"
            and measured.template in counted
            and not _drawn_in_part(structure, measured)
        ]
        for region in (*REGIONS, "all"):
            cells = [
                mean_and_median(e for r, g, e in rows if g == group and region in (r, "all"))
                for group in ("centre", "extreme")
            ]
            print(f"| {name:24} | {region:10} | {cells[0]:26} | {cells[1]:23} |", flush=True)
        if len(landmarks := result.errors(name, "landmark")):
            print(
                f"| {name:24} | follow-up  | {np.nanmean(landmarks):6.1f} / {np.nanmedian(landmarks):5.1f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
