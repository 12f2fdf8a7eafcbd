"""anatemb calibrate: learn the reliability of your own weights from matches whose true error is known."""

import argparse
from pathlib import Path

from ..errors import AnatomicalEmbeddingError
from .arguments import add_count, add_path, complete
from .console import open_model, progress_bar, say


def add_to(commands: argparse._SubParsersAction) -> None:
    parser = commands.add_parser(
        "calibrate",
        help="learn the reliability of answers with your own weights",
        description="Matches each scan of DATA with deformed and cropped copies of itself, labelled scans with each "
        "other, and synthetic patients with each other. The true places of all points are known. From the errors, the "
        "command learns to estimate the error of an answer, and to recognise points that a scan does not show. It "
        "writes NAME.calibration.safetensors next to the weights, where every command finds this file. Each scan takes "
        "some seconds.",
    )
    add_path(parser, "data", "DATA", "folders of CTs, with or without labels", nargs="+")
    default = "file to write (default: next to the weights file)"
    add_path(parser, "-o --output", "FILE", default)
    add_count(parser, "--phantoms", 10, "number of synthetic patients", least=0)
    add_path(parser, "--atlas", "FILE", "for films: the CT that was the atlas of the training")
    parser.add_argument(
        "--align-with",
        default="auto",
        metavar="NAME|FILE",
        help="for films: weights that register the CTs",
    )
    complete(parser, run, json=False)


def run(options: argparse.Namespace) -> None:
    from ..embedding.calibration import SUFFIX, calibration_file
    from ..films.known_films import calibrate_films
    from ..training.calibrate import PHANTOM_SEED, collect

    if options.phantoms == 1:
        raise AnatomicalEmbeddingError(
            "--phantoms 1: synthetic patients are compared in pairs; give 0 or at least 2."
        )
    weights = Path(options.model)
    if options.output is None and weights.suffix != ".safetensors":
        raise AnatomicalEmbeddingError(
            f"{options.model}: the calibration of shipped weights cannot be overwritten; name the new file with -o."
        )
    output = options.output or calibration_file(weights)
    if not output.name.endswith(SUFFIX):
        raise AnatomicalEmbeddingError(
            f"{output}: this name must end in {SUFFIX}; change the name after -o."
        )
    model = open_model(options)
    seeds = range(PHANTOM_SEED, PHANTOM_SEED + options.phantoms)
    if model.network.spec.planar and options.atlas is None:
        raise AnatomicalEmbeddingError(
            f"{options.model}: are weights for films; give the atlas with --atlas."
        )
    with progress_bar("calibrating") as progress:
        if model.network.spec.planar:
            calibration = calibrate_films(
                model, options.data, options.atlas, options.align_with, seeds, progress
            )
        else:
            calibration = collect(model, options.data, seeds, progress)
    output.parent.mkdir(parents=True, exist_ok=True)
    calibration.save(output)
    for source, matches in calibration.metadata["matches"].items():
        say(f"{source}: {matches} matches")
    for sentence in calibration.metadata["skipped"]:
        say(f"skipped: {sentence}")
    say(f"wrote {output}")
