"""The stages of a build: weights, orientation network, calibration, structure library, atlas and model card.

Each stage writes one result. A stage whose result exists is skipped, so a stopped build continues in its folder.
"""

import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

import torch

from ..embedding.calibration import SUFFIX as CALIBRATION
from ..embedding.inference import Model, load_model
from ..embedding.models.network import EmbeddingNetwork
from ..embedding.models.registry import find_weights, write_weights
from ..embedding.orientation import in_cells
from ..embedding.working_grid import WorkingGrid
from ..files import file_sha256, write_text
from ..structures import library_building
from ..structures.examples import labelled_boxes, phantom_boxes
from ..structures.labelled_scans import list_scans, load_case
from ..structures.library import SUFFIX as LIBRARY
from ..training import calibrate
from ..training.label_images import SUFFIX as LABELS
from ..training.loop import CHECKPOINT, Progress
from ..training.mirrors import train_mirror_networks, write_mirror_network
from ..training.organs import with_organ_knowledge
from ..training.preparation import REPORT, prepare_set
from ..training.scans import PreparedScan
from ..training.trainer import Validation, train
from ..words.atlas import SUFFIX as ATLAS
from ..words.atlas_building import build_atlas
from .budget import FULL_HOURS, ROUND
from .building import WeightsBuild, read_values, write_values
from .data_index import HELD_OUT, link_files
from .model_card import NAMES, TERMS_TEXT, Facts, write_card
from .training_data import chosen_maps, chosen_scans, drawn_scans, training_images, training_set

_LATER_RATE = 1e-3  # learning rate of rounds that start from trained weights
_TIMED_STEPS = 10  # from which the number of steps of a round is computed; by hand
# With 14 labelled patients, places and codes of organs raised the mean error of dev centres from 9.3 to 10.3 mm.
_LEAST_LABELLED = 30
# how often scans of each origin are chosen
_MIRROR_SHARES = {"scan": 0.35, "label map": 0.54, "phantom": 0.11}


class Stage(NamedTuple):
    """One stage. name: as in the plan. make: writes the file `result`."""

    name: str
    result: Path
    make: Callable[[WeightsBuild, Path], None]


def run_build(build: WeightsBuild) -> list[Path]:
    """Run all stages whose results are missing. Returns the files to ship."""
    shipped = [
        Stage("organs", build.result(".safetensors"), _learn_organs),
        Stage("orientation", build.folder / "ct.orientation.safetensors", _train_orientation),
        Stage("calibration", build.result(CALIBRATION), _calibrate),
        Stage("library", build.result(LIBRARY), _build_library),
        Stage("atlas", build.result(ATLAS), _build_atlas),
        Stage("figures", build.result(".json"), _write_card),
    ]
    for stage in [*_training_stages(build), *shipped]:
        if not stage.result.exists():
            with build.running(stage.name):
                stage.make(build, stage.result)
    return [*(stage.result for stage in shipped), build.result(".md")]


def _training_stages(build: WeightsBuild) -> list[Stage]:
    """Return two stages for each round: its scans are prepared, then the network is trained."""
    stages = []
    for name in build.plan.rounds:
        preparation = f"align {name}" if build.weights_before(name) else "scans"
        stages.append(
            Stage(preparation, build.scans_of(name) / REPORT, partial(_prepare_scans, name=name))
        )
        stages.append(
            Stage(f"{ROUND}{name}", build.weights_of(name), partial(_train_round, name=name))
        )
    return stages


def _prepare_scans(build: WeightsBuild, result: Path, name: str) -> None:
    """Prepare the scans of a round: for the first round, those with level readings; for later rounds, all."""
    weights = build.weights_before(name)
    training_images(build)  # made now, so that the rounds need their hours for training alone
    entries = build.scans
    if weights is None:
        levels = build.levels
        entries = [entry for entry in build.scans if levels and levels.of(entry.name)]
    if not entries:
        write_text(result, "")
        return
    done = 0

    def report(line: str) -> None:
        nonlocal done
        done += 1
        build.report_progress(
            min(done / len(entries), 1.0), line, always=line.startswith("skipped")
        )

    model = None if weights is None else str(weights)
    prepare_set(
        [link_files(entries, build.work / f"links_{name}")],
        build.recipe.network.spacing_mm,
        result.parent,
        levels=build.levels,
        model=model,
        align=model,
        jobs=build.jobs,
        report=report,
    )


def _train_round(build: WeightsBuild, result: Path, name: str) -> None:
    """Train one round, from the weights of the round before, whose batch statistics then stay, or from random ones."""
    folder = build.work / f"round_{name}"
    scans = training_set(build, name)
    recipe = build.recipe
    before = build.weights_before(name)
    if before is not None:
        optimiser = replace(recipe.optimiser, frozen_statistics=True, learning_rate=_LATER_RATE)
        recipe = replace(recipe, optimiser=optimiser)
    steps = _round_steps(build, scans)[name]

    def report(progress: Progress) -> None:
        if not build.cancelled():  # otherwise, the loop first writes a checkpoint
            text = f"step {progress.step}/{steps}, loss {progress.loss:.4f}, {progress.seconds_per_step:.2f} s/step"
            build.report_progress(progress.step / steps, text)

    done = train(
        scans,
        recipe,
        folder,
        steps,
        seed=build.seed + build.plan.rounds.index(name),
        device=build.device,
        workers=build.workers,
        start_from=None if before is None else _network(before),
        progress=report,
        cancelled=build.cancelled,
    )
    metadata = {"recipe": recipe.to_dict(), "steps": done.steps, "terms": TERMS_TEXT[build.terms]}
    write_weights(done.network, result, f"{NAMES[build.terms]}-{name}", metadata)
    (folder / CHECKPOINT).unlink(missing_ok=True)


