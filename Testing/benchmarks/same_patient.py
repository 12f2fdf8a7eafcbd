"""Measure the correspondence of two scans of one patient, and learn its calibration.

    python Testing/benchmarks/same_patient.py pairs | strangers | copies | calibrate DATA

pairs: all pairs of scans of one patient. strangers: 40 pairs of different patients, of one region each. copies: later
copies of 12 scans, whose truth is known (`known_pairs`).
calibrate: writes same-patient.calibration.safetensors from copies of the training scans. DATA: folder with the folders
dev, train and kbp.
"""

import argparse
import json
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from AnatomicalEmbedding import load_model
from AnatomicalEmbedding.embedding.calibration import SUFFIX, Calibration
from AnatomicalEmbedding.embedding.inference import Model
from AnatomicalEmbedding.embedding.map import EmbeddingMap
from AnatomicalEmbedding.errors import AnatomicalEmbeddingError, NotSamePatientError, VolumeError
from AnatomicalEmbedding.evaluation.confidence import auroc, calibration_error
from AnatomicalEmbedding.matching.status import ABSENT, MATCHED
from AnatomicalEmbedding.registration.agreement import EVIDENCE, MEASURES, support
from AnatomicalEmbedding.registration.correspondence import (
    FOREST,
    Correspondence,
    pair,
    register_both_ways,
)
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
# All scans of one patient at hand, first those of one day. Of the last patient, the chest hardly overlaps the abdomen,
# and the abdomen does not overlap the head.
PATIENTS = (
    ("hcc002", "hcc002_1"), ("hcc011", "hcc011_2"), ("waw0697_eqp", "waw0697_ap"), ("waw1211_ap", "waw1211_eqp"),
    ("waw2022_ap", "waw2022_eqp"), ("elastix_lung_baseline", "elastix_lung_followup"),
    ("acrinflt001_t0", "acrinflt001_t2"), ("acrinflt001_t0", "acrinflt001_t1"), ("acrinflt001_t1", "acrinflt001_t2"),
)  # fmt: skip
# Scans of one region, and how many pairs of strangers are drawn from them
REGIONS = (
    (16, "hcc002 hcc002_1 hcc006 hcc011 hcc011_2 hcc015_ph103 ircad_p01 ircad_p17 waw0697_ap waw0697_eqp waw1211_ap "
     "waw1211_eqp waw2022_ap waw2022_eqp cptac_C3L-00189 tcga_BC-A10X crlm1004 crlm1006"),
    (6, "aapm_L067 aapm_L192 aapm_L506 tcga_AY-4070A ts_example pelvicref002 acrinflt001_t1 vhf_pelvis waw1211_ap "
     "waw2022_eqp"),
    (12, "acrinflt001_t0 acrinflt013 cmbcrc01068 cptac_C3N-00247 lidc0001 lidc0002 lidc0003 lidc0314 lung1_002 "
     "lung1_141 lung4d_113_p4 lungx_ct004 rjs_chest nlst101287 pancreascb001 r01_001 ricord000082 ricord001012 "
     "rider0109 rider0117 segthor_05 segthor_10 segthor_35 segthor_04 segthor_14 segthor_36 mirp_LUNG1-001 "
     "elastix_lung_baseline elastix_lung_followup"),
    (6, "kbp_pt_4 kbp_pt_34 kbp_pt_60 kbp_pt_82 kbp_pt_1 kbp_pt_20 kbp_pt_50 kbp_pt_90 kbp_pt_100 kbp_pt_17 "
     "kbp_pt_222 kbp_pt_306 hnchus052 acrinflt001_t2"),
)  # fmt: skip
_PAIR_SEED = 51
_POINTS, _POINTS_A_BALL = 400, 8
_CHANGED_WEIGHT = 0.35  # of all points in changed tissue, relative to all other points
_TEST_SEED, _TRAINING_SEED = 5000, 100


class Scans:
    """Reads and embeds the scans of a folder."""

    def __init__(self, folder: Path, model: Model) -> None:
        self._folder = folder
        self.model = model

    def path(self, name: str, ending: str = ".nii.gz") -> Path:
        """Return the file of a scan, in dev, train or kbp."""
        return next(
            path
            for part in ("dev", "train", "kbp")
            if (path := self._folder / part / f"{name}{ending}").exists()
        )

    def read(self, name: str) -> Volume:
        return Volume.read(self.path(name))

    def pair(self, one: Volume, other: Volume) -> tuple[Correspondence, float]:
        """Pair two scans. Returns the seconds, too, without embedding."""
        maps = self.model.embed(one), self.model.embed(other)
        start = time.perf_counter()
        return pair(one, other, *maps), time.perf_counter() - start

    def registered(self, one: Volume, other: Volume) -> tuple[Correspondence, dict[str, float]]:
        """Register two scans, whether they show one patient or not."""
        return register_both_ways((one, other), (self.model.embed(one), self.model.embed(other)))

    def training(self) -> list[str]:
        """Return the names of every third training scan."""
        return sorted(
            {path.name.split(".")[0] for path in (self._folder / "train").glob("*.nii.gz")}
        )[::3]


