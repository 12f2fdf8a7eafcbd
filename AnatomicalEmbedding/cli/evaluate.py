"""anatemb evaluate: measure accuracy on your own labelled scans."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..errors import AnatomicalEmbeddingError
from ..files import write_text
from .arguments import add_count, add_path, complete
from .console import open_model, progress_bar, say, warn

if TYPE_CHECKING:
    from ..evaluation.protocol import Matcher
    from ..structures.cross_validation import PeerBoxes


def add_to(commands: argparse._SubParsersAction) -> None:
    parser = commands.add_parser(
        "evaluate",
        help="measure accuracy on labelled scans",
        description="DIR contains scans NAME.nii.gz. Each scan has NAME.seg.nii.gz and NAME.labels.json (organs), or "
        "NAME.landmarks.json (points). Films NAME.png or NAME.tif have landmarks only.",
    )
    kinds = parser.add_subparsers(title="kinds of accuracy", metavar="KIND", required=True)
    landmarks = _add_kind(
        kinds,
        "landmarks",
        run_landmarks,
        "Errors of organ centres, extreme points and landmarks: the points of every template are found in every "
        "target and compared with the true points.",
        "effort",
    )
    add_path(landmarks, "--templates", "DIR", "more labelled scans, used only as templates")
    _add_kind(
        kinds,
        "confidence",
        run_confidence,
        "Correctness of expected errors and probabilities: every template is matched with every target, and "
        "with cropped copies of the target, in which some points are absent.",
        "effort",
    )
    boxes = _add_kind(
        kinds,
        "boxes",
        run_boxes,
        "Accuracy of boxes: every structure that lies completely in a scan is located with examples from other "
        "patients. Measures the overlap with the true box (IoU), the recall, and the volume of the scan divided by the "
        "volume of the box (VR).",
    )
    add_path(boxes, "--templates", "DIR", "more labelled scans, used for examples only")
    add_count(boxes, "--shots", 5, "examples per structure")
    boxes.add_argument(
        "--library", action="store_true", help="use the shipped library instead of examples"
    )


def _add_kind(
    kinds: Any, name: str, run: Callable[[argparse.Namespace], None], description: str, *shared: str
) -> argparse.ArgumentParser:
    """Add a subcommand. Its short help is its description up to the first colon. shared: as for `complete`."""
    parser = kinds.add_parser(
        name,
        help=description[0].lower() + description[1:].partition(":")[0],
        description=description,
    )
    add_path(parser, "folder", "DIR", "labelled scans")
    add_path(parser, "-o --output", "FILE", "also write the result as JSON")
    complete(parser, run, *shared)
    return parser


def run_landmarks(
    options: argparse.Namespace,
    peers: Mapping[str, Matcher] | None = None,
    notes: Sequence[str] = (),
) -> None:
    """Measure landmark errors of the weights.

    Args:
        options: options of the command.
        peers: name -> other method, for comparison.
        notes: printed with the result.
    """
    from ..evaluation.protocol import EmbeddingMatcher, evaluate_landmarks
    from ..scan.film import is_picture
    from ..structures.labelled_scans import load_cases

    cases = load_cases(options.folder)
    templates = load_cases(options.templates) if options.templates else []
    model = open_model(options, films=any(is_picture(case.path) for case in cases))
    model.cache = None  # every scan is embedded, because the time of embedding is measured
    matchers = {model.name: EmbeddingMatcher(model, options.effort)} | dict(peers or {})
    with progress_bar("pairs", options.json) as progress:
        result = evaluate_landmarks(cases, matchers, progress, notes, templates)
    finish(result, options)


def run_confidence(options: argparse.Namespace) -> None:
    """Measure whether expected errors and probabilities are right."""
    from ..evaluation.confidence import judge_trials, summarise_confidence
    from ..structures.label_names import GROUPS
    from ..structures.labelled_scans import load_cases
    from ..training.known_matches import labelled_trials

    model = open_model(options)
    cases = load_cases(options.folder)
    judged = judge_trials(labelled_trials(cases, model.embed, GROUPS, warn), options.effort)
    finish(summarise_confidence(judged, f"{model.name}, {options.effort}"), options)


def run_boxes(options: argparse.Namespace, peers: PeerBoxes | None = None) -> None:
    """Measure the accuracy of boxes. peers: a function that finds boxes with other methods, for comparison."""
    from ..evaluation.boxes import BoxResult, find_by_library
    from ..structures.box_finder import open_library
    from ..structures.cross_validation import find_boxes
    from ..structures.examples import labelled_boxes
    from ..structures.labelled_scans import load_cases

    if options.library and (peers or options.templates):
        raise AnatomicalEmbeddingError(
            "--library and --templates cannot be used together; leave out one of the two."
        )
    model = open_model(options)
    library = open_library(model.weights_hash, model.name, weights=model.path)
    cases = list(labelled_boxes(load_cases(options.folder)))
    templates = list(labelled_boxes(load_cases(options.templates))) if options.templates else []
    with progress_bar("boxes", options.json) as progress:
        if options.library:
            boxes, seconds = find_by_library(cases, model, library, progress)
        else:
            boxes, seconds = find_boxes(cases, model, options.shots, templates, peers, progress)
    margins = library.margins if options.library else library.example_margins
    finish(BoxResult(model.name, tuple(boxes), margins, seconds), options)


def finish(result: Any, options: argparse.Namespace) -> None:
    """Print a result. If the option -o names a file, also write the result to this file."""
    print(result.to_json() if options.json else result.table())
    if options.output is not None:
        write_text(options.output, result.to_json())
        say(f"wrote {options.output}", options.json)
