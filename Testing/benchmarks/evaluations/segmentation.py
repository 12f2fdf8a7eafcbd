"""Evaluate segmentation from a few examples: Dice, HD95, volume error, and the order for checking outlines.

The seed decides once which patients are used for the test: half of all patients, or as many as the caller asks for.
"""

import json
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path

import numpy as np
import SimpleITK as sitk

from AnatomicalEmbedding.embedding.inference import Model
from AnatomicalEmbedding.errors import PointsError
from AnatomicalEmbedding.evaluation.results import Section, Tables
from AnatomicalEmbedding.scan.volume import Volume
from AnatomicalEmbedding.segmentation.examples import OutlinedScan
from AnatomicalEmbedding.segmentation.outlining import outline
from AnatomicalEmbedding.segmentation.segmenter import Segmenter, train_segmenter
from AnatomicalEmbedding.segmentation.voxels import VoxelNet
from AnatomicalEmbedding.structures.labelled_scans import patient_of

SHOTS = (1, 2, 5, 10)
OURS, CARRIED = "ours", "labels by registration"
_RESAMPLES = 2000


@dataclass(frozen=True)
class Measured:
    """One structure of one test scan. dice: 0 where it was not found. hd95_mm: NaN where it was not. volume_error: of
    the true volume, signed. doubt: by which outlines are sorted, NaN where it was not found.
    """

    method: str
    shots: int
    scan: str
    patient: str
    structure: str
    dice: float
    hd95_mm: float
    volume_error: float
    doubt: float


@dataclass(frozen=True, eq=False)
class SegmentationResult(Tables):
    """All that was measured. seconds: mean time to outline a scan."""

    measured: tuple[Measured, ...]
    seconds: float
    notes: tuple[str, ...] = ()

    def to_json(self) -> str:
        """The result as JSON text, structure by structure."""
        rows = [{k: None if v != v else v for k, v in vars(m).items()} for m in self.measured]
        return json.dumps(
            {"measured": rows, "seconds_a_scan": round(self.seconds, 2), "notes": list(self.notes)}
        )

    def sections(self) -> list[Section]:
        head = (
            "method, examples",
            "mean Dice",
            "95 % of patients",
            "HD95 mm",
            "volume error %",
            "scans",
        )
        rows = []
        by_structure = []
        names = sorted({m.structure for m in self.measured})
        for method in (OURS, CARRIED):
            for shots in sorted({m.shots for m in self.measured}):
                of = [m for m in self.measured if (m.method, m.shots) == (method, shots)]
                if not of:
                    continue
                low, high = interval(of)
                hd = np.array([m.hd95_mm for m in of])
                rows.append((
                    f"{method}, M = {shots}", f"{np.mean([m.dice for m in of]):.3f}", f"{low:.3f} to {high:.3f}",
                    f"{np.nanmean(hd):.1f}" if np.isfinite(hd).any() else "",
                    f"{100 * np.mean([abs(m.volume_error) for m in of]):.0f}", str(len({m.scan for m in of})),
                ))  # fmt: skip
                means = [[m.dice for m in of if m.structure == name] for name in names]
                by_structure.append(
                    (rows[-1][0], *(f"{np.mean(d):.3f}" if d else "" for d in means))
                )
        found = [
            Section("Overlap with the experts' outlines", (head, *rows)),
            Section("Mean Dice of each structure", (("method, examples", *names), *by_structure)),
        ]
        judged = [m for m in self.measured if m.method == OURS and np.isfinite(m.doubt)]
        pairs = [(one, other) for one, other in combinations(judged, 2) if one.shots == other.shots]
        if pairs:
            right = np.mean(
                [(one.doubt > other.doubt) == (one.dice < other.dice) for one, other in pairs]
            )
            text = f"Of two outlines, that to look at first overlaps less in {100 * right:.0f} % of {len(pairs)} pairs."
            found.append(Section("Order", (), (text,)))
        found.append(
            Section("Notes", (), (f"{self.seconds:.1f} s to outline a scan.", *self.notes))
        )
        return found


def interval(of: Sequence[Measured]) -> tuple[float, float]:
    """95 % interval of the mean Dice, patients drawn again with replacement."""
    rng = np.random.default_rng(0)
    patients = sorted({m.patient for m in of})
    sums = np.array([sum(m.dice for m in of if m.patient == p) for p in patients])
    counts = np.array([sum(m.patient == p for m in of) for p in patients])
    drawn = rng.integers(len(patients), size=(_RESAMPLES, len(patients)))
    low, high = np.quantile(sums[drawn].sum(1) / counts[drawn].sum(1), (0.025, 0.975))
    return float(low), float(high)