def pairs(scans: Scans) -> Iterator[str]:
    """Print a row for each pair of scans of one patient: the verdict, its measures, stated and true errors."""
    yield f"| scans | paired | support | {' | '.join(MEASURES)} | matched | stated error | error at landmarks |"
    yield "|" + "---|" * (6 + len(MEASURES))
    for names in PATIENTS:
        yield _row(scans, names)


def strangers(scans: Scans) -> Iterator[str]:
    """Print the same row for 40 pairs of different patients."""
    yield from (_row(scans, names) for names in stranger_pairs())


def stranger_pairs() -> list[tuple[str, str]]:
    """Draw pairs of scans of different patients that show the same region."""
    rng = np.random.default_rng(_PAIR_SEED)
    found: list[tuple[str, str]] = []
    for count, listed in REGIONS:
        names = listed.split()
        drawn = set()
        while len(drawn) < count:
            one, other = (names[n] for n in rng.choice(len(names), 2, replace=False))
            if _patient(one) != _patient(other):
                drawn.add((min(one, other), max(one, other)))
        found += sorted(drawn)
    return found


def _patient(name: str) -> str:
    return name.split("_")[0] if name.startswith(("hcc", "waw", "acrin", "elastix")) else name


def _row(scans: Scans, names: tuple[str, str]) -> str:
    volumes = scans.read(names[0]), scans.read(names[1])
    embedding = scans.model.embed(volumes[0])
    try:
        found, measured = scans.registered(*volumes)
    except AnatomicalEmbeddingError as error:
        return f"| {', '.join(names)} | no | {error} |"
    points = transform_points(embedding.cell_to_ras, embedding.body_index.numpy()[::29])
    answers = found.points(points[volumes[0].contains(points)])
    shown = answers.status != ABSENT
    cells = [
        ", ".join(names),
        "yes" if support(measured) > 0 else "no",
        f"{support(measured):+.2f}",
        *(f"{measured[name]:.2f}" if name in measured else "" for name in MEASURES),
        f"{np.mean(answers.status[shown] == MATCHED):.0%}",
        f"{answers.expected_error_mm[shown].mean():.1f} mm",
        _landmark_errors(scans, names, found),
    ]
    return f"| {' | '.join(cells)} |"


def _landmark_errors(scans: Scans, names: tuple[str, str], found: Correspondence) -> str:
    """Measure the errors at the landmarks of two scans, in both directions, and the stated errors there."""
    try:
        marks = [
            json.loads(scans.path(name, ".landmarks.json").read_text())["points"] for name in names
        ]
    except StopIteration:
        return ""
    first, second = (np.array([mark[key] for key in sorted(marks[0])]) for mark in marks)
    answers = found.points(first), found.inverse().points(second)
    errors = np.concatenate([_errors(a, t) for a, t in zip(answers, (second, first), strict=True)])
    expected = np.concatenate([each.expected_error_mm for each in answers])
    return f"{_summary(errors)}; stated {expected.mean():.2f} mm"


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
    except (
        NotSamePatientError,
        VolumeError,
    ) as error:  # a copy whose ends are empty may be refused as a volume
        print(error, flush=True)
        return None
    points = _points(known, scans.model.embed(known.copy), rng)
    truth = known.to_original(points)
    kinds = known.kinds(points)
    kept = known.original.contains(truth) & (kinds != "")
    points = points[kept]
    truth = truth[kept]
    kinds = kinds[kept]
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


def calibrate(scans: Scans) -> Iterator[str]:
    """Learn the calibration from one copy of each training scan, and write it."""
    parts = []
    used = []
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
    Calibration("", EVIDENCE, {FOREST: forest}, {"scans": list(used), "points": len(changed)}).save(
        path
    )


def _errors(found, truth: np.ndarray) -> np.ndarray:
    return np.linalg.norm(found.points_ras - truth, axis=1)


def _summary(errors: np.ndarray) -> str:
    return "mean {:.2f}, median {:.2f}, p90 {:.2f}, p95 {:.2f} mm".format(
        errors.mean(), np.median(errors), *np.percentile(errors, (90, 95))
    )


def _figures(part: dict[str, np.ndarray]) -> str:
    same = ~part["changed"]
    error = part["error"][same]
    matched = part["matched"]
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
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    kinds = {each.__name__: each for each in (pairs, strangers, copies, calibrate)}
    parser.add_argument("kind", choices=kinds)
    parser.add_argument("folder", type=Path, metavar="DATA")
    options = parser.parse_args(arguments)
    for line in kinds[options.kind](Scans(options.folder, load_model())):
        print(line, flush=True)


if __name__ == "__main__":
    main()
