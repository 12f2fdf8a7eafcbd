"""Measure the accuracy for lesions, synthetic patients and outlines.

Users have no command for these measurements.

    python Testing/benchmarks/evaluate.py lesions | phantoms [--count N] [--seed N] [--same-patient]
    python Testing/benchmarks/evaluate.py segmentation LABELLED

`anatemb evaluate` measures landmarks, confidence and boxes. `compare.py` measures registration.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from AnatomicalEmbedding.cli.arguments import at_least, complete
from AnatomicalEmbedding.cli.console import open_model, progress_bar
from AnatomicalEmbedding.cli.evaluate import finish
from AnatomicalEmbedding.cli.main import run_command
from AnatomicalEmbedding.segmentation.examples import read_examples

sys.path.append(str(Path(__file__).resolve().parents[1]))
from evaluations.lesions import evaluate_follow_ups
from evaluations.phantoms import evaluate_phantoms
from evaluations.segmentation import evaluate_segmentation

SEEDS = {"phantoms": 50_000, "lesions": 120_000}
COUNTS = {"phantoms": 6, "lesions": 20}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one evaluation; returns the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("kind", choices=("lesions", "phantoms", "segmentation"))
    parser.add_argument("folder", type=Path, nargs="?", metavar="LABELLED", help="labelled scans")
    parser.add_argument("--count", type=at_least(2), metavar="N", help="synthetic patients")
    parser.add_argument(
        "--seed", type=at_least(0), metavar="N", help="of the first patient, or of the split"
    )
    parser.add_argument(
        "--same-patient",
        action="store_true",
        help="of lesions: register the two scans of each patient",
    )
    parser.add_argument(
        "-o", "--output", type=Path, metavar="FILE", help="also write the result as .json or .md"
    )
    complete(parser, _run, "effort")
    options = parser.parse_args(arguments)
    if (options.folder is None) == (options.kind not in SEEDS):
        parser.error("give a folder of labelled scans for segmentation, and no folder otherwise")
    return run_command(options)


def _run(options: argparse.Namespace) -> None:
    model = open_model(options)
    with progress_bar(options.kind, options.json) as progress:
        if options.kind in SEEDS:
            first = SEEDS[options.kind] if options.seed is None else options.seed
            seeds = range(first, first + (options.count or COUNTS[options.kind]))
            more = {"effort": options.effort, "progress": progress}
            if options.kind == "phantoms":
                result = evaluate_phantoms(model, seeds, **more)
            else:
                result = evaluate_follow_ups(
                    model, seeds, **more, same_patient=options.same_patient
                )
        else:
            result = evaluate_segmentation(
                read_examples(options.folder), model, options.seed or 0, progress=progress
            )
    finish(result, options)


if __name__ == "__main__":
    sys.exit(main())
