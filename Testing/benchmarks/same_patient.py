"""Measure the correspondence of two scans of one patient, and learn its calibration.

    python Testing/benchmarks/same_patient.py lungs | copies | phases | strangers | calibrate DATA

lungs: the two lung scans with landmarks. copies: later copies of 12 scans, whose truth is known (`known_pairs`).
phases: scans of one day with different contrast. strangers: 20 pairs of different patients. calibrate: writes
same-patient.calibration.safetensors from copies of the training scans. DATA: folder with the folders dev and train.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import SimpleITK as sitk

from AnatomicalEmbedding import load_model
from AnatomicalEmbedding.embedding.calibration import SUFFIX, Calibration
from AnatomicalEmbedding.embedding.inference import Model
from AnatomicalEmbedding.embedding.map import EmbeddingMap
from AnatomicalEmbedding.errors import NotSamePatientError, VolumeError
from AnatomicalEmbedding.evaluation.confidence import auroc, calibration_error
from AnatomicalEmbedding.matching.status import MATCHED
from AnatomicalEmbedding.registration import KINDS
from AnatomicalEmbedding.registration.agreement import EVIDENCE
from AnatomicalEmbedding.registration.correspondence import FOREST, Correspondence, pair
from AnatomicalEmbedding.registration.register import register
from AnatomicalEmbedding.resources import resource
from AnatomicalEmbedding.scan.geometry import transform_points
from AnatomicalEmbedding.scan.volume import Volume
from AnatomicalEmbedding.training.calibrate import Outcomes, grow_forest

sys.path.append(str(Path(__file__).resolve().parents[1]))
from evaluations.known_pairs import CHANGED, SAME, KnownPair, make_pair

COPIED = (
    "elastix_lung_baseline", "ircad_p01", "ircad_p17", "kbp_pt_4", "kbp_pt_34", "mirp_LUNG1-001", "pelvicref002",
    "segthor_05", "segthor_35", "ts_example", "ts_aorta", "waw0697_eqp",
)  # fmt: skip
PHASES = (("waw0697_eqp", "waw0697_ap"), ("waw1211_ap", "waw1211_eqp"), ("waw2022_ap", "waw2022_eqp"))
STRANGERS = (
    ("elastix_lung_baseline", "lidc0001"), ("lidc0001", "lidc0002"), ("segthor_05", "segthor_10"),
    ("segthor_35", "elastix_lung_followup"), ("waw0697_ap", "waw1211_ap"), ("waw2022_eqp", "waw0697_eqp"),
    ("hcc002", "hcc011"), ("hcc006", "hcc015_ph103"), ("hcc011", "waw1211_eqp"), ("kbp_pt_4", "kbp_pt_34"),
    ("kbp_pt_60", "kbp_pt_82"), ("kbp_pt_1", "kbp_pt_4"), ("kbp_pt_34", "kbp_pt_90"), ("ircad_p01", "ircad_p17"),
    ("aapm_L067", "aapm_L192"), ("aapm_L506", "ts_example"), ("pelvicref002", "vhf_pelvis"),
    ("lung1_002", "lung1_141"), ("rider0109", "rider0117"), ("crlm1004", "crlm1006"),
)  # fmt: skip
Carry = Callable[[np.ndarray], np.ndarray]  # points (n, 3) RAS mm -> places (n, 3) RAS mm
_POINTS, _POINTS_A_BALL = 400, 8
_CHANGED_WEIGHT = 0.35  # of all points in changed tissue, relative to all other points
_TEST_SEED, _TRAINING_SEED = 5000, 100


class Scans:
    """Reads and embeds the scans of a folder."""

    def __init__(self, folder: Path, model: Model) -> None:
        self._folder, self.model = folder, model

    def path(self, name: str, ending: str = ".nii.gz") -> Path:
        """Return the file of a scan, in dev or train."""
        return next(path for part in ("dev", "train") if (path := self._folder / part / f"{name}{ending}").exists())

    def read(self, name: str) -> Volume:
        return Volume.read(self.path(name))

    def pair(self, one: Volume, other: Volume) -> tuple[Correspondence, float]:
        """Pair two scans. Returns the seconds, too, without embedding."""
        maps = self.model.embed(one), self.model.embed(other)
        start = time.perf_counter()
        return pair(one, other, *maps), time.perf_counter() - start

    def training(self) -> list[str]:
        """Return the names of every third training scan."""
        return sorted({path.name.split(".")[0] for path in (self._folder / "train").glob("*.nii.gz")})[::3]


def lungs(scans: Scans) -> Iterator[str]:
    """Measure the errors at the landmarks of two lung scans of one patient, in both directions."""
    names = "elastix_lung_baseline", "elastix_lung_followup"
    marks = [json.loads(scans.path(name, ".landmarks.json").read_text())["points"] for name in names]
    first, second = (np.array([mark[key] for key in sorted(marks[0])]) for mark in marks)
    found, seconds = scans.pair(*map(scans.read, names))
    answers = found.points(first), found.inverse().points(second)
    errors = np.concatenate([_errors(a, t) for a, t in zip(answers, (second, first), strict=True)])
    matched = np.mean([s == MATCHED for each in answers for s in each.status])
    expected = np.concatenate([each.expected_error_mm for each in answers])
    yield f"{_summary(errors)}; {seconds:.1f} s; matched {matched:.0%}, mean expected error {expected.mean():.2f} mm"


def copies(scans: Scans) -> Iterator[str]:
    """Measure later copies of 12 scans."""
    parts = []
    for number, name in enumerate(COPIED):
        known = make_pair(scans.read(name), _TEST_SEED + number)
        part = outcomes(scans, known, _TEST_SEED + number)
        if part is None:
            yield f"{name}: refused"
            continue
        parts.append(part)
        yield f"{name}: {_figures(part)}"
    yield f"all: {_figures({key: np.concatenate([part[key] for part in parts]) for key in parts[0]})}"


def outcomes(scans: Scans, known: KnownPair, seed: int) -> dict[str, np.ndarray] | None:
    """Pair a known pair, and try points in both directions. Returns the values of n points; None if refused."""
    rng = np.random.default_rng(seed)
    try:
        found, seconds = scans.pair(known.copy, known.original)
    except (NotSamePatientError, VolumeError) as error:  # a copy whose ends are empty may be refused as a volume
        print(error, flush=True)
        return None
    points = _points(known, scans.model.embed(known.copy), rng)
    truth, kinds = known.to_original(points), known.kinds(points)
    kept = known.original.contains(truth) & (kinds != "")
    points, truth, kinds = points[kept], truth[kept], kinds[kept]
    parts = []
    for one, ask, there in ((found, points, truth), (found.inverse(), truth, points)):
        places, evidence = one.read(ask)
        answers = one.points(ask)
        parts.append(
            {
                "evidence": evidence,
                "error": np.linalg.norm(places - there, axis=1),
                "changed": kinds == CHANGED,
                "matched": answers.status == MATCHED,
                "expected": answers.expected_error_mm,
                "probability": answers.probability,
                "seconds": np.full(len(ask), seconds),
            }
        )
    return {key: np.concatenate([part[key] for part in parts]) for key in parts[0]}


def _points(known: KnownPair, embedding: EmbeddingMap, rng: np.random.Generator) -> np.ndarray:
    """Choose points (n, 3) in the body of the copy, and points in its lesions."""
    cells = embedding.body_index.numpy()
    cells = cells[rng.integers(len(cells), size=_POINTS)] + rng.uniform(-0.5, 0.5, (_POINTS, 3))
    parts = [transform_points(embedding.cell_to_ras, cells)]
    for ball in known.balls:
        away = rng.normal(size=(_POINTS_A_BALL, 3))
        radius = max(ball.before_mm, ball.after_mm) * rng.random((_POINTS_A_BALL, 1)) ** (1 / 3)
        parts.append(ball.centre + away / np.linalg.norm(away, axis=1, keepdims=True) * radius)
    points = np.concatenate(parts)
    return points[known.copy.contains(points) & embedding.in_body(points)]


def phases(scans: Scans) -> Iterator[str]:
    """Measure inverse consistency of each stage, and the other scan's HU under the masks of liver and tumour."""
    for names in PHASES:
        volumes = tuple(map(scans.read, names))
        maps = tuple(map(scans.model.embed, volumes))
        stages: dict[str, tuple[Carry, Carry]] = {}
        for kind in KINDS[1:]:
            there, back = register(maps, volumes, kind), register(maps[::-1], volumes[::-1], kind)
            stages[kind] = there.transform_points, back.transform_points
        found = pair(*volumes, *maps)
        stages["correspondence"] = _carry(found), _carry(found.inverse())
        points = transform_points(maps[0].cell_to_ras, maps[0].body_index.numpy()[::29])
        for stage, (there, back) in stages.items():
            answers = there(points)
            inside = volumes[1].contains(answers)
            cycle = np.linalg.norm(back(answers[inside]) - points[inside], axis=1)
            masks = _under_masks(scans, names[0], volumes, there)
            yield f"{names[0]} {stage}: cycle {cycle.mean():.2f}, p95 {np.percentile(cycle, 95):.2f} mm; {masks}"


