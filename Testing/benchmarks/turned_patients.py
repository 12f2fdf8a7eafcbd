"""Measure how exactly organ centres are found in patients who lie turned, as they lie and embedded straight.

python Testing/benchmarks/turned_patients.py DIR [--source kbp] [--targets 6]

The headers of labelled scans of one source are turned about S; centres of three other scans of the source
are found in them.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import numpy as np
from regions import mean_and_median
from scipy.spatial.transform import Rotation

from AnatomicalEmbedding import load_model
from AnatomicalEmbedding.embedding import straightening
from AnatomicalEmbedding.matching.match import match
from AnatomicalEmbedding.structures.labelled_scans import load_cases, source_of

_TURNS = (0, 12, 20)  # degrees about S
_TEMPLATES = 3
_STRAIGHTENING = "AnatomicalEmbedding.embedding.inference.straightened"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--source", default="kbp")
    parser.add_argument("--targets", type=int, default=6)
    options = parser.parse_args()
    cases = [case for case in load_cases(options.folder) if source_of(case.id) == options.source]
    model = load_model("ct-open", "cpu")
    rng = np.random.default_rng(1)
    targets = cases[:: max(len(cases) // options.targets, 1)]
    templates = [
        [
            (case, model.embed(case.volume))
            for case in rng.permutation([other for other in cases if other is not target])[
                :_TEMPLATES
            ]
        ]
        for target in targets
    ]
    ways: dict[str, Callable] = {
        "as they lie": lambda embedding, *_: embedding,
        "straight": straightening.straightened,
    }
    print("| degrees | embedded | error, mm, mean / median (n) |")
    for degrees in _TURNS:
        turn = np.eye(4)
        turn[:3, :3] = Rotation.from_euler("z", degrees, degrees=True).as_matrix()
        for name, way in ways.items():
            errors: list[float] = []
            for target, pairs in zip(targets, templates, strict=True):
                volume = replace(target.volume, ijk_to_ras=turn @ target.volume.ijk_to_ras)
                with patch(_STRAIGHTENING, way):
                    embedding = model.embed(volume)
                for template, template_map in pairs:
                    shared = target.structures.keys() & template.structures.keys()
                    places = np.array(
                        [(template.structures[s][0], target.structures[s][0]) for s in shared]
                    )
                    places = places[np.isfinite(places).all(axis=(1, 2))]
                    answers = match(template_map, places[:, 0], embedding).points_ras
                    true = places[:, 1] @ turn[:3, :3].T
                    errors += np.linalg.norm(answers - true, axis=1).tolist()
            print(f"| {degrees} | {name} | {mean_and_median(errors)} |", flush=True)


if __name__ == "__main__":
    main()
