"""anatemb calibrate: learn how reliable matches with your own weights are, from matches whose true error is known."""

import argparse
from pathlib import Path

from ..errors import AnatomicalEmbeddingError
from .console import at_least, complete, open_model, progress_bar, say

_PHANTOM_SEED = 70_000


def add_to(commands: argparse._SubParsersAction) -> None:
    parser = commands.add_parser(
        "calibrate",
        help="learn how reliable answers by your own weights are",
        description="Matches scans of DATA with bent and cut copies of themselves, labelled scans among them with one "
        "another, and synthetic patients, all with known truth, and learns from the outcome how exact an answer is "
        "likely to be and when a point is not in a scan. Writes NAME.calibration.safetensors next to the weights, "
        "where every command finds it. Takes some seconds a scan.",
    )
    add = parser.add_argument
    add("data", type=Path, nargs="+", metavar="DATA", help="folders of CTs, some with labels")
    add("-o", "--output", type=Path, metavar="FILE", help="default: next to the weights file")
    add("--phantoms", type=at_least(0), default=10, metavar="N", help="synthetic patients (default: 10)")
    complete(parser, run, json=False)


def run(options: argparse.Namespace) -> None:
    from ..embedding.calibration import SUFFIX, calibration_file
    from ..training.calibrate import collect

    if options.phantoms == 1:
        raise AnatomicalEmbeddingError("--phantoms must be 0 or at least 2 (patients are compared in pairs).")
    weights = Path(options.model)
    if options.output is None and weights.suffix != ".safetensors":
        raise AnatomicalEmbeddingError(f"{options.model}: shipped weights stay as they are; give a file with -o.")
    output = options.output or calibration_file(weights)
    if not output.name.endswith(SUFFIX):
        raise AnatomicalEmbeddingError(f"{output}: must be named NAME{SUFFIX}.")
    model = open_model(options)
    with progress_bar("calibrating") as progress:
        calibration = collect(model, options.data, range(_PHANTOM_SEED, _PHANTOM_SEED + options.phantoms), progress)
    output.parent.mkdir(parents=True, exist_ok=True)
    calibration.save(output)
    for source, matches in calibration.about["matches"].items():
        say(f"{source}: {matches} matches")
    for sentence in calibration.about["skipped"]:
        say(f"skipped: {sentence}")
    say(f"wrote {output}")
