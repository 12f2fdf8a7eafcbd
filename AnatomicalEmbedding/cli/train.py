"""anatemb train: train weights on a folder of scans, on a CPU or a GPU."""

from __future__ import annotations

import argparse
import json
import sys
import tomllib
from fnmatch import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import AnatomicalEmbeddingError
from .arguments import add_count, add_jobs, add_path, add_training, complete, not_negative
from .console import check_folder, progress_bar, say, stop_on_signals, use_threads

if TYPE_CHECKING:
    from ..training.objectives import Objective
    from ..training.recipes import Recipe
    from ..training.scans import PreparedScan

_LOG_EVERY = 25  # steps between two lines of progress


def add_to(commands: argparse._SubParsersAction) -> None:
    parser = commands.add_parser(
        "train",
        help="train weights on a folder of CTs",
        description="Trains on the CTs of DATA and on synthetic patients. To continue an interrupted run, give the "
        "same command again. Writes weights.safetensors, loss.csv and a checkpoint to the output folder. "
        "Duplicates and scans that cannot be used are reported and left out. Where labels overlap, the smallest wins.",
    )
    add_options(parser)
    add_recipe(parser)
    kind = "ct for CTs of adults; any for scans of one other kind, such as skulls: no recipe and no labels are needed"
    parser.add_argument("--kind", choices=("ct", "any"), default="ct", help=f"{kind} (default: ct)")
    modality = "with --kind any: how grey values are read; ct for Hounsfield units"
    parser.add_argument(
        "--modality", choices=("any", "ct"), default="any", help=f"{modality} (default: any)"
    )
    complete(parser, run, model=False)


