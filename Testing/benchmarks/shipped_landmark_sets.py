"""Measure the landmark sets that ship, and sets with five examples, in images drawn from label maps with manual points.

python Testing/benchmarks/shipped_landmark_sets.py LABELMAPS [SCAN.nii.gz ...]

LABELMAPS holds vsd_*.seg.nii.gz with vsd_pelvic_landmarks.json, and the label maps of which the sets are made, which
place all in one body frame. The five examples are other images of vsd_*, drawn at random four times for each image.
In labelled scans (NAME.seg.nii.gz beside the scan), the true places are those of the rules of
tools/make_landmark_sets.py; so errors of the rules are not measured there. Errors in mm, mean / median.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from AnatomicalEmbedding import load_model
from AnatomicalEmbedding.embedding.inference import Model
from AnatomicalEmbedding.embedding.map import EmbeddingMap
from AnatomicalEmbedding.landmarks.landmark_set import (
    LandmarkSet,
    make_landmark_set,
    read_landmark_set,
)
from AnatomicalEmbedding.scan.geometry import RAS_FROM_LPS, transform_points
from AnatomicalEmbedding.scan.points import PointList
from AnatomicalEmbedding.scan.volume import Volume
from AnatomicalEmbedding.training.label_frames import place
from AnatomicalEmbedding.training.label_images import SUFFIX, LabelledBody, make_label_image

sys.path.insert(0, str(Path(__file__).parents[2] / "tools"))
from make_landmark_sets import COLLECTION, PELVIS, TRUNK, Labels, place_by_rule

MANUAL = {
    "ASIS left": "Left ASIS",
    "ASIS right": "Right ASIS",
    "PSIS left": "Left PSIS",
    "PSIS right": "Right PSIS",
    "sacral promontory": "Sacral Promontory (SP)",
}
EXAMPLES, DRAWS = 5, 4
Places = dict[str, np.ndarray]
Scans = list[tuple[EmbeddingMap, Places]]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("label_maps", type=Path)
    parser.add_argument("scans", type=Path, nargs="*")
    options = parser.parse_args()
    model = load_model("ct-open", "cpu")
    drawn = list(drawn_scans(model, options.label_maps))
    by_rule = list(labelled_scans(model, options.scans))
    print("| set | scans | landmark | answers | error | stated | along R, A, S |")
    for name in ("pelvis", "trunk"):
        landmark_set = read_landmark_set(name)
        for group, scans in (("drawn, manual points", drawn), ("by rule", by_rule)):
            print_rows(f"{name} | {group}", [(landmark_set, *scan) for scan in scans])
    print_rows(f"{EXAMPLES} others | drawn, manual points", list(own_sets(drawn)))


def print_rows(title: str, trials: list[tuple[LandmarkSet, EmbeddingMap, Places]]) -> None:
    """Print the errors of landmark sets in scans with known places, by landmark."""
    rows = defaultdict(list)
    for landmark_set, embedding, places in trials:
        matches = landmark_set.find(embedding)
        for number, label in enumerate(landmark_set.names):
            name = label if label in places else MANUAL.get(label)
            if name in places:
                error = matches.points_ras[number] - places[name]
                for row in (re.sub("(?i) *(left|right) *", "", label), "all"):
                    rows[row].append((*error, matches.expected_error_mm[number]))
    for kind, values in rows.items():
        *errors, stated = np.array(values).T
        error = np.linalg.norm(errors, axis=0)
        axes = ", ".join(f"{mm:.1f}" for mm in np.median(np.abs(errors), axis=1))
        values = f"{error.mean():.1f} / {np.median(error):.1f} | {stated.mean():.1f} | {axes}"
        print(f"| {title} | {kind} | {len(error)} | {values} |", flush=True)


def own_sets(scans: Scans) -> Iterator[tuple[LandmarkSet, EmbeddingMap, Places]]:
    """Give, for each scan, sets with examples of other scans."""
    rng = np.random.default_rng(0)
    for target, scan in enumerate(scans):
        others = [number for number in range(len(scans)) if number != target]
        for _ in range(DRAWS if len(others) >= EXAMPLES else 0):
            chosen = [scans[number] for number in rng.choice(others, EXAMPLES, replace=False)]
            marked = (
                (embedding, PointList(tuple(places), np.array(list(places.values()))))
                for embedding, places in chosen
            )
            yield make_landmark_set(marked), *scan


def drawn_scans(model: Model, folder: Path) -> Iterator[tuple[EmbeddingMap, Places]]:
    """Give the maps of images drawn from label maps, and the manual landmarks."""
    subjects = json.loads((folder / "vsd_pelvic_landmarks.json").read_text())["subjects"]
    paths = [path for name in ("vsd_*" + SUFFIX, COLLECTION) for path in sorted(folder.glob(name))]
    bodies = [LabelledBody.read(path) for path in paths]
    placement = place({body.name: body.points for body in bodies})
    for body in bodies:
        manual = subjects.get(body.name.removeprefix("vsd_"))
        if manual:
            places_lps = np.array([point["lps"] for point in manual.values()])
            places_ras = transform_points(RAS_FROM_LPS, places_lps)
            embedding = model.embed(make_label_image(body, placement, 0).volume)
            yield embedding, dict(zip(manual, places_ras, strict=True))


def labelled_scans(model: Model, paths: list[Path]) -> Iterator[tuple[EmbeddingMap, Places]]:
    """Give the maps of labelled scans, and the landmarks that the rules find in their labels."""
    for path in paths:
        body = LabelledBody.read(path.with_name(path.name.removesuffix(".nii.gz") + SUFFIX))
        yield model.embed(Volume.read(path)), place_by_rule(Labels(body), PELVIS | TRUNK)


if __name__ == "__main__":
    main()