def _round_steps(build: WeightsBuild, scans: list[PreparedScan]) -> dict[str, int]:
    """Return the number of steps of each round: its hours divided by the time of a step, which is measured once."""
    path = build.work / "steps.json"
    if not path.is_file():
        times = []
        with tempfile.TemporaryDirectory(dir=build.work) as folder:
            train(
                scans,
                build.recipe,
                Path(folder),
                _TIMED_STEPS,
                seed=build.seed,
                device=build.device,
                workers=build.workers,
                progress=lambda progress: times.append(time.monotonic()),
                cancelled=build.cancelled,
            )
        # without the first step, which also starts the workers
        step_hours = (times[-1] - times[0]) / (len(times) - 1) / 3600
        steps = {}
        for name in build.plan.rounds:
            hours = build.plan.hours[f"{ROUND}{name}"]
            steps[name] = max(1, round(hours / step_hours))
        write_values(path, steps)
    return read_values(path)


def _learn_organs(build: WeightsBuild, result: Path) -> None:
    """Write the final weights, with usual places and codes of organs if there are enough labelled patients."""
    last = build.plan.rounds[-1]
    network = _network(build.weights_of(last))
    if network.spec.organs:
        scans = [scan for scan in training_set(build, last) if scan.origin != "phantom"]
        labelled = [scan for scan in scans if scan.labels is not None]
        if len({scan.patient for scan in labelled}) >= _LEAST_LABELLED:
            network = with_organ_knowledge(network, labelled)
    metadata = {
        "recipe": build.recipe.to_dict(),
        "steps": sum(read_values(build.work / "steps.json").values()),
        "terms": TERMS_TEXT[build.terms],
        "scans": build.plan.scans,
        "label_maps": build.plan.label_maps,
    }
    write_weights(network, result, NAMES[build.terms], metadata)


def _train_orientation(build: WeightsBuild, result: Path) -> None:
    """Train the network that recognises mirrored scans; scans of each origin are chosen with their share."""
    scans = training_set(build, build.plan.rounds[-1])
    origins = Counter(scan.origin for scan in scans)
    cells = []
    shares = []
    for scan in scans:
        spacing_mm = build.recipe.network.spacing_mm
        grid = WorkingGrid(scan.hu.float(), scan.grid_to_ras[:3, 3], spacing_mm)
        cells.append(in_cells(grid, scan.body.numpy()))
        shares.append(_MIRROR_SHARES[scan.origin] / origins[scan.origin])
    steps = build.plan.numbers["mirror_steps"]

    def report(step: int, loss: float) -> None:
        build.report_progress(step / steps / 2, f"step {step}/{steps} of one of two networks")

    seeds = (build.seed, build.seed + 1)
    network = train_mirror_networks(cells, shares, steps, seeds, report)
    write_mirror_network(network, result)


def _calibrate(build: WeightsBuild, result: Path) -> None:
    """Learn the calibration, from chosen scans, drawn scans and synthetic patients."""
    folders = [chosen_scans(build), drawn_scans(build)]
    folders = [folder for folder in folders if any(folder.iterdir())]
    first = calibrate.PHANTOM_SEED
    seeds = range(first, first + build.plan.numbers["calibration_phantoms"])
    calibrate.collect(_model(build), folders, seeds, build.report_progress).save(result)


def _build_library(build: WeightsBuild, result: Path) -> None:
    """Build the structure library, from chosen scans, drawn scans and synthetic patients."""
    model = _model(build)
    scans = [*list_scans(chosen_scans(build)), *list_scans(drawn_scans(build))]
    cases = [case for case in map(load_case, scans) if case is not None]
    first = library_building.PHANTOM_SEED
    seeds = range(first, first + build.plan.numbers["library_phantoms"])
    facts = {"weights": model.name, "scans": [case.id for case in cases], "phantoms": list(seeds)}
    boxes = [*labelled_boxes(cases), *phantom_boxes(seeds)]
    library_building.build_library(boxes, model, facts, build.report_progress).save(result)


def _build_atlas(build: WeightsBuild, result: Path) -> None:
    """Build the atlas: with the full budget from all label maps, with less from the chosen ones."""
    maps = build.work / "label_maps" if build.hours >= FULL_HOURS else chosen_maps(build)
    folders = [folder for folder in (maps, chosen_scans(build)) if any(folder.glob("*" + LABELS))]
    phantoms = build.plan.numbers["atlas_phantoms"]
    build_atlas(folders, _model(build), phantoms, build.report_progress).save(result)


def _write_card(build: WeightsBuild, result: Path) -> None:
    """Measure the weights on DATA/dev and on synthetic patients; write the model card as text and as JSON."""
    dev = build.data / HELD_OUT
    weights = build.result(".safetensors")
    has_truth = any(dev.glob("*.labels.json")) or any(dev.glob("*.landmarks.json"))
    errors = Validation(dev if has_truth else None, build.device)(_network(weights))
    times = read_values(build.work / "times.json")
    core_hours = sum(stage["core_hours"] for stage in times.values())
    facts = Facts(
        NAMES[build.terms],
        build.terms,
        build.recipe.name,
        read_values(build.work / "steps.json"),
        build.plan.numbers["phantoms"],
        core_hours,
        errors,
        build.device,
        torch.__version__,
    )
    write_card(result, facts, file_sha256(weights), build.scans, build.label_maps)


def _model(build: WeightsBuild) -> Model:
    return load_model(str(build.result(".safetensors")), build.device)


def _network(path: Path) -> EmbeddingNetwork:
    return find_weights(str(path)).network
