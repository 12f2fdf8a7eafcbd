"""Makes weights, calibration, structure library, atlas, orientation network and model card, stage by stage.

Each stage writes one result. A stage whose result exists is skipped, so a stopped build continues in its folder.

The network is trained in two or three rounds. Round A starts from random weights. It learns from label images,
synthetic patients, and the scans for which the heights of standard levels were read. The weights of a round give all
scans body coordinates for the next round.
"""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from functools import cached_property
from pathlib import Path

import torch

from ..embedding.calibration import SUFFIX as CALIBRATION
from ..embedding.inference import Model, load_model
from ..embedding.models.network import EmbeddingNetwork
from ..embedding.models.registry import find_weights, write_weights
from ..embedding.orientation import in_cells
from ..embedding.working_grid import WorkingGrid
from ..errors import AnatomicalEmbeddingError, CancelledError, require
from ..files import file_sha256, parse_json, write_text
from ..structures import library_building
from ..structures.examples import labelled_boxes, phantom_boxes
from ..structures.label_names import structure_name
from ..structures.labelled_scans import list_scans, load_case
from ..structures.library import SUFFIX as LIBRARY
from ..training import calibrate
from ..training.frames import LevelTable
from ..training.label_frames import place
from ..training.label_images import SUFFIX as LABELS
from ..training.label_images import LabelledBody, prepare_label_images, tissue_of, write_label_image
from ..training.loop import CHECKPOINT, Progress
from ..training.mirrors import train_mirror_networks, write_mirror_network
from ..training.organ_targets import follow_organs
from ..training.organs import with_organ_knowledge
from ..training.preparation import REPORT, prepare_set
from ..training.recipes import Recipe
from ..training.scans import PreparedScan, prepare_phantoms
from ..training.trainer import Validation, train
from ..words.atlas import SUFFIX as ATLAS
from ..words.atlas_building import build_atlas
from .budget import FULL_HOURS, Plan
from .data_index import HELD_OUT, Entry, link_files, link_label_maps, read_data, spread
from .model_card import NAMES, TERMS_TEXT, Facts, write_card

_LATER_RATE = 1e-3  # learning rate of rounds that start from trained weights
_TIMED_STEPS = 10
# With 14 labelled patients, places and codes of organs raised the mean error of dev centres from 9.3 to 10.3 mm.
_LEAST_LABELLED = 30
_DRAWING_SEED = 77  # of the label images for calibration and library; training images have seeds from 0
_MIRROR_SHARES = {"scan": 0.35, "label map": 0.54, "phantom": 0.11}  # how often scans of each origin are chosen
_REPORT_SECONDS = 15.0


