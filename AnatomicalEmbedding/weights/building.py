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
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from functools import cached_property, partial
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
from ..structures import cross_validation
from ..structures.examples import labelled_boxes, phantom_boxes
from ..structures.labelled_scans import list_scans, load_case
from ..structures.library import SUFFIX as LIBRARY
from ..training import calibrate
from ..training.frames import LevelTable
from ..training.label_frames import place
from ..training.label_images import SUFFIX as LABELS
from ..training.label_images import LabelledBody, move_to_mean, prepare_label_images, write_label_image
from ..training.loop import CHECKPOINT, Progress
from ..training.mirrors import train_mirror_networks, write_mirror_network
from ..training.organs import with_organ_knowledge
from ..training.preparation import REPORT, prepare_set
from ..training.recipes import Recipe
from ..training.scans import PreparedScan, prepare_phantoms
from ..training.trainer import Validation, train
from ..words.atlas import SUFFIX as ATLAS
from ..words.atlas_building import build_atlas
from .data_index import HELD_OUT, Entry, link_files, read_data, spread
from .model_card import NAMES, TERMS_TEXT, Facts, write_card

ORIENTATION = "ct.orientation.safetensors"
_FULL_HOURS = 5.0  # from this budget on, all data is used; with fewer hours, the numbers below are reduced
_NUMBERS = {
    "phantoms": 70, "label_images": 6, "drawn_scans": 12, "calibration_scans": 120, "calibration_phantoms": 10,
    "library_phantoms": 8, "atlas_phantoms": 18, "mirror_steps": 1500,
}  # fmt: skip
_LEAST = 3  # least value of each number, except label images
_THREE_ROUNDS_HOURS = 4.0
_ROUNDS = {2: {"A": 0.4, "B": 0.6}, 3: {"A": 0.25, "B": 0.25, "C": 0.5}}  # share of the hours of training
# Hours of all stages that do not train the network, and the share of each stage in them.
_OTHER_HOURS, _OTHER_SHARE, _OTHER_LIMIT = 0.4, 0.1, 0.5
_OTHERS = {"scans": 0.3, "align": 0.15, "organs": 0.04, "orientation": 0.06, "calibration": 0.25, "library": 0.12,
           "atlas": 0.1, "figures": 0.05}  # fmt: skip
_LATER_RATE = 1e-3  # learning rate of rounds that start from trained weights
_TIMED_STEPS = 10
_DRAWING_SEED = 77  # of the label images for calibration and library; training images have seeds from 0
_MIRROR_SHARES = {"scan": 0.35, "label map": 0.54, "phantom": 0.11}
_REPORT_SECONDS = 15.0
_NOW = time.monotonic


