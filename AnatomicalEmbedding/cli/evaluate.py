"""anatemb evaluate: accuracy by published protocols on labelled scans, lesion pairs, and synthetic patients."""

from __future__ import annotations

import argparse
from pathlib import Path

from ..errors import AnatomicalEmbeddingError
from ..files import atomic_path
from .console import add_json_option, add_model_options, at_least, open_model, progress_bar, say


def add_to(commands: argparse._SubParsersAction) -> None:
    parser = commands.add_parser("evaluate", help="measure accuracy on labelled scans or synthetic patients")
    kinds = parser.add_subparsers(title="what to evaluate", metavar="WHAT", required=True)

    landmarks = kinds.add_parser(
        "landmarks",
        help="organ centres, extreme points and landmarks of a labelled folder, beside peers",
        description="DIR holds scans NAME.nii.gz with NAME.seg.nii.gz + NAME.labels.json (organs) or "
        "NAME.landmarks.json (points). Every template x target pair is measured.",
    )
    landmarks.add_argument("folder", type=Path, metavar="DIR")
    landmarks.add_argument(
        "--peers",
        choices=("all", "fast", "none"),
        default="all",
        help="measured beside it: body-centre alignment, elastix affine and (minutes a pair; not in 'fast') elastix "
        "B-spline and ANTs SyN",
    )
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
        "--templates",
        type=Path,
        metavar="DIR",
        help="further labelled scans, as templates alone, such as training scans",
    )
    landmarks.add_argument(
        "--each-effort", action="store_true", help="also measure matching that stops earlier or goes further"
    )
    landmarks.set_defaults(run=run_landmarks)

    phantoms = kinds.add_parser(
        "phantoms",
        help="named points of synthetic patients, fields of view cut in half included",
        description="Synthetic patients of unseen seeds, every ordered pair: whole, lower half and upper half scans.",
    )
    phantoms.add_argument("--count", type=int, default=6, metavar="N", help="patients (default: 6)")
    phantoms.add_argument("--seed", type=int, default=50_000, help="of the first patient (default: 50000)")
    phantoms.set_defaults(run=run_phantoms)

    confidence = kinds.add_parser(
        "confidence",
        help="whether the stated errors and probabilities are true, on a labelled folder",
        description="Matches every template with every target of DIR, whole and cut, so that some points are absent.",
    )
    confidence.add_argument("folder", type=Path, metavar="DIR")
    confidence.set_defaults(run=run_confidence)

    boxes = kinds.add_parser(
        "boxes",
        help="boxes of structures from a few examples, cross-validated, beside peers",
        description="Every whole structure of every scan of DIR (or of synthetic patients) is located by examples of "
        "other patients: overlap (IoU), recall with stated margins, and how many times smaller the crop is (VR).",
    )
    boxes.add_argument(
        "folder", type=Path, nargs="?", metavar="DIR", help="labelled scans; default: synthetic patients"
    )
    boxes.add_argument("--templates", type=Path, metavar="DIR", help="further labelled scans, as examples alone")
    boxes.add_argument("--shots", type=int, default=5, metavar="N", help="examples for each structure (default: 5)")
    boxes.add_argument("--library", action="store_true", help="by the shipped library instead of examples")
    boxes.add_argument(
        "--peers", action="store_true", help="also elastix affine and unions of boxes in body coordinates"
    )
    boxes.add_argument("--count", type=int, default=30, metavar="N", help="synthetic patients (default: 30)")
    boxes.add_argument("--seed", type=int, default=80_000, help="of the first one (default: 80000)")
    boxes.set_defaults(run=run_boxes)

    registration = kinds.add_parser(
        "registration",
        help="registration: labels carried over (Dice), landmarks, folding, beside peers",
        description="Every ordered pair of scans of DIR that share whole structures (different patients) or landmarks "
        "(one patient) is registered, by every kind of registration and by the peers that are installed.",
    )
    registration.add_argument("folder", type=Path, metavar="DIR")
    registration.add_argument(
        "--peers",
        choices=("all", "fast", "none"),
        default="all",
        help="measured beside it: elastix affine and (minutes a pair; not in 'fast') elastix B-spline, ANTs SyN and "
        "ConvexAdam",
    )
    registration.set_defaults(run=run_registration)

    lesions = kinds.add_parser(
        "lesions",
        help="lesion follow-up: places, which lesion is which, what became of them",
        description="Synthetic patients with lesions that grow, vanish, come, split and merge between scans; or the "
        "lesion pairs of Deep Lesion Tracker (DLT). Centre point matching rates are printed in all three meanings that "
        "papers give them.",
    )
    what = lesions.add_mutually_exclusive_group()
    what.add_argument("--phantoms", type=int, default=20, metavar="N", help="synthetic patients (default: 20)")
    what.add_argument("--dlt", type=Path, metavar="FILE", help="DLT's test.json or valid.json (not shipped)")
    lesions.add_argument("--seed", type=int, help="of the first synthetic patient (default: 120000)")
    lesions.add_argument("--studies", type=int, default=2, metavar="N", help="scans of each patient (default: 2)")
    lesions.add_argument(
        "--predictions", type=Path, action="append", default=[], metavar="FILE", help="for --dlt: as in DLTMix.json"
    )
    lesions.add_argument(
        "--images", type=Path, metavar="DIR", help="for --dlt: DeepLesion's scans as NIfTI, to be matched here"
    )
    lesions.set_defaults(run=run_lesions)

    words = kinds.add_parser(
        "words",
        help="places by words: points in the structure, wrong sides, levels of vertebrae and ribs, regions",
        description="Every structure of every labelled scan of DIR is found by its name. IOR: share of points inside "
        "the structure; NVD: mean distance to it; NVD-O: over the misses.",
    )
    words.add_argument("folder", type=Path, metavar="DIR")
    words.set_defaults(run=run_words)

    for part in (phantoms, confidence, lesions):
        part.add_argument(
            "--effort",
            choices=("coordinates", "fast", "standard", "thorough"),
            default="standard",
            help="how far matching goes",
        )
    for part in (landmarks, phantoms, confidence, boxes, registration, lesions, words):
        part.add_argument("-o", "--output", type=Path, metavar="FILE", help="write the result as .json or .md too")
        add_json_option(part)
        add_model_options(part)


