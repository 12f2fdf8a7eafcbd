"""Measure other methods and ours, as `anatemb evaluate` measures ours. Needs the packages of the extra `bench`.

All options of `anatemb evaluate landmarks` and `anatemb evaluate boxes` can be given.
"""

import argparse
import sys
from collections.abc import Sequence
from copy import copy
from pathlib import Path

from comparison.peers import (
    BODY_CENTRE,
    ELASTIX_AFFINE,
    PEERS,
    REGISTRATION_PEERS,
    make_peers,
    peer_boxes,
)
from evaluations.registration import PairMatcher, RegistrationMatcher, evaluate_registration

from AnatomicalEmbedding.cli.arguments import complete
from AnatomicalEmbedding.cli.console import open_model, progress_bar
from AnatomicalEmbedding.cli.evaluate import finish, run_boxes, run_landmarks
from AnatomicalEmbedding.cli.main import build_parser, run_command
from AnatomicalEmbedding.evaluation.protocol import EmbeddingMatcher, Matcher
from AnatomicalEmbedding.matching import EFFORTS
from AnatomicalEmbedding.registration import KINDS
from AnatomicalEmbedding.structures.labelled_scans import load_cases


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one comparison; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kind", choices=("landmarks", "boxes", "registration"))
    parser.add_argument(
        "--peers",
        choices=("all", "fast"),
        default="all",
        help="fast: without elastix B-spline and SyN",
    )
    parser.add_argument(
        "--each-effort", action="store_true", help="landmarks: also the other efforts of matching"
    )
    own, further = parser.parse_known_args(arguments)
    if own.kind == "registration":
        options = _registration_parser().parse_args(further)
    else:
        options = build_parser().parse_args(["evaluate", own.kind, *further])
    options.run = lambda given: _run(own, given)
    return run_command(options)


def _run(own: argparse.Namespace, options: argparse.Namespace) -> None:
    fast = own.peers == "fast"
    if own.kind == "boxes":
        run_boxes(options, peer_boxes())
    elif own.kind == "landmarks":
        peers, notes = make_peers((BODY_CENTRE, ELASTIX_AFFINE) if fast else PEERS)
        if own.each_effort:
            maps = EmbeddingMatcher(open_model(options), options.effort)
            for effort in EFFORTS:
                if effort != options.effort:
                    peers[f"ours, {effort}"] = other = copy(maps)  # shares the maps of scans
                    other.effort = effort
        run_landmarks(options, peers, notes)
    else:
        peers, notes = make_peers((ELASTIX_AFFINE,) if fast else REGISTRATION_PEERS)
        model = open_model(options)
        maps = EmbeddingMatcher(model)
        methods: dict[str, Matcher] = {
            f"ours, {kind}": RegistrationMatcher(maps, kind, model.device) for kind in KINDS
        }
        methods |= {"ours, pair": PairMatcher(maps)} | peers
        with progress_bar("pairs", options.json) as progress:
            finish(
                evaluate_registration(load_cases(options.folder), methods, progress, notes), options
            )


def _registration_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="compare.py registration")
    parser.add_argument("folder", type=Path, metavar="DIR", help="labelled scans")
    parser.add_argument(
        "-o", "--output", type=Path, metavar="FILE", help="also write the result as .json or .md"
    )
    complete(parser, _run)
    return parser


if __name__ == "__main__":
    sys.exit(main())
