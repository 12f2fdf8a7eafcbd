"""anatemb evaluate: measure accuracy on your own labelled scans."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import AnatomicalEmbeddingError
from ..files import write_text
from .console import at_least, complete, open_model, progress_bar, say

if TYPE_CHECKING:
    from ..evaluation.protocol import Matcher
    from ..structures.cross_validation import PeerBoxes


def add_to(commands: argparse._SubParsersAction) -> None:
    parser = commands.add_parser(
        "evaluate",
        help="measure accuracy on labelled scans",
        description="DIR holds scans NAME.nii.gz with NAME.seg.nii.gz + NAME.labels.json (organs), or with "
        "NAME.landmarks.json (points).",
    )
    kinds = parser.add_subparsers(title="kinds of accuracy", metavar="KIND", required=True)
    landmarks = _add_kind(
        kinds, "landmarks", run_landmarks, "effort",
        about="Organ centres, extreme points and landmarks: every template x target pair is measured.",
    )  # fmt: skip
    landmarks.add_argument("--templates", type=Path, metavar="DIR", help="further labelled scans, as templates alone")
    _add_kind(
        kinds, "confidence", run_confidence, "effort",
        about="Whether stated errors and probabilities are true: every template is matched with every target, whole "
        "and cut, so that some points are absent.",
    )  # fmt: skip
    boxes = _add_kind(
        kinds, "boxes", run_boxes,
        about="Boxes from a few examples: every whole structure is located by examples of other patients. Overlap "
        "(IoU), recall with stated margins, and how many times smaller the crop is (VR).",
    )  # fmt: skip
    boxes.add_argument("--templates", type=Path, metavar="DIR", help="further labelled scans, as examples alone")
    boxes.add_argument("--shots", type=at_least(1), default=5, metavar="N", help="examples a structure (default: 5)")
    boxes.add_argument("--library", action="store_true", help="by the shipped library instead of examples")


def _add_kind(
    kinds: Any, name: str, run: Callable[[argparse.Namespace], None], *shared: str, about: str
) -> argparse.ArgumentParser:
    parser = kinds.add_parser(name, help=about[0].lower() + about[1:].partition(":")[0], description=about)
    parser.add_argument("folder", type=Path, metavar="DIR", help="labelled scans")
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="write the result as .json or .md too")
    complete(parser, run, *shared)
    return parser


def run_landmarks(
    options: argparse.Namespace, peers: Mapping[str, Matcher] | None = None, notes: Sequence[str] = ()
) -> None:
    """Measure landmarks. peers: name -> other method to measure as well. notes: sentences to print with the result."""
    from ..evaluation.protocol import EmbeddingMatcher, evaluate_landmarks
    from ..structures.labelled_scans import load_cases

    cases = load_cases(options.folder)
    templates = load_cases(options.templates) if options.templates else []
    model = open_model(options)
    model.cache = None  # the time of embedding is measured
    matchers = {model.name: EmbeddingMatcher(model, options.effort)} | dict(peers or {})
    with progress_bar("pairs", options.json) as progress:
        result = evaluate_landmarks(cases, matchers, progress, notes, templates)
    finish(result, options)


def run_confidence(options: argparse.Namespace) -> None:
    from ..evaluation.confidence import judge_trials, summarise_confidence
    from ..structures.labelled_scans import load_cases
    from ..training.known_matches import labelled_trials

    model = open_model(options)
    cases = load_cases(options.folder)
    judged = judge_trials(labelled_trials(cases, model.embed), options.effort)
    finish(summarise_confidence(judged, f"{model.name}, {options.effort}"), options)


def run_boxes(options: argparse.Namespace, peers: PeerBoxes | None = None) -> None:
    """Measure boxes. peers: boxes found by other methods, which are measured as well."""
    from ..evaluation.boxes import BoxResult, find_by_library
    from ..structures.box_finder import open_library
    from ..structures.cross_validation import find_boxes
    from ..structures.examples import labelled_boxes
    from ..structures.labelled_scans import load_cases

    if options.library and (peers or options.templates):
        raise AnatomicalEmbeddingError("--library brings its own examples; leave --templates out.")
    model = open_model(options)
    library = open_library(model.weights_hash, model.name)
    cases = list(labelled_boxes(load_cases(options.folder)))
    templates = list(labelled_boxes(load_cases(options.templates))) if options.templates else []
    with progress_bar("boxes", options.json) as progress:
        if options.library:
            found, seconds = find_by_library(cases, model, library, progress)
        else:
            found, seconds = find_boxes(cases, model, options.shots, templates, peers, progress)
    margins = library.margins if options.library else library.example_margins
    finish(BoxResult(model.name, tuple(found), margins, seconds), options)


def finish(result: Any, options: argparse.Namespace) -> None:
    """Print a result, and write it to the file of the option -o if it is given."""
    print(result.to_json() if options.json else result.table())
    if options.output is not None:
        write_text(options.output, result.markdown() if options.output.suffix == ".md" else result.to_json())
        say(f"wrote {options.output}", options.json)