def add_recipe(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--recipe",
        default="ape",
        metavar="NAME|FILE",
        help="ape, hybrid, joint, hybrid-2d or a .toml file",
    )


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add all options except --recipe. The commands that train recipes of papers have these options too."""
    add = parser.add_argument
    add_path(
        parser, "data", "DATA", "folders with CTs, also in subfolders; or a prepared set", nargs="+"
    )
    add_path(parser, "-o --output", "DIR", "folder of the run", required=True)
    add_preparation(parser)
    add_count(parser, "--steps", 3000, "optimiser steps")
    add(
        "--minutes",
        type=not_negative,
        metavar="N",
        help="time limit; at the limit, the weights so far are written",
    )
    add_path(
        parser, "--validate", "DIR", "labelled scans of other patients, to choose the best weights"
    )
    validation = "steps between two validations; 0 for no validation"
    add_count(parser, "--validate-every", 500, validation, least=0)
    add_count(parser, "--phantoms", 12, "synthetic patients to add", least=0)
    add_path(
        parser,
        "--label-maps",
        "DIR",
        "label maps without images; synthetic images are made from them",
    )
    add_count(parser, "--label-images", 1, "images per label map")
    add(
        "--exclude",
        action="append",
        default=[],
        metavar="PATTERN",
        help="leave out scans by name, such as 'ricord*'",
    )
    add("--name", metavar="NAME", help="name of the weights (default: name of the recipe)")
    add("--start-from", metavar="NAME|FILE", help="weights with which training starts")
    add_training(parser)


def add_preparation(parser: argparse.ArgumentParser) -> None:
    """Add the options with which `prepare_scans` prepares scans."""
    add = parser.add_argument
    levels = "z (mm) of standard levels, such as the carina, in the scans (default: DATA/../train_levels.json)"
    add_path(parser, "--levels", "FILE", levels)
    add(
        "--place-with",
        default="auto",
        metavar="NAME|FILE",
        help="weights that place scans not listed in --levels",
    )
    add(
        "--align-with",
        metavar="NAME|FILE",
        help="weights whose smoothed maps give the scans their body coordinates",
    )
    add_jobs(parser)
    add(
        "--set",
        action="append",
        default=[],
        metavar="SECTION.KEY=VALUE",
        help="change an entry of the recipe",
    )
    add_path(parser, "--atlas", "FILE", "for films: CT of the body whose coordinates all films get")
    add_count(parser, "--films", 8, "for films: projections of each CT")


def run(options: argparse.Namespace) -> None:
    if options.kind == "any":
        run_own_kind(options)
        return
    from ..training.recipes import load_recipe

    train_recipe(options, load_recipe(options.recipe, overrides(options.set)))


def run_own_kind(options: argparse.Namespace) -> None:
    """Train weights on scans of one kind that are no CTs of adults."""
    from ..training.own_kind import train_own_kind

    use_threads(options)
    check_folder(options.output)

    def show(share: float, stage: str) -> None:
        print(json.dumps({"share": round(share, 4), "stage": stage}), flush=True)

    with progress_bar("training", options.json) as draw:
        path = train_own_kind(
            options.data,
            options.output,
            options.modality,
            options.name or options.output.name,
            _report,
            show if options.json else draw,
        )
    if options.json:
        print(json.dumps({"weights": str(path)}))
    else:
        say(f"wrote {path}")


def train_recipe(
    options: argparse.Namespace, recipe: Recipe, objective: Objective | None = None
) -> None:
    """Prepare the scans and train.

    Args:
        options: options of the command.
        recipe: the recipe.
        objective: training objective of a recipe from a paper; None for other recipes.
    """
    from ..embedding.device import choose_device
    from ..embedding.models.registry import find_weights, write_weights
    from ..training.loop import Progress
    from ..training.trainer import Validation, train

    use_threads(options)
    check_folder(options.output)
    device = choose_device(options.device)
    # loaded before the scans are prepared: preparing may take an hour, and wrong weights must fail earlier
    start_from = find_weights(options.start_from).network if options.start_from else None
    # there are no labelled films
    is_validated = options.validate_every > 0 and not recipe.network.planar
    validation = Validation(options.validate, str(device)) if is_validated else None
    scans = _training_scans(options, recipe)
    if validation is not None:
        all_names = {scan.name for scan in scans}
        scans = validation.scans_for_training(scans)
        for name in sorted(all_names - {scan.name for scan in scans}):
            _report(
                f"left out: {name} is a scan of a patient in {options.validate}, which is used for validation"
            )
        if not scans:
            raise AnatomicalEmbeddingError(
                f"{options.validate}: contains all training patients; use other patients."
            )

    def show(progress: Progress) -> None:
        if options.json:
            print(json.dumps(vars(progress)), flush=True)
        if progress.step % _LOG_EVERY == 0 or progress.step == progress.steps:
            minutes = (progress.steps - progress.step) * progress.seconds_per_step / 60
            _report(
                f"step {progress.step}/{progress.steps}  loss {progress.loss:.4f}  "
                f"{progress.seconds_per_step:.2f} s/step  {minutes:.0f} min left"
            )

    done = train(
        scans,
        recipe,
        options.output,
        options.steps,
        objective=objective,
        seed=options.seed,
        device=str(device),
        workers=options.workers,
        start_from=start_from,
        minutes=options.minutes,
        validate=validation,
        validate_every=options.validate_every,
        progress=show,
        cancelled=stop_on_signals(),
    )
    path = options.output / "weights.safetensors"
    metadata = {
        "recipe": recipe.to_dict(),
        "steps": done.steps,
        "minutes": round(done.minutes, 1),
        "device": str(device),
        "scans": [scan.name for scan in scans],
    }
    sha256 = write_weights(done.network, path, options.name or recipe.name, metadata)
    say(f"wrote {path} (SHA-256 {sha256[:16]}...)", options.json)
    if options.json:
        result = {
            "weights": str(path),
            "sha256": sha256,
            "steps": done.steps,
            "minutes": metadata["minutes"],
        }
        print(json.dumps(result))  # one line of JSON, like the lines of the steps


def _report(line: str) -> None:
    """Print a line of progress on stderr; with --json, stdout has only JSON."""
    print(line, file=sys.stderr, flush=True)


def _training_scans(options: argparse.Namespace, recipe: Recipe) -> list[PreparedScan]:
    """Return all scans of a training run: prepared scans, folders of scans (prepared first), label images, phantoms."""
    from ..films.preparation import prepare_phantom_films
    from ..training.label_images import prepare_label_images
    from ..training.organ_targets import follow_organs
    from ..training.preparation import REPORT
    from ..training.scans import PreparedScan, prepare_phantoms

    prepared = options.output / "prepared"
    sets = [folder for folder in options.data if (folder / REPORT).is_file()]
    folders = [folder for folder in options.data if folder not in sets]
    if options.levels is not None and not folders:
        raise AnatomicalEmbeddingError(
            f"--levels {options.levels}: is not used, because all given scans are prepared already; leave --levels out."
        )
    spacing_mm = recipe.network.spacing_mm
    paths = [path for folder in sets for path in sorted(folder.glob("*.safetensors"))]
    if folders:
        paths += prepare_scans(options, folders, recipe, prepared)
    if recipe.batch.phantom_share > 0:
        if recipe.network.planar:
            paths += prepare_phantom_films(
                options.phantoms, options.films, spacing_mm, prepared, _report
            )
        else:
            paths += prepare_phantoms(options.phantoms, spacing_mm, prepared, _report)
    if options.label_maps is not None:
        paths += prepare_label_images(
            options.label_maps, options.label_images, spacing_mm, prepared, _report
        )
    scans = []
    for path in paths:
        if not any(fnmatch(path.stem, pattern) for pattern in options.exclude):
            scans.append(PreparedScan.load(path))
    return follow_organs(scans)


def prepare_scans(
    options: argparse.Namespace, folders: list[Path], recipe: Recipe, destination: Path
) -> list[Path]:
    """Prepare the scans of folders. Returns the files written to `destination`.

    Args:
        options: options of the command, with those of `add_preparation`.
        folders: the folders.
        recipe: the recipe.
        destination: folder for the prepared scans.

    Raises AnatomicalEmbeddingError if a recipe for films is given without an atlas.
    """
    from ..films.preparation import prepare_films
    from ..training.frames import LevelTable
    from ..training.preparation import prepare_set

    if recipe.network.planar:
        if options.atlas is None:
            raise AnatomicalEmbeddingError(
                f"recipe {recipe.name}: needs an atlas; give a CT of the chest with --atlas."
            )
        weights = options.align_with or options.place_with
        spacing = recipe.network.spacing_mm
        return prepare_films(
            folders, spacing, destination, options.atlas, weights, options.films, _report
        )
    default = folders[0].parent / "train_levels.json"
    table = options.levels or (default if default.is_file() else None)
    return prepare_set(
        folders,
        recipe.network.spacing_mm,
        destination,
        levels=LevelTable.read(table) if table else None,
        model=None if options.place_with == "none" else options.place_with,
        align=options.align_with,
        jobs=options.jobs,
        report=_report,
    )


def overrides(pairs: list[str]) -> dict[str, object]:
    """Parse the arguments SECTION.KEY=VALUE of `--set`. Returns SECTION.KEY -> new value in the recipe."""
    values = {}
    for pair in pairs:
        key, equals, text = pair.partition("=")
        try:
            if not equals or key.count(".") != 1:
                raise tomllib.TOMLDecodeError("not SECTION.KEY=VALUE")
            values[key.strip()] = tomllib.loads(f"value = {text}")["value"]
        except tomllib.TOMLDecodeError:
            raise AnatomicalEmbeddingError(
                f"--set {pair}: is not SECTION.KEY=VALUE; write, for example, --set batch.pairs=4."
            ) from None
    return values
