"""`anatemb evaluate` with other methods measured as well, and on the lesion pairs of Deep Lesion Tracker (DLT).

Every option of `anatemb evaluate landmarks`, `boxes` and `registration` can be given. Needs the extra `bench`.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from comparison.dlt import match_images, read_pairs, score_predictions
from comparison.peers import (
    BODY_CENTRE,
    ELASTIX_AFFINE,
    PEERS,
    REGISTRATION_PEERS,
    make_peers,
    peer_boxes,
)  # fmt: skip

from AnatomicalEmbedding.cli import evaluate
from AnatomicalEmbedding.cli.console import complete, open_model, progress_bar
from AnatomicalEmbedding.cli.main import build_parser
from AnatomicalEmbedding.errors import AnatomicalEmbeddingError
from AnatomicalEmbedding.scan.sources import distinct_names


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one comparison; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("landmarks", "boxes", "registration", "dlt"))
    parser.add_argument(
        "--peers", choices=("all", "fast"), default="all", help="fast: without elastix B-spline, SyN and ConvexAdam"
    )
    own, further = parser.parse_known_args(arguments)
    fast = own.peers == "fast"
    try:
        if own.what == "dlt":
            options = _dlt_parser().parse_args(further)
            options.run(options)
            return 0
        options = build_parser().parse_args(["evaluate", own.what, *further])
        if own.what == "landmarks":
            evaluate.run_landmarks(options, *make_peers((BODY_CENTRE, ELASTIX_AFFINE) if fast else PEERS))
        elif own.what == "boxes":
            evaluate.run_boxes(options, peer_boxes())
        else:
            evaluate.run_registration(options, *make_peers((ELASTIX_AFFINE,) if fast else REGISTRATION_PEERS))
    except AnatomicalEmbeddingError as error:
        print(f"compare: {error}", file=sys.stderr)
        return 2
    return 0


def _dlt_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="compare.py dlt")
    parser.add_argument("truth", type=Path, metavar="FILE", help="DLT's test.json or valid.json (not shipped)")
    parser.add_argument("--predictions", type=Path, action="append", default=[], metavar="FILE", help="as DLTMix.json")
    parser.add_argument("--images", type=Path, metavar="DIR", help="DeepLesion's scans as NIfTI, to be matched here")
    parser.add_argument("--effort", choices=("coordinates", "fast", "standard", "thorough"), default="standard")
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="write the result as .json or .md too")
    complete(parser, _run_dlt)
    return parser


def _run_dlt(options: argparse.Namespace) -> None:
    truth = read_pairs(options.truth)
    names = distinct_names(options.predictions)
    found = {name: read_pairs(path) for name, path in zip(names, options.predictions, strict=True)}
    if options.images is not None:
        model = open_model(options)
        with progress_bar("pairs", options.json) as progress:
            found[f"{model.name}, {options.effort}"] = match_images(
                truth, options.images, model, options.effort, progress
            )
    evaluate.finish(score_predictions(truth, found), options)


if __name__ == "__main__":
    sys.exit(main())
