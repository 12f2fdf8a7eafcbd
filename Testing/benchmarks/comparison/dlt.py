"""Lesion pairs of Deep Lesion Tracker (Cai et al., CVPR 2021): their test.json, and predictions as in DLTMix.json.

Read as they are, and they hold two traps. `recist diameter` is in pixels, whatever their README says: it is multiplied
by the spacing here. Centres count z from the first slice of the stack, the uppermost one.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from AnatomicalEmbedding.errors import AnatomicalEmbeddingError
from AnatomicalEmbedding.evaluation.lesions import CentrePoints
from AnatomicalEmbedding.evaluation.results import Section, Tables
from AnatomicalEmbedding.matching.match import match
from AnatomicalEmbedding.scan.geometry import transform_points
from AnatomicalEmbedding.scan.volume import Volume

if TYPE_CHECKING:
    from AnatomicalEmbedding.embedding.inference import Model

_TRUTH = (
    "source", "target", "source center", "target center", "target box", "target spacing", "target recist diameter",
)  # fmt: skip
_SAME_VOXELS = 1.0  # the files round centres differently
_MAPS_KEPT = 4
_PREDICTION = "predict target center"


@dataclass(frozen=True, eq=False)
class DltPairs:
    """n directed pairs. source, target: names of scans. centres: (n, 3) voxels x, y, z. target_box: (n, 6) least
    corner and size, voxels. target_spacing: (n, 3) mm. radius_mm: (n,) half the longest diameter in the target.
    predicted: (n, 3) voxels of the target, NaN where there is none. seconds: (n,), NaN where not told.
    """

    source: tuple[str, ...]
    target: tuple[str, ...]
    source_centre: np.ndarray
    target_centre: np.ndarray
    target_box: np.ndarray
    target_spacing: np.ndarray
    radius_mm: np.ndarray
    predicted: np.ndarray
    seconds: np.ndarray

    def centre_points(self) -> CentrePoints:
        """The predictions beside the truth."""
        return CentrePoints(
            (self.predicted - self.target_centre) * self.target_spacing,
            self.target_spacing,
            self.radius_mm,
            (self.predicted - self.target_box[:, :3]) * self.target_spacing,
            self.target_box[:, 3:] * self.target_spacing,
        )


@dataclass(frozen=True)
class DltResult(Tables):
    """name -> its predictions; n pairs each. notes: what to know of the figures."""

    pairs: Mapping[str, DltPairs]
    notes: tuple[str, ...] = ()

    def sections(self) -> list[Section]:
        names = list(self.pairs)
        points = {name: pairs.centre_points() for name, pairs in self.pairs.items()}
        rates = {name: each.rates() for name, each in points.items()}
        count = len(next(iter(self.pairs.values())).source)
        meanings = [(what, *(f"{rates[n][what]:.4f}" for n in names)) for what in rates[names[0]]]
        figures = {
            "mean offset mm (MED)": np.mean,
            "  SD": np.std,
            "median": np.median,
            "90th percentile": lambda e: np.percentile(e, 90),
        }
        rows = [(what, *(f"{of(points[n].errors_mm):.2f}" for n in names)) for what, of in figures.items()]
        along = {n: np.abs(points[n].offsets_mm).mean(axis=0) for n in names}
        rows += [(f"mean along {'xyz'[axis]}", *(f"{along[n][axis]:.2f}" for n in names)) for axis in range(3)]
        seconds = [self.pairs[n].seconds for n in names]
        rows.append(("seconds a pair", *("-" if np.isnan(s).all() else f"{np.nanmean(s):.2f}" for s in seconds)))
        return [
            Section(f"Centre point matching ({count} directed pairs)", (("share", *names), *meanings)),
            Section("Offsets", (("", *names), *rows)),
            *([Section("Notes", (), self.notes)] if self.notes else []),
        ]

    def to_json(self) -> str:
        found = {}
        for name, pairs in self.pairs.items():
            points = pairs.centre_points()
            error = points.errors_mm
            found[name] = {
                "pairs": len(error),
                "rates": points.rates(),
                "mean": float(error.mean()),
                "sd": float(error.std()),
                "median": float(np.median(error)),
                "p90": float(np.percentile(error, 90)),
                "seconds": None if np.isnan(pairs.seconds).all() else float(np.nanmean(pairs.seconds)),
            }
        return json.dumps({"unit": "mm", "predictions": found, "notes": list(self.notes)}, indent=1)


def read_pairs(path: str | Path) -> DltPairs:
    """Read a json in DLT's layout: pairs by number (test.json), a list, or a list under "results" (DLTMix.json).

    What test.json holds as the prediction is the affine initialisation.
    Raises AnatomicalEmbeddingError naming the file, and the pair where one cannot be understood.
    """
    try:
        document = json.loads(Path(path).read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise AnatomicalEmbeddingError(f"{path}: no such file; check the path.") from error
    except (OSError, ValueError) as error:
        raise AnatomicalEmbeddingError(f"{path}: is not JSON; give DLT's test.json or DLTMix.json.") from error
    if isinstance(document, dict):
        document = document.get("results", document.get("distances", list(document.values())))
    if not isinstance(document, list) or not document:
        raise AnatomicalEmbeddingError(f"{path}: holds no lesion pairs; give DLT's test.json or DLTMix.json.")
    rows = []
    for number, pair in enumerate(document, start=1):
        try:
            rows.append(_read_pair(pair))
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise AnatomicalEmbeddingError(f"{path}: pair {number} cannot be understood ({error}).") from error
    source, target, *numbers = zip(*rows, strict=True)
    return DltPairs(source, target, *(np.array(values, dtype=np.float64) for values in numbers))


def _read_pair(pair: Mapping[str, Any]) -> tuple[Any, ...]:
    source, target, *values = (pair[key] for key in _TRUTH)
    source_centre, target_centre, box, spacing, diameter = (np.array(value, dtype=np.float64) for value in values)
    shapes = (source_centre.shape, target_centre.shape, box.shape, spacing.shape)
    if shapes != ((3,), (3,), (6,), (3,)) or not diameter.size or not (spacing > 0).all():
        raise ValueError("a centre, box, spacing or diameter has another number of values")
    predicted = np.array(pair.get(_PREDICTION, [math.nan] * 3), dtype=np.float64).reshape(3)
    seconds = pair.get("processing time", pair.get("prcessing time", math.nan))  # spelt so in some of their files
    radius_mm = float(diameter.max()) / 2 * spacing[0]
    return str(source), str(target), source_centre, target_centre, box, spacing, radius_mm, predicted, float(seconds)


def score_predictions(truth: DltPairs, predictions: Mapping[str, DltPairs]) -> DltResult:
    """Predictions of the same pairs, in any order, beside the affine initialisation that the truth's file holds.

    Raises AnatomicalEmbeddingError where a pair was not predicted.
    """
    found = {"affine guess in the file": truth} if not np.isnan(truth.predicted).any() else {}
    for name, pairs in predictions.items():
        order = _in_order(truth, pairs, name)
        found[name] = replace(truth, predicted=pairs.predicted[order], seconds=pairs.seconds[order])
        if np.isnan(found[name].predicted).any():
            raise AnatomicalEmbeddingError(f"{name}: some pairs have no '{_PREDICTION}'.")
    if not found:
        raise AnatomicalEmbeddingError(f"there is no '{_PREDICTION}' to score; give --predictions or --images.")
    return DltResult(found, _NOTES)


_NOTES = (
    "Three papers call different things CPM@Radius and CPM@10mm; compare a figure only with those of the same meaning.",
    "TLT counts in voxels of its own resampled volumes; here in those of the file.",
)


def _in_order(truth: DltPairs, pairs: DltPairs, name: str) -> list[int]:
    """Which pair of the predictions is each pair of the truth: of the same scans, and of the same two places."""
    of_scans: dict[tuple[str, str], list[int]] = {}
    for n, scans in enumerate(zip(pairs.source, pairs.target, strict=True)):
        of_scans.setdefault(scans, []).append(n)
    order = []
    for n, scans in enumerate(zip(truth.source, truth.target, strict=True)):
        away = {
            m: max(
                np.abs(truth.source_centre[n] - pairs.source_centre[m]).max(),
                np.abs(truth.target_centre[n] - pairs.target_centre[m]).max(),
            )
            for m in of_scans.get(scans, ())
        }
        nearest = min(away, key=away.get, default=None)
        if nearest is None or away[nearest] > _SAME_VOXELS:
            raise AnatomicalEmbeddingError(
                f"{name}: has no prediction for pair {n + 1}, {scans[0]} to {scans[1]}; give one for each."
            )
        order.append(nearest)
    return order


def match_images(
    truth: DltPairs,
    folder: Path,
    model: Model,
    effort: str = "standard",
    progress: Callable[[float, str], None] = lambda share, what: None,
) -> DltPairs:
    """The pairs with predictions by matching the scans in a folder (NIfTI, as NIH's DL_save_nifti.py makes them).

    seconds: of matching alone, the maps being made. Raises what reading, embedding and matching raise.
    """

    @lru_cache(maxsize=_MAPS_KEPT)
    def scan(name: str):
        volume = Volume.read(folder / name)
        return model.embed(volume), stack_to_ras(volume)

    predicted, seconds = np.empty_like(truth.target_centre), np.empty(len(truth.source))
    for n in sorted(range(len(truth.source)), key=lambda n: (truth.source[n], truth.target[n])):
        progress(n / len(truth.source), truth.target[n])
        (template, to_ras), (target, target_to_ras) = scan(truth.source[n]), scan(truth.target[n])
        started = perf_counter()
        found = match(template, transform_points(to_ras, truth.source_centre[n][None]), target, effort)
        seconds[n] = perf_counter() - started
        predicted[n] = transform_points(np.linalg.inv(target_to_ras), found.points_ras)[0]
    return replace(truth, predicted=predicted, seconds=seconds)


def stack_to_ras(volume: Volume) -> np.ndarray:
    """(4, 4) DLT's voxel -> RAS mm: x counts to the patient's left, y to the back, z downwards from the top slice.

    A NIfTI of the same scan counts z upwards where its axes point right, front and up, so its own indices do not serve.
    """
    axes = volume.ijk_to_ras[:3, :3] / np.linalg.norm(volume.ijk_to_ras[:3, :3], axis=0)
    size = np.array(volume.shape[::-1])
    turned = np.zeros((4, 4))
    turned[3, 3] = 1.0
    for row in range(3):  # x, y, z go along -R, -A, -S
        column = int(np.abs(axes[row]).argmax())
        forward = axes[row, column] < 0
        turned[column, row] = 1.0 if forward else -1.0
        turned[column, 3] = 0.0 if forward else size[column] - 1
    return volume.ijk_to_ras @ turned
