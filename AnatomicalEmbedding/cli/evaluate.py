"""anatemb evaluate: accuracy by published protocols on labelled scans and synthetic patients."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import AnatomicalEmbeddingError
from ..files import write_text
from .console import at_least, complete, names_in, open_model, progress_bar, say

if TYPE_CHECKING:
    from ..evaluation.protocol import Matcher
    from ..structures.cross_validation import PeerBoxes


def add_to(commands: argparse._SubParsersAction) -> None:
    parser = commands.add_parser("evaluate", help="measure accuracy on labelled scans or synthetic patients")
    kinds = parser.add_subparsers(title="what to evaluate", metavar="WHAT", required=True)

    landmarks = kinds.add_parser(
        "landmarks",
        help="organ centres, extreme points and landmarks of a labelled folder",
        description="DIR holds scans NAME.nii.gz with NAME.seg.nii.gz + NAME.labels.json (organs) or "
        "NAME.landmarks.json (points). Every template x target pair is measured.",
    )
    landmarks.add_argument("folder", type=Path, metavar="DIR")
    landmarks.add_argument(
        "--compare", action="append", default=[], metavar="NAME|FILE", help="further weights to measure"
    )
    landmarks.add_argument(
        "--shots",
        type=at_least(1),
        default=1,
        metavar="N",
        help="combine the answers of up to N templates (default: 1)",
    )
    landmarks.add_argument(
        "--templates", type=Path, metavar="DIR", help="further labelled scans, used as templates only"
    )
    landmarks.add_argument("--each-effort", action="store_true", help="also measure the other efforts of matching")

    phantoms = kinds.add_parser(
        "phantoms",
        help="named points of synthetic patients, fields of view cut in half included",
        description="Synthetic patients of unseen seeds, every ordered pair: whole, lower half and upper half scans.",
    )
    phantoms.add_argument("--count", type=int, default=6, metavar="N", help="patients (default: 6)")
    phantoms.add_argument("--seed", type=int, default=50_000, help="of the first patient (default: 50000)")

    confidence = kinds.add_parser(
        "confidence",
        help="whether the stated errors and probabilities are true, on a labelled folder",
        description="Matches every template with every target of DIR, whole and cut, so that some points are absent.",
    )
    confidence.add_argument("folder", type=Path, metavar="DIR")

    boxes = kinds.add_parser(
        "boxes",
        help="boxes of structures from a few examples, cross-validated",
        description="Every whole structure of every scan of DIR (or of synthetic patients) is located by examples of "
        "other patients: overlap (IoU), recall with stated margins, and how many times smaller the crop is (VR).",
    )
    boxes.add_argument(
        "folder", type=Path, nargs="?", metavar="DIR", help="labelled scans; default: synthetic patients"
    )
    boxes.add_argument("--templates", type=Path, metavar="DIR", help="further labelled scans, as examples alone")
    boxes.add_argument("--shots", type=int, default=5, metavar="N", help="examples for each structure (default: 5)")
    boxes.add_argument("--library", action="store_true", help="by the shipped library instead of examples")
    boxes.add_argument("--count", type=int, default=30, metavar="N", help="synthetic patients (default: 30)")
    boxes.add_argument("--seed", type=int, default=80_000, help="of the first one (default: 80000)")

    registration = kinds.add_parser(
        "registration",
        help="registration: labels carried over (Dice), landmarks, folding",
        description="Every ordered pair of scans of DIR that share whole structures (different patients) or landmarks "
        "(one patient) is registered, by every kind of registration.",
    )
    registration.add_argument("folder", type=Path, metavar="DIR")

    lesions = kinds.add_parser(
        "lesions",
        help="lesion follow-up: places, which lesion is which, what became of them",
        description="Synthetic patients with lesions that grow, vanish, come, split and merge between scans. Centre "
        "point matching rates are printed in all three meanings that papers give them.",
    )
    lesions.add_argument("--phantoms", type=int, default=20, metavar="N", help="synthetic patients (default: 20)")
    lesions.add_argument("--seed", type=int, default=120_000, help="of the first one (default: 120000)")
    lesions.add_argument("--studies", type=int, default=2, metavar="N", help="scans of each patient (default: 2)")

    words = kinds.add_parser(
        "words",
        help="places by words: points in the structure, wrong sides, levels of vertebrae and ribs, regions",
        description="Every structure of every labelled scan of DIR is found by its name. IOR: share of points inside "
        "the structure; NVD: mean distance to it; NVD-O: over the misses.",
    )
    words.add_argument("folder", type=Path, metavar="DIR")

    points = kinds.add_parser(
        "points",
        help="points derived from outlines (carina, poles, tips, femoral heads ...), by matching and by words",
        description="What the label maps of DIR show: where the airway forks, the ends of organs, the heads of femora. "
        "Each is looked for from each other patient's scan, and by its name.",
    )
    points.add_argument("folders", type=Path, nargs="+", metavar="DIR")

    segmentation = kinds.add_parser(
        "segmentation",
        help="outlines learned from 1, 2, 5 and 10 scans: overlap, volumes, whether the predicted Dice is true",
        description="Some patients of LABELLED are tested, M of the others, as far as there are so many, are the "
        "examples. Labels carried over by registration alone are measured as well.",
    )
    segmentation.add_argument("folder", type=Path, metavar="LABELLED")
    segmentation.add_argument("--structures", metavar="A,B,...", help="default: all that the scans outline")
    segmentation.add_argument(
        "--shots", type=_numbers, default="1,2,5,10", metavar="M,...", help="examples (default: 1,2,5,10)"
    )
    segmentation.add_argument("--tests", type=at_least(1), metavar="N", help="patients to test (default: half of all)")
    segmentation.add_argument("--seed", type=at_least(0), default=0, help="of the split and of training (default: 0)")

    for part in (phantoms, confidence, lesions):
        part.add_argument(
            "--effort",
            choices=("coordinates", "fast", "standard", "thorough"),
            default="standard",
            help="how far matching goes",
        )
    runs = (
        run_landmarks,
        run_phantoms,
        run_confidence,
        run_boxes,
        run_registration,
        run_lesions,
        run_words,
        run_points,
        run_segmentation,
    )
    parts = (landmarks, phantoms, confidence, boxes, registration, lesions, words, points, segmentation)
    for part, run in zip(parts, runs, strict=True):
        part.add_argument("-o", "--output", type=Path, metavar="FILE", help="write the result as .json or .md too")
        complete(part, run)


def _numbers(text: str) -> list[int]:
    """An argparse type: whole numbers of 1 or more with commas between them; each once, rising."""
    return sorted({at_least(1)(part) for part in text.split(",")})


def run_landmarks(
    options: argparse.Namespace, peers: Mapping[str, Matcher] | None = None, notes: Sequence[str] = ()
) -> None:
    """peers: other methods to measure as well, by name. notes: sentences to print with the result."""
    from ..evaluation.protocol import EmbeddingMatcher, evaluate_landmarks
    from ..evaluation.results import few_shot
    from ..matching.match import EFFORTS
    from ..structures.labelled_scans import load_cases

    if options.shots < 1:
        raise AnatomicalEmbeddingError(f"--shots {options.shots}: give the number of templates, 1 or more.")
    cases = load_cases(options.folder)
    templates = load_cases(options.templates) if options.templates else []
    matchers: dict[str, object] = {}
    for name in dict.fromkeys([options.model, *options.compare]):
        model = open_model(options, name)
        model.cache = None  # embedding is timed
        shown = model.name if model.name not in matchers else name
        matchers[shown] = matcher = EmbeddingMatcher(model)
        if options.each_effort:
            matchers |= {f"{shown}, {e}": matcher.with_effort(e) for e in EFFORTS if e != matcher.effort}
    matchers |= peers or {}
    with progress_bar("pairs", options.json) as progress:
        result = evaluate_landmarks(cases, matchers, progress, notes, templates)
    finish(result if options.shots == 1 else few_shot(result, options.shots), options)


def run_phantoms(options: argparse.Namespace) -> None:
    from ..evaluation.phantoms import evaluate_phantoms

    if options.count < 2 or options.seed < 0:
        raise AnatomicalEmbeddingError("--count must be 2 or more (patients are compared in pairs), --seed 0 or more.")
    model = open_model(options)
    with progress_bar("phantoms", options.json) as progress:
        result = evaluate_phantoms(
            model, range(options.seed, options.seed + options.count), progress, effort=options.effort
        )
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
    """peers: boxes by other methods, to measure as well."""
    from ..evaluation.boxes import BoxResult, find_by_library
    from ..structures.cross_validation import find_boxes
    from ..structures.examples import labelled_boxes, phantom_boxes
    from ..structures.labelled_scans import load_cases
    from ..structures.library import shipped_library

    if options.shots < 1 or options.count < 2:
        raise AnatomicalEmbeddingError("--shots must be 1 or more, --count 2 or more.")
    if options.library and (peers or options.templates):
        raise AnatomicalEmbeddingError("--library brings its own examples; leave --templates out.")
    model = open_model(options)
    library = shipped_library(model.weights_hash)
    if library is None:
        raise AnatomicalEmbeddingError(
            f"{model.name}: no structure library, and so no margins, ship for these weights."
        )
    seeds = range(options.seed, options.seed + options.count)
    cases = list(labelled_boxes(load_cases(options.folder)) if options.folder else phantom_boxes(seeds))
    templates = list(labelled_boxes(load_cases(options.templates))) if options.templates else []
    with progress_bar("boxes", options.json) as progress:
        if options.library:
            found, seconds = find_by_library(cases, model, library, progress)
        else:
            found, seconds = find_boxes(cases, model, options.shots, templates, peers, progress)
    margins = library.margins if options.library else library.example_margins
    finish(BoxResult(model.name, tuple(found), margins, (0.9, 0.99), seconds), options)


def run_registration(
    options: argparse.Namespace, peers: Mapping[str, Matcher] | None = None, notes: Sequence[str] = ()
) -> None:
    """peers, notes: as for `run_landmarks`."""
    from ..evaluation.protocol import EmbeddingMatcher
    from ..evaluation.registration import RegistrationMatcher, evaluate_registration
    from ..registration import KINDS
    from ..structures.labelled_scans import load_cases

    cases = load_cases(options.folder)
    model = open_model(options)
    model.cache = None  # embedding is timed
    maps = EmbeddingMatcher(model)
    methods: dict[str, object] = {f"ours, {kind}": RegistrationMatcher(maps, kind, model.device) for kind in KINDS}
    methods |= peers or {}
    with progress_bar("pairs", options.json) as progress:
        result = evaluate_registration(cases, methods, progress, notes)
    finish(result, options)


def run_words(options: argparse.Namespace) -> None:
    from ..evaluation.words import evaluate_words
    from ..structures.labelled_scans import load_cases

    model = open_model(options)
    with progress_bar("scans", options.json) as progress:
        result = evaluate_words(load_cases(options.folder), model, progress)
    finish(result, options)


def run_points(options: argparse.Namespace) -> None:
    from ..evaluation.points import evaluate_points
    from ..structures.labelled_scans import load_cases

    model = open_model(options)
    with progress_bar("points", options.json) as progress:
        cases = [case for folder in options.folders for case in load_cases(folder)]
        result = evaluate_points(cases, model, progress)
    finish(result, options)


def run_segmentation(options: argparse.Namespace) -> None:
    from ..evaluation.segmentation import evaluate_segmentation
    from ..segmentation.examples import read_examples

    examples = read_examples(options.folder, names_in(options.structures) or None)
    model = open_model(options)
    with progress_bar("segmentation", options.json) as progress:
        result = evaluate_segmentation(examples, model, options.seed, options.shots, options.tests, progress=progress)
    finish(result, options)


def run_lesions(options: argparse.Namespace) -> None:
    from ..evaluation.lesions import evaluate_follow_ups

    if options.phantoms < 1 or options.studies < 2 or options.seed < 0:
        raise AnatomicalEmbeddingError("--phantoms must be 1 or more, --studies 2 or more, --seed 0 or more.")
    model = open_model(options)
    model.cache = None  # embedding is timed
    seeds = range(options.seed, options.seed + options.phantoms)
    with progress_bar("patients", options.json) as progress:
        result = evaluate_follow_ups(model, seeds, options.studies, options.effort, progress)
    finish(result, options)


def finish(result, options: argparse.Namespace) -> None:
    """Print a result, and write it where -o asks for it."""
    print(result.to_json() if options.json else result.table())
    if options.output is not None:
        write_text(options.output, result.markdown() if options.output.suffix == ".md" else result.to_json())
        say(f"wrote {options.output}", options.json)