def evaluate_segmentation(
    examples: Sequence[OutlinedScan],
    model: Model,
    seed: int = 0,
    shots: Sequence[int] = SHOTS,
    tests: int | None = None,
    steps: int = 600,
    progress: Callable[[float, str], None] = lambda share, what: None,
) -> SegmentationResult:
    """Train with M of `shots` patients, as far as there are so many, and outline `tests` others (None: half of all).

    steps: as `train_segmenter` has it. Raises PointsError where no patient is left to learn from or to test.
    """
    patients = sorted({patient_of(example.id) for example in examples})
    order = np.random.default_rng(seed).permutation(patients).tolist()
    learnt = max(len(order) - (len(order) // 2 if tests is None else tests), 0)
    pool = order[:learnt]
    test = order[learnt:]
    shots = [m for m in shots if m <= len(pool)]
    if not shots or not test:
        raise PointsError(
            f"segmentation: outlined scans of {len(patients)} patients are too few; at least one is learned from, and "
            "at least one tested."
        )
    # files of many sources are numbered
    names = sorted({name for example in examples for name in example.outlined})
    examples = [
        replace(each, values={n: names.index(n) + 1 for n in each.outlined}) for each in examples
    ]  # anew
    measured: list[Measured] = []
    seconds: list[float] = []
    for number, m in enumerate(shots):

        def step(share: float, what: str, number: int = number) -> None:
            progress((number + share / 2) / len(shots), what)

        chosen = [example for example in examples if patient_of(example.id) in pool[:m]]
        with tempfile.TemporaryDirectory() as folder:
            segmenter = train_segmenter(chosen, model, Path(folder), seed, steps, step=step)
            untrained = replace(
                segmenter,
                networks=tuple(
                    VoxelNet(n.structures, n.descriptors).eval() for n in segmenter.networks
                ),
            )
            tested = [example for example in examples if patient_of(example.id) in test]
            for n, example in enumerate(tested):
                progress((number + 0.5 + n / len(tested) / 2) / len(shots), example.id)
                volume = Volume.read(example.path)
                embedding = model.embed(volume)
                for method, by in ((OURS, segmenter), (CARRIED, untrained)):
                    began = time.perf_counter()
                    found = outline(volume, embedding, by)
                    if method == OURS:
                        seconds.append(time.perf_counter() - began)
                    measured += measure(example, found, by, method, m)
    progress(1.0, "")
    return SegmentationResult(tuple(measured), float(np.mean(seconds)))


def measure(
    example: OutlinedScan, found, segmenter: Segmenter, method: str, shots: int
) -> list[Measured]:
    """Every structure that the test scan outlines and the segmenter knows, against its truth."""
    labels = example.labels
    spacing = np.linalg.norm(labels.ijk_to_ras[:3, :3], axis=0)
    rows = []
    for one in found.outlines:
        if one.name not in example.outlined:
            continue
        own = found.labels.mask(one.name)
        true = labels.mask(one.name)
        doubt = float("nan") if one.doubt is None else one.doubt
        rows.append(
            Measured(
                method, shots, example.id, patient_of(example.id), one.name, dice(own, true), hd95(own, true, spacing),
                float(own.sum() / true.sum() - 1), doubt,
            )
        )  # fmt: skip
    return rows


def dice(one: np.ndarray, other: np.ndarray) -> float:
    """Overlap of two masks, 0..1; 1 where both are empty."""
    total = one.sum() + other.sum()
    return float(2 * (one & other).sum() / total) if total else 1.0


def hd95(one: np.ndarray, other: np.ndarray, spacing_mm: np.ndarray) -> float:
    """95th percentile of the distances in mm between the borders of two masks, both ways; NaN where one is empty.

    spacing_mm: (3,) of i, j, k.
    """
    if not one.any() or not other.any():
        return float("nan")
    places = np.argwhere(one | other)
    low = np.maximum(places.min(axis=0) - 1, 0)
    high = places.max(axis=0) + 2
    block = tuple(slice(a, b) for a, b in zip(low, high, strict=True))
    borders = [_border(mask[block]) for mask in (one, other)]
    apart = [_distance(borders[n], spacing_mm)[borders[1 - n]] for n in (0, 1)]
    return float(max(np.percentile(each, 95) for each in apart))


def _border(mask: np.ndarray) -> np.ndarray:
    padded = np.pad(mask, 1)
    inner = padded.copy()
    for axis in range(3):
        inner &= np.roll(padded, 1, axis) & np.roll(padded, -1, axis)
    return (padded & ~inner)[1:-1, 1:-1, 1:-1]


def _distance(border: np.ndarray, spacing_mm: np.ndarray) -> np.ndarray:
    image = sitk.GetImageFromArray(border.astype(np.uint8))
    image.SetSpacing([float(mm) for mm in spacing_mm])
    found = sitk.SignedMaurerDistanceMap(image, squaredDistance=False, useImageSpacing=True)
    return np.maximum(sitk.GetArrayFromImage(found), 0.0)