@dataclass(eq=False)
class WeightsBuild:
    """A build of all files that ship with weights, in the folder `folder`.

    Args:
        data: folder with index.csv; see `data_index`. DATA/train_levels.json, if it exists, has level readings.
        terms: "open" or "all", the terms of the data to use.
        hours: budget of all stages together, wall-clock hours on this machine.
        device: where networks are trained and run, such as "cpu".
        workers: processes that prepare batches. jobs: scans that are prepared at the same time.
        report: called with a line of text about the progress.
        cancelled: if it returns True, the build stops, with a CancelledError.

    Raises AnatomicalEmbeddingError if the index is wrong, or if the folder contains a build with another plan.
    """

    data: Path
    folder: Path
    terms: str
    recipe: Recipe
    hours: float = 1.0
    seed: int = 0
    device: str = "cpu"
    workers: int = 1
    jobs: int = 1
    report: Callable[[str], None] = print
    cancelled: Callable[[], bool] = lambda: False

    def __post_init__(self) -> None:
        require("sklearn.ensemble", "scikit-learn", "calibrating needs", "train")
        self.scans, self.label_maps = read_data(self.data, self.terms)
        self.plan = Plan.make(self.terms, self.recipe.name, self.seed, self.hours, self.scans, self.label_maps)
        self._work = self.folder / "build"
        table = self.data / "train_levels.json"
        self._levels = LevelTable.read(table) if table.is_file() else None
        path = self.folder / "plan.json"
        if path.is_file() and _read(path) != asdict(self.plan):
            raise AnatomicalEmbeddingError(
                f"{path}: this folder contains a build with another plan, such as other hours, terms or data; "
                "give the same command as before, or choose another output folder."
            )
        if not path.is_file():
            _write(path, asdict(self.plan))
        self._stage, self._reported = "", -_REPORT_SECONDS  # stage that runs; time of the last report, s

    def run(self) -> list[Path]:
        """Run all stages whose results are missing. Returns the files to ship."""
        results = {
            "organs": self._result(".safetensors"), "orientation": self.folder / "ct.orientation.safetensors",
            "calibration": self._result(CALIBRATION), "library": self._result(LIBRARY), "atlas": self._result(ATLAS),
            "figures": self._result(".json"),
        }  # fmt: skip
        makers = {
            "scans": self._prepare, "align": self._prepare, "round": self._train, "organs": self._learn_organs,
            "orientation": self._train_orientation, "calibration": self._calibrate, "library": self._build_library,
            "atlas": self._build_atlas, "figures": self._write_card,
        }  # fmt: skip
        for stage in self.plan.hours:
            kind, _, name = stage.partition(" ")
            work = self._weights_of(name) if kind == "round" else self._set(name or self.plan.rounds[0]) / REPORT
            result = results.get(stage, work)
            if not result.exists():
                self._stage = stage
                self._progress(0.0, "begins", always=True)
                began = time.monotonic(), sum(os.times()[:4])
                try:
                    makers[kind](result)
                finally:
                    self._add_times(time.monotonic() - began[0], sum(os.times()[:4]) - began[1])
        return [*results.values(), self._result(".md")]

    # -- progress and files

    def _progress(self, share: float, what: str, always: bool = False) -> None:
        """Report the progress of the stage and the expected end of the build. Raises CancelledError after a signal."""
        stage = self._stage
        if self.cancelled():
            raise CancelledError(f"{self.folder}: stopped in the stage {stage}; give the same command to continue.")
        if always or time.monotonic() > self._reported + _REPORT_SECONDS:
            self._reported = time.monotonic()
            end = datetime.now() + timedelta(hours=self.plan.hours_left(stage, share))
            number = list(self.plan.hours).index(stage) + 1
            self.report(f"[{number}/{len(self.plan.hours)}] {stage}: {what}; expected end of the build {end:%a %H:%M}")

    def _add_times(self, seconds: float, core_seconds: float) -> None:
        """Add the duration of the stage to times.json. core_seconds: of this process and of its finished children."""
        path = self._work / "times.json"
        times = _read(path) if path.is_file() else {}
        before = times.get(self._stage, {"hours": 0.0, "core_hours": 0.0})
        added = {"hours": before["hours"] + seconds / 3600, "core_hours": before["core_hours"] + core_seconds / 3600}
        _write(path, times | {self._stage: {name: round(hours, 4) for name, hours in added.items()}})

    def _result(self, suffix: str) -> Path:
        return self.folder / f"{NAMES[self.terms]}{suffix}"

    def _set(self, name: str) -> Path:
        """Return the folder of the prepared scans of a round."""
        return self._work / f"scans_{name}"

    def _weights_of(self, name: str) -> Path:
        """Return the file of the weights that a round makes."""
        return self._work / f"round_{name}.safetensors"

    def _before(self, name: str) -> Path | None:
        """Return the weights of the round before a round; None for the first round."""
        number = self.plan.rounds.index(name)
        return self._weights_of(self.plan.rounds[number - 1]) if number else None

    # -- scans

    def _prepare(self, result: Path) -> None:
        """Prepare the scans of a round: for the first round, those with level readings; for later rounds, all."""
        name = self._stage.partition(" ")[2] or self.plan.rounds[0]
        weights = self._before(name)
        _ = self._images  # made now, so that the rounds need their hours for training alone
        entries = self.scans if weights else [e for e in self.scans if self._levels and self._levels.of(e.name)]
        if not entries:
            write_text(result, "")
            return
        done = 0

        def report(line: str) -> None:
            nonlocal done
            done += 1
            self._progress(min(done / len(entries), 1.0), line, always=line.startswith("skipped"))

        model = None if weights is None else str(weights)
        prepare_set(
            [link_files(entries, self._work / f"links_{name}")], self.recipe.network.spacing_mm, result.parent,
            levels=self._levels, model=model, align=model, jobs=self.jobs, report=report,
        )  # fmt: skip

    @cached_property
    def _images(self) -> list[Path]:
        """Make label images and phantoms, if they are missing. Returns their files."""
        spacing, made, numbers = self.recipe.network.spacing_mm, self._work / "images", self.plan.numbers

        def report(line: str) -> None:
            self._progress(0.0, line)

        phantoms = prepare_phantoms(numbers["phantoms"], spacing, made, report)
        if not self.label_maps:
            return phantoms
        maps = link_label_maps(self.label_maps, self._work / "label_maps")
        return prepare_label_images(maps, numbers["label_images"], spacing, made, report) + phantoms

    def _training_set(self, name: str) -> list[PreparedScan]:
        """Return the prepared scans of a round, the label images and the phantoms."""
        return follow_organs(
            list(map(PreparedScan.load, [*sorted(self._set(name).glob("*.safetensors")), *self._images]))
        )

    # -- the network

    def _train(self, result: Path) -> None:
        name, folder = self._stage.partition(" ")[2], self._work / self._stage.replace(" ", "_")
        scans = self._training_set(name)
        recipe, before = self.recipe, self._before(name)
        if before is not None:
            later = replace(recipe.optimiser, frozen_statistics=True, learning_rate=_LATER_RATE)
            recipe = replace(recipe, optimiser=later)
        steps = self._steps(scans)[name]

        def show(done: Progress) -> None:
            if not self.cancelled():  # otherwise, the loop first writes a checkpoint
                what = f"step {done.step}/{steps}, loss {done.loss:.4f}, {done.seconds_per_step:.2f} s/step"
                self._progress(done.step / steps, what)

        done = train(
            scans, recipe, folder, steps, seed=self.seed + self.plan.rounds.index(name), device=self.device,
            workers=self.workers, start_from=None if before is None else _network(before), progress=show,
            cancelled=self.cancelled,
        )  # fmt: skip
        about = {"recipe": recipe.to_dict(), "steps": done.steps, "terms": TERMS_TEXT[self.terms]}
        write_weights(done.network, result, f"{NAMES[self.terms]}-{name}", about)
        (folder / CHECKPOINT).unlink(missing_ok=True)

    def _steps(self, scans: list[PreparedScan]) -> dict[str, int]:
        """Return the number of steps of each round: its hours divided by the time of a step, which is measured once."""
        path = self._work / "steps.json"
        if not path.is_file():
            times: list[float] = []
            with tempfile.TemporaryDirectory(dir=self._work) as folder:
                train(
                    scans, self.recipe, Path(folder), _TIMED_STEPS, seed=self.seed, device=self.device,
                    workers=self.workers, progress=lambda done: times.append(time.monotonic()),
                    cancelled=self.cancelled,
                )  # fmt: skip
            hours_of_step = (times[-1] - times[0]) / (len(times) - 1) / 3600
            hours = {name: self.plan.hours[f"round {name}"] for name in self.plan.rounds}
            _write(path, {name: max(1, round(of / hours_of_step)) for name, of in hours.items()})
        return _read(path)

    def _learn_organs(self, result: Path) -> None:
        """Write the final weights, with usual places and codes of organs if there are enough labelled patients."""
        last = self.plan.rounds[-1]
        network = _network(self._weights_of(last))
        if network.spec.organs:
            labelled = [s for s in self._training_set(last) if s.labels is not None and s.origin != "phantom"]
            if len({scan.patient for scan in labelled}) >= _LEAST_LABELLED:
                network = with_organ_knowledge(network, labelled)
        steps = sum(_read(self._work / "steps.json").values())
        about = {"recipe": self.recipe.to_dict(), "steps": steps, "terms": TERMS_TEXT[self.terms]}
        about |= {"scans": self.plan.scans, "label_maps": self.plan.label_maps}
        write_weights(network, result, NAMES[self.terms], about)

    def _train_orientation(self, result: Path) -> None:
        scans = self._training_set(self.plan.rounds[-1])
        grids = [WorkingGrid(s.hu.float(), s.grid_to_ras[:3, 3], self.recipe.network.spacing_mm) for s in scans]
        cells = [in_cells(grid, scan.body.numpy()) for grid, scan in zip(grids, scans, strict=True)]
        origins = [scan.origin for scan in scans]
        shares = [_MIRROR_SHARES[origin] / origins.count(origin) for origin in origins]
        steps = self.plan.numbers["mirror_steps"]

        def report(step: int, loss: float) -> None:
            self._progress(step / steps / 2, f"step {step}/{steps} of one of two networks")

        write_mirror_network(train_mirror_networks(cells, shares, steps, (self.seed, self.seed + 1), report), result)

    # -- files for the finished weights

    @cached_property
    def _model(self) -> Model:
        return load_model(str(self._result(".safetensors")), self.device)

    def _chosen_scans(self) -> Path:
        """Return a folder with links to the scans for calibration and library: half of them labelled, if possible."""
        count = self.plan.numbers["calibration_scans"]
        labelled = spread([each for each in self.scans if each.is_labelled], -(-count // 2))
        others = spread([each for each in self.scans if each not in labelled], count - len(labelled))
        return link_files([*labelled, *others], self._work / "chosen_scans")

    def _chosen_maps(self) -> Path:
        """Return a folder with links to the label maps that name most structures which can be drawn."""

        def drawable(entry: Entry) -> int:
            return sum(tissue_of(structure_name(name)) is not None for name in _read(entry.label_names).values())

        ranked = sorted(self.label_maps, key=drawable, reverse=True)
        return link_label_maps(ranked[: self.plan.numbers["drawn_scans"]], self._work / "chosen_label_maps")

    def _drawn_scans(self) -> Path:
        """Return a folder with labelled scans that were drawn from the chosen label maps."""
        drawn = self._work / "drawn_scans"
        drawn.mkdir(exist_ok=True)
        bodies = [LabelledBody.read(path) for path in sorted(self._chosen_maps().glob("*" + LABELS))]
        placement = place({body.name: body.points for body in bodies}) if bodies else None
        for body in bodies:
            if body.name in placement.maps and not (drawn / f"{body.name}.nii.gz").exists():
                self._progress(0.0, f"drawing a scan from {body.name}")
                write_label_image(body, placement, _DRAWING_SEED, drawn)
        return drawn

    def _calibrate(self, result: Path) -> None:
        folders = [folder for folder in (self._chosen_scans(), self._drawn_scans()) if any(folder.iterdir())]
        seeds = range(calibrate.PHANTOM_SEED, calibrate.PHANTOM_SEED + self.plan.numbers["calibration_phantoms"])
        calibrate.collect(self._model, folders, seeds, self._progress).save(result)

    def _build_library(self, result: Path) -> None:
        folders = self._chosen_scans(), self._drawn_scans()
        found = (load_case(scan) for folder in folders for scan in list_scans(folder))
        cases = [case for case in found if case is not None]
        first = library_building.PHANTOM_SEED
        seeds = range(first, first + self.plan.numbers["library_phantoms"])
        about = {"weights": self._model.name, "scans": [case.id for case in cases], "phantoms": list(seeds)}
        library_building.build_library(
            [*labelled_boxes(cases), *phantom_boxes(seeds)], self._model, about,
            self._progress,
        ).save(result)  # fmt: skip

    def _build_atlas(self, result: Path) -> None:
        maps = self._work / "label_maps" if self.hours >= FULL_HOURS else self._chosen_maps()
        folders = [folder for folder in (maps, self._chosen_scans()) if any(folder.glob("*" + LABELS))]
        phantoms = self.plan.numbers["atlas_phantoms"]
        build_atlas(folders, self._model, phantoms, self._progress).save(result)

    def _write_card(self, result: Path) -> None:
        """Measure the weights on DATA/dev and on synthetic patients; write the model card as text and as JSON."""
        dev, weights = self.data / HELD_OUT, self._result(".safetensors")
        has_truth = any(dev.glob("*.labels.json")) or any(dev.glob("*.landmarks.json"))
        errors = Validation(dev if has_truth else None, self.device)(_network(weights))
        core_hours = sum(of["core_hours"] for of in _read(self._work / "times.json").values())
        facts = Facts(
            NAMES[self.terms], self.terms, self.recipe.name, _read(self._work / "steps.json"),
            self.plan.numbers["phantoms"], core_hours, errors, self.device, torch.__version__,
        )  # fmt: skip
        write_card(result, facts, file_sha256(weights), self.scans, self.label_maps)


def _read(path: Path) -> dict:
    try:
        return parse_json(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        raise AnatomicalEmbeddingError(f"{path}: is missing or damaged; write it again, or delete the build.") from None


def _write(path: Path, values: object) -> None:
    write_text(path, json.dumps(values, indent=1))


def _network(path: Path) -> EmbeddingNetwork:
    return find_weights(str(path)).network