def run_landmarks(options: argparse.Namespace) -> None:
    from ..evaluation import EmbeddingMatcher, evaluate_landmarks, few_shot, load_cases, make_peers
    from ..evaluation.peers import BODY_CENTRE, ELASTIX_AFFINE, PEERS
    from ..matching import EFFORTS

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
    notes: tuple[str, ...] = ()
    if options.peers != "none":
        peers, notes = make_peers(PEERS if options.peers == "all" else (BODY_CENTRE, ELASTIX_AFFINE))
        matchers |= peers
    with progress_bar("pairs", options.json) as progress:
        result = evaluate_landmarks(
            cases, matchers, lambda done, total, text: progress(done / total, text), notes=notes, templates=templates
        )
    _finish(result if options.shots == 1 else few_shot(result, options.shots), options)


def run_phantoms(options: argparse.Namespace) -> None:
    from ..evaluation.phantoms import evaluate_phantoms

    if options.count < 2 or options.seed < 0:
        raise AnatomicalEmbeddingError("--count must be 2 or more (patients are compared in pairs), --seed 0 or more.")
    model = open_model(options)
    with progress_bar("phantoms", options.json) as progress:
        result = evaluate_phantoms(
            model, range(options.seed, options.seed + options.count), progress, effort=options.effort
        )
    _finish(result, options)


def run_confidence(options: argparse.Namespace) -> None:
    from ..evaluation import load_cases
    from ..evaluation.confidence import judge_trials, summarise_confidence
    from ..evaluation.trials import labelled_trials

    model = open_model(options)
    cases = load_cases(options.folder)
    judged = judge_trials(labelled_trials(cases, model.embed), options.effort)
    _finish(summarise_confidence(judged, f"{model.name}, {options.effort}"), options)