def _carry(found: Correspondence) -> Carry:
    return lambda points: found.points(points).points_ras


def _under_masks(scans: Scans, name: str, volumes: Sequence[Volume], there: Carry) -> str:
    """Measure the other scan's HU under the masks of a scan: if a mask is carried well, their spread is low."""
    labels = sitk.GetArrayFromImage(sitk.ReadImage(str(scans.path(name, ".seg.nii.gz"))))
    named = json.loads(scans.path(name, ".labels.json").read_text())
    found = []
    for label in np.unique(labels)[1:]:
        cells = np.argwhere(labels == label)[:, ::-1]
        answers = there(transform_points(volumes[0].ijk_to_ras, cells[:: max(len(cells) // 4000, 1)]))
        hu = volumes[1].sample(answers[volumes[1].contains(answers)])
        found.append(f"{named[str(label)]} {hu.mean():.0f} +- {hu.std():.1f} HU")
    return ", ".join(found)


def strangers(scans: Scans) -> Iterator[str]:
    """Count the pairs of different patients that are refused."""
    refused = []
    for one, other in STRANGERS:
        start = time.process_time()
        try:
            scans.pair(scans.read(one), scans.read(other))
            refused.append(False)
        except NotSamePatientError:
            refused.append(True)
        seconds = time.process_time() - start
        yield f"{one}, {other}: {'refused' if refused[-1] else 'PAIRED'}, {seconds:.1f} s of one core"
    yield f"{sum(refused)} of {len(refused)} refused"


def calibrate(scans: Scans) -> Iterator[str]:
    """Learn the calibration from one copy of each training scan, and write it."""
    parts, used = [], []
    for number, name in enumerate(scans.training()):
        part = outcomes(scans, make_pair(scans.read(name), _TRAINING_SEED + number), number)
        if part is not None:
            parts.append(part)
            used.append(name)
            yield f"{name}: {_figures(part)}"
    joined = {key: np.concatenate([part[key] for part in parts]) for key in parts[0]}
    write_calibration(joined, used)
    yield f"{len(joined['error'])} points of {len(used)} scans"


def write_calibration(found: dict[str, np.ndarray], used: Sequence[str]) -> None:
    """Fit the forest, and write the calibration among the models."""
    changed = found["changed"]
    sources = {
        SAME: Outcomes(found["evidence"][~changed], found["error"][~changed]),
        CHANGED: Outcomes(found["evidence"][changed], np.full(changed.sum(), np.inf)),
    }
    forest = grow_forest(sources, {SAME: 1.0, CHANGED: _CHANGED_WEIGHT})
    path = resource("Models") / f"same-patient{SUFFIX}"
    Calibration("", EVIDENCE, {FOREST: forest}, {"scans": list(used), "points": len(changed)}).save(path)


def _errors(found, truth: np.ndarray) -> np.ndarray:
    return np.linalg.norm(found.points_ras - truth, axis=1)


def _summary(errors: np.ndarray) -> str:
    return "mean {:.2f}, median {:.2f}, p90 {:.2f}, p95 {:.2f} mm".format(
        errors.mean(), np.median(errors), *np.percentile(errors, (90, 95))
    )


def _figures(part: dict[str, np.ndarray]) -> str:
    same = ~part["changed"]
    error, matched = part["error"][same], part["matched"]
    wrong = error > 5
    ranks = auroc(part["expected"][same], wrong) if 0 < wrong.sum() < len(wrong) else None
    ece = calibration_error(part["probability"][same], error < 10)
    return (
        f"{len(error)} points, {_summary(error)}; matched {matched[same].mean():.0%}, their p95 "
        f"{np.percentile(error[matched[same]], 95) if matched[same].any() else np.nan:.2f}; ECE {ece:.3f}, "
        f"AUROC > 5 mm {ranks if ranks is None else round(ranks, 3)}; expected {part['expected'][same].mean():.2f}; "
        f"changed not matched {1 - matched[~same].mean() if (~same).any() else np.nan:.0%} of {(~same).sum()}; "
        f"{part['seconds'].mean():.1f} s"
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one measurement, and print its lines."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    kinds = {each.__name__: each for each in (lungs, copies, phases, strangers, calibrate)}
    parser.add_argument("kind", choices=kinds)
    parser.add_argument("folder", type=Path, metavar="DATA")
    options = parser.parse_args(arguments)
    for line in kinds[options.kind](Scans(options.folder, load_model())):
        print(line, flush=True)


if __name__ == "__main__":
    main()