@dataclass(frozen=True)
class Plan:
    """How the hours of a build are used. hours: stage -> hours. numbers: how many scans of each kind are made or used.

    The seed of a round is `seed` plus the number of the round.
    """

    terms: str
    recipe: str
    seed: int
    scans: list[str]
    label_maps: list[str]
    hours: dict[str, float]
    numbers: dict[str, int]

    @classmethod
    def make(
        cls, terms: str, recipe: str, seed: int, hours: float, scans: list[Entry], label_maps: list[Entry]
    ) -> Plan:
        other = min(_OTHER_LIMIT * hours, _OTHER_HOURS + _OTHER_SHARE * hours)
        rounds = _ROUNDS[3 if hours >= _THREE_ROUNDS_HOURS else 2]
        parts = {stage: share * other for stage, share in _OTHERS.items()}
        aligning = parts.pop("align") / (len(rounds) - 1)
        used = {"scans": parts.pop("scans")}
        for name, share in rounds.items():
            used |= {f"align {name}": aligning} if name != "A" else {}
            used[f"round {name}"] = share * (hours - other)
        share = min(1.0, hours / _FULL_HOURS)
        numbers = {name: max(_LEAST, round(share * full)) for name, full in _NUMBERS.items()}
        numbers["label_images"] = max(1, round(share * _NUMBERS["label_images"]))
        names, map_names = ([each.name for each in entries] for entries in (scans, label_maps))
        planned = {stage: round(of, 4) for stage, of in (used | parts).items()}
        return cls(terms, recipe, seed, names, map_names, planned, numbers)


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
    plan: Plan = field(init=False)

    def __post_init__(self) -> None:
        require("sklearn.ensemble", "scikit-learn", "calibrating needs", "train")
        self.scans, self.label_maps = read_data(self.data, self.terms)
        self.name, self.work = NAMES[self.terms], self.folder / "build"
        self.plan = Plan.make(self.terms, self.recipe.name, self.seed, self.hours, self.scans, self.label_maps)
        self.rounds = [stage.removeprefix("round ") for stage in self.plan.hours if stage.startswith("round ")]
        self.weights = self.folder / f"{self.name}.safetensors"
        table = self.data / "train_levels.json"
        self._levels = LevelTable.read(table) if table.is_file() else None
        path = self.folder / "plan.json"
        if path.is_file():
            if self._read(path) != asdict(self.plan):
                raise AnatomicalEmbeddingError(
                    f"{path}: this folder contains a build with another plan, such as other hours, terms or data; "
                    "give the same command as before, or choose another output folder."
                )
        else:
            self._write(path, asdict(self.plan))
        self._last = -_REPORT_SECONDS

    def run(self) -> list[Path]:
        """Make all files that are missing. Returns the files to ship."""
        beside = (CALIBRATION, LIBRARY, ATLAS, ".json")
        calibration, library, atlas, card = (self.folder / f"{self.name}{suffix}" for suffix in beside)
        orientation = self.folder / ORIENTATION
        made: dict[str, tuple[Path, Callable[[], None]]] = {"scans": (self._set("A") / REPORT, self._place_scans)}
        for before, name in zip(["", *self.rounds], self.rounds, strict=False):
            if before:
                made[f"align {name}"] = self._set(name) / REPORT, partial(self._align, name, before)
            made[f"round {name}"] = self._round_weights(name), partial(self._train, name, before)
        made |= {
            "organs": (self.weights, self._learn_organs),
            "orientation": (orientation, partial(self._train_orientation, orientation)),
            "calibration": (calibration, partial(self._calibrate, calibration)),
            "library": (library, partial(self._build_library, library)),
            "atlas": (atlas, partial(self._build_atlas, atlas)),
            "figures": (card, partial(self._write_card, card)),
        }
        for stage, (result, make) in made.items():
            if not result.exists():
                with _Clock(self.work / "times.json", stage):
                    self._progress(stage, 0.0, "begins", always=True)
                    make()
        return [self.weights, calibration, library, atlas, orientation, card, card.with_suffix(".md")]

    # -- progress and files

    def _progress(self, stage: str, share: float, what: str, always: bool = False) -> None:
        """Report the progress of a stage and the expected end of the build. Raises CancelledError after a signal."""
        if self.cancelled():
            raise CancelledError(f"{self.folder}: stopped in stage {stage!r}; give the same command to continue.")
        if always or _NOW() > self._last + _REPORT_SECONDS:
            self._last = _NOW()
            stages = list(self.plan.hours)
            number = stages.index(stage)
            left = sum(self.plan.hours[later] for later in stages[number + 1 :]) + (1 - share) * self.plan.hours[stage]
            end = datetime.fromtimestamp(time.time() + 3600 * left)
            self.report(f"[{number + 1}/{len(stages)}] {stage}: {what}; expected end of the build: {end:%a %H:%M}")

    def _read(self, path: Path) -> dict:
        try:
            return parse_json(path.read_text(encoding="utf-8"))
        except ValueError:
            raise AnatomicalEmbeddingError(f"{path}: is damaged; delete this file, or the whole folder.") from None

    def _write(self, path: Path, values: object) -> None:
        write_text(path, json.dumps(values, indent=1))

    def _set(self, name: str) -> Path:
        return self.work / f"scans_{name}"

    def _round_weights(self, name: str) -> Path:
        return self.work / f"round_{name}.safetensors"

    # -- scans

    def _place_scans(self) -> None:
        """Prepare the scans with level readings for round A."""
        read = [each for each in self.scans if self._levels is not None and self._levels.of(each.name)]
        if read:
            self._prepare("scans", "A", read, None)
        else:
            write_text(self._set("A") / REPORT, "")

    def _align(self, name: str, before: str) -> None:
        """Prepare all scans for a round; the weights of the round before give them body coordinates."""
        if self.scans:
            self._prepare(f"align {name}", name, self.scans, str(self._round_weights(before)))
        else:
            write_text(self._set(name) / REPORT, "")

    def _prepare(self, stage: str, name: str, entries: list[Entry], model: str | None) -> None:
        links = link_files(entries, self.work / f"links_{name}")
        done = iter(range(1, len(entries) + 1))

        def report(line: str) -> None:
            self._progress(stage, next(done, len(entries)) / len(entries), line, always=line.startswith("skipped"))

        prepare_set(
            [links], self.recipe.network.spacing_mm, self._set(name), levels=self._levels, model=model, align=model,
            jobs=self.jobs, report=report,
        )  # fmt: skip

    def _training_set(self, stage: str, name: str) -> list[PreparedScan]:
        """Return the prepared scans of a round, label images and phantoms; all are made at the first call."""
        spacing, made = self.recipe.network.spacing_mm, self.work / "images"

        def report(line: str) -> None:
            self._progress(stage, 0.0, line)

        paths = sorted(self._set(name).glob("*.safetensors"))
        phantoms = [
            PreparedScan.load(path) for path in prepare_phantoms(self.plan.numbers["phantoms"], spacing, made, report)
        ]
        if self.label_maps:
            folder = link_files(self.label_maps, self.work / "label_maps")
            images, placement = prepare_label_images(folder, self.plan.numbers["label_images"], spacing, made, report)
            paths += images
            phantoms = [move_to_mean(scan, placement) for scan in phantoms]
        return [PreparedScan.load(path) for path in paths] + phantoms

    # -- the network

    def _train(self, name: str, before: str) -> None:
        """Train one round. before: the round whose weights it starts from; "" for random weights."""
        stage = f"round {name}"
        scans = self._training_set(stage, name)
        recipe, start = self.recipe, None
        if before:
            later = replace(recipe.optimiser, frozen_statistics=True, learning_rate=_LATER_RATE)
            recipe, start = replace(recipe, optimiser=later), self._network(self._round_weights(before))
        steps = self._steps(scans)[name]

        def show(done: Progress) -> None:
            what = f"step {done.step}/{steps}, loss {done.loss:.4f}, {done.seconds_per_step:.2f} s/step"
            self._progress(stage, done.step / steps, what)

        folder = self.work / stage.replace(" ", "_")
        done = train(
            scans, recipe, folder, steps, seed=self.seed + self.rounds.index(name), device=self.device,
            workers=self.workers, start_from=start, progress=lambda done: None if self.cancelled() else show(done),
            cancelled=self.cancelled,
        )  # fmt: skip
        about = {"recipe": recipe.to_dict(), "steps": done.steps, "terms": self.terms}
        write_weights(done.network, self._round_weights(name), f"{self.name}-{name}", about)
        (folder / CHECKPOINT).unlink(missing_ok=True)

    def _steps(self, scans: list[PreparedScan]) -> dict[str, int]:
        """Return the number of steps of each round: its hours divided by the time of a step, which is measured once."""
        path = self.work / "steps.json"
        if not path.is_file():
            times: list[float] = []
            with tempfile.TemporaryDirectory(dir=self.work) as folder:
                train(
                    scans, self.recipe, Path(folder), _TIMED_STEPS, seed=self.seed, device=self.device,
                    workers=self.workers, progress=lambda done: times.append(_NOW()), cancelled=self.cancelled,
                )  # fmt: skip
            seconds = (times[-1] - times[0]) / (len(times) - 1)
            hours = {name: self.plan.hours[f"round {name}"] for name in self.rounds}
            self._write(path, {name: max(1, round(3600 * of / seconds)) for name, of in hours.items()})
        return self._read(path)

    def _network(self, path: Path) -> EmbeddingNetwork:
        return find_weights(str(path)).network

    def _learn_organs(self) -> None:
        """Compute usual places and codes of organs from all labelled images, and write the final weights."""
        last = self.rounds[-1]
        network = self._network(self._round_weights(last))
        if network.spec.organs:
            labelled = [scan for scan in self._training_set("organs", last) if scan.labels is not None]
            network = with_organ_knowledge(network, [s for s in labelled if s.origin != "phantom"] or labelled)
        about = {
            "recipe": self.recipe.to_dict(), "steps": sum(self._read(self.work / "steps.json").values()),
            "scans": self.plan.scans, "label_maps": self.plan.label_maps, "terms": TERMS_TEXT[self.terms],
        }  # fmt: skip
        write_weights(network, self.weights, self.name, about)

    def _train_orientation(self, path: Path) -> None:
        scans = self._training_set("orientation", self.rounds[-1])
        cells = [
            in_cells(WorkingGrid(s.hu.float(), s.grid_to_ras[:3, 3], self.recipe.network.spacing_mm), s.body.numpy())
            for s in scans
        ]
        origins = [scan.origin for scan in scans]
        shares = [_MIRROR_SHARES[origin] / origins.count(origin) for origin in origins]
        steps, seeds = self.plan.numbers["mirror_steps"], (self.seed, self.seed + 1)

        def report(step: int, loss: float) -> None:
            self._progress("orientation", step / steps / len(seeds), f"step {step}/{steps} of one of two networks")

        write_mirror_network(train_mirror_networks(cells, shares, steps, seeds, report), path)

    # -- files for the finished weights

    @cached_property
    def _model(self) -> Model:
        return load_model(str(self.weights), self.device)

    @cached_property
    def _drawn(self) -> tuple[Path, Path]:
        """Return two folders: links to the label maps with most structures, and scans drawn from these label maps."""
        maps, drawn = self.work / "drawn_label_maps", self.work / "drawn_scans"
        ranked = sorted(
            self.label_maps, key=lambda each: -len(self._read(each.path.with_name(f"{each.name}.labels.json")))
        )
        link_files(ranked[: self.plan.numbers["drawn_scans"]], maps)
        drawn.mkdir(exist_ok=True)
        bodies = [LabelledBody.read(path) for path in sorted(maps.glob("*" + LABELS))]
        placement = place({body.name: body.points for body in bodies}) if bodies else None
        for body in bodies:
            if body.name in placement.maps and not (drawn / f"{body.name}.nii.gz").exists():
                self._progress("calibration", 0.0, f"drawing a scan from {body.name}")
                write_label_image(body, placement, _DRAWING_SEED, drawn)
        return maps, drawn

    @cached_property
    def _chosen(self) -> Path:
        """Return a folder with links to the scans for calibration and library: half of them labelled, if possible."""
        count = self.plan.numbers["calibration_scans"]
        labelled = spread([each for each in self.scans if each.is_labelled], -(-count // 2))
        others = [each for each in self.scans if each not in labelled]
        return link_files([*labelled, *spread(others, count - len(labelled))], self.work / "chosen_scans")

    def _calibrate(self, path: Path) -> None:
        first, count = calibrate.PHANTOM_SEED, self.plan.numbers["calibration_phantoms"]
        folders = [folder for folder in (self._chosen, self._drawn[1]) if any(folder.iterdir())]
        calibrate.collect(
            self._model,
            folders,
            range(first, first + count),
            lambda share, what: self._progress("calibration", share, what),
        ).save(path)

    def _build_library(self, path: Path) -> None:
        found = (load_case(scan) for folder in (self._chosen, self._drawn[1]) for scan in list_scans(folder))
        cases = [case for case in found if case is not None]
        first, count = cross_validation.PHANTOM_SEED, self.plan.numbers["library_phantoms"]
        seeds = range(first, first + count)
        about = {"weights": self.name, "scans": [case.id for case in cases], "phantoms": list(seeds)}
        cross_validation.build_library(
            [*labelled_boxes(cases), *phantom_boxes(seeds)], self._model, about,
            lambda share, what: self._progress("library", share, what),
        ).save(path)  # fmt: skip

    def _build_atlas(self, path: Path) -> None:
        every = self.plan.numbers["drawn_scans"] == _NUMBERS["drawn_scans"]
        folders = [self.work / "label_maps" if every else self._drawn[0], self._chosen]
        build_atlas(
            [folder for folder in folders if any(folder.glob("*" + LABELS))], self._model,
            self.plan.numbers["atlas_phantoms"], lambda share, what: self._progress("atlas", share, what),
        ).save(path)  # fmt: skip

    def _held_out(self) -> Path | None:
        """Return the folder of labelled scans that only measure, or None if there is no labelled scan."""
        folder = self.data / HELD_OUT
        return folder if any(folder.glob("*.labels.json")) or any(folder.glob("*.landmarks.json")) else None

    def _write_card(self, path: Path) -> None:
        """Measure the weights on DATA/dev and on synthetic patients; write the model card as text and as JSON."""
        errors = Validation(self._held_out(), self.device)(self._network(self.weights))
        times = self._read(self.work / "times.json")
        facts = Facts(
            self.name, self.terms, self.recipe.name, self._read(self.work / "steps.json"),
            self.plan.numbers["phantoms"],
            sum(of["core_hours"] for of in times.values()), errors, self.device, torch.__version__,
        )  # fmt: skip
        write_card(path, facts, file_sha256(self.weights), self.scans, self.label_maps)


class _Clock:
    """Context manager that adds the duration of a stage to a JSON file: hours, and core-hours of this process and its
    children.
    """

    def __init__(self, path: Path, stage: str) -> None:
        self._path, self._stage = path, stage

    def __enter__(self) -> None:
        self._start = _NOW(), sum(os.times()[:4])

    def __exit__(self, *_: object) -> None:
        times = parse_json(self._path.read_text(encoding="utf-8")) if self._path.is_file() else {}
        before = times.get(self._stage, {"hours": 0.0, "core_hours": 0.0})
        spent = _NOW() - self._start[0], sum(os.times()[:4]) - self._start[1]
        added = (before["hours"] + spent[0] / 3600, before["core_hours"] + spent[1] / 3600)
        times[self._stage] = {"hours": round(added[0], 4), "core_hours": round(added[1], 4)}
        write_text(self._path, json.dumps(times, indent=1))