def run_boxes(options: argparse.Namespace) -> None:
    from ..evaluation import load_cases
    from ..evaluation.box_cases import labelled_boxes, phantom_boxes
    from ..evaluation.boxes import BoxResult, find_boxes, find_by_library
    from ..structure_library import shipped_library

    if options.shots < 1 or options.count < 2:
        raise AnatomicalEmbeddingError("--shots must be 1 or more, --count 2 or more.")
    if options.library and (options.peers or options.templates):
        raise AnatomicalEmbeddingError("--library brings its own examples; leave --peers and --templates out.")
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
            found, seconds = find_boxes(cases, model, options.shots, templates, options.peers, progress)
    margins = library.margins if options.library else library.example_margins
    _finish(BoxResult(model.name, tuple(found), margins, (0.9, 0.99), seconds), options)


def run_registration(options: argparse.Namespace) -> None:
    from ..evaluation import EmbeddingMatcher, load_cases, make_peers
    from ..evaluation.elastix import Elastix
    from ..evaluation.peers import ELASTIX_AFFINE, ELASTIX_BSPLINE, REGISTRATION_PEERS
    from ..evaluation.registration import RegistrationMatcher, evaluate_registration
    from ..registration import AFFINE, KINDS

    cases = load_cases(options.folder)
    model = open_model(options)
    model.cache = None  # embedding is timed
    maps = EmbeddingMatcher(model)
    methods: dict[str, object] = {f"ours, {kind}": RegistrationMatcher(maps, kind, model.device) for kind in KINDS}
    notes: tuple[str, ...] = ()
    if options.peers != "none":
        peers, notes = make_peers(REGISTRATION_PEERS if options.peers == "all" else (ELASTIX_AFFINE,))
        methods |= peers
        if ELASTIX_BSPLINE in peers:
            start = RegistrationMatcher(maps, AFFINE).affine
            methods["ours, affine + elastix B-spline"] = Elastix(deformable=True, start=start)
    with progress_bar("pairs", options.json) as progress:
        result = evaluate_registration(cases, methods, progress, notes)
    _finish(result, options)


def run_words(options: argparse.Namespace) -> None:
    from ..evaluation import load_cases
    from ..evaluation.words import evaluate_words

    model = open_model(options)
    with progress_bar("scans", options.json) as progress:
        result = evaluate_words(load_cases(options.folder), model, progress)
    _finish(result, options)


def run_lesions(options: argparse.Namespace) -> None:
    if options.dlt is not None:
        _finish(_dlt_result(options), options)
        return
    if options.predictions or options.images:
        raise AnatomicalEmbeddingError("--predictions and --images go with --dlt; give DLT's test.json there.")
    if options.phantoms < 1 or options.studies < 2 or (options.seed or 0) < 0:
        raise AnatomicalEmbeddingError("--phantoms must be 1 or more, --studies 2 or more, --seed 0 or more.")
    from ..evaluation.lesions import FIRST_SEED, evaluate_follow_ups

    model = open_model(options)
    model.cache = None  # embedding is timed
    first = FIRST_SEED if options.seed is None else options.seed
    seeds = range(first, first + options.phantoms)
    with progress_bar("patients", options.json) as progress:
        result = evaluate_follow_ups(model, seeds, options.studies, options.effort, progress)
    _finish(result, options)


def _dlt_result(options: argparse.Namespace):
    from ..evaluation.dlt import match_images, read_pairs, score_predictions
    from .console import unique_names

    truth = read_pairs(options.dlt)
    found = {
        name: read_pairs(path)
        for name, path in zip(unique_names(options.predictions), options.predictions, strict=True)
    }
    if options.images is not None:
        model = open_model(options)
        with progress_bar("pairs", options.json) as progress:
            found[f"{model.name}, {options.effort}"] = match_images(
                truth, options.images, model, options.effort, progress
            )
    return score_predictions(truth, found)


def _finish(result, options: argparse.Namespace) -> None:
    print(result.to_json() if options.json else result.table())
    if options.output is not None:
        options.output.parent.mkdir(parents=True, exist_ok=True)
        with atomic_path(options.output) as temporary:
            temporary.write_text(result.markdown() if options.output.suffix == ".md" else result.to_json(), "utf-8")
        say(f"wrote {options.output}", options.json)
