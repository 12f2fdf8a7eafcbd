"""Measure the landmark sets that ship: in images drawn from label maps with manual landmarks, and in labelled scans.

python Testing/benchmarks/shipped_landmark_sets.py LABELMAPS [SCAN.nii.gz ...] [--most 10]

LABELMAPS holds vsd_*.seg.nii.gz with vsd_pelvic_landmarks.json, and the label maps of which the sets are made, which
place all in one body frame. In labelled scans (NAME.seg.nii.gz beside the scan), the true places are those of the rules
of tools/make_landmark_sets.py; so errors of the rules are not measured there. Errors in mm, mean / median.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from AnatomicalEmbedding import load_model
from AnatomicalEmbedding.embedding.inference import Model
from AnatomicalEmbedding.embedding.map import EmbeddingMap
from AnatomicalEmbedding.landmarks.landmark_set import read_landmark_set
from AnatomicalEmbedding.scan.geometry import RAS_FROM_LPS, transform_points
from AnatomicalEmbedding.scan.volume import Volume
from AnatomicalEmbedding.training.label_frames import place
from AnatomicalEmbedding.training.label_images import SUFFIX, LabelledBody, make_label_image

sys.path.insert(0, str(Path(__file__).parents[2] / "tools"))
from make_landmark_sets import COLLECTION, PELVIS, TRUNK, labels_of, place_by_rule

MANUAL = {
    "ASIS left": "Left ASIS",
    "ASIS right": "Right ASIS",
    "PSIS left": "Left PSIS",
    "PSIS right": "Right PSIS",
    "sacral promontory": "Sacral Promontory (SP)",
}
Places = dict[str, np.ndarray]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("label_maps", type=Path)
    parser.add_argument("scans", type=Path, nargs="*")
    parser.add_argument("--most", type=int, default=10, help="label maps with manual landmarks")
    options = parser.parse_args()
    model = load_model("ct-open", "cpu")
    groups = {
        "drawn, manual landmarks": drawn_scans(model, options.label_maps, options.most),
        "scans, landmarks by rule": labelled_scans(model, options.scans),
    }
    print("| set | scans | landmark | answers | error | stated |")
    for group, scans in groups.items():
        rows = defaultdict(list)
        for embedding, places in scans:
            for name in ("pelvis", "trunk"):
                landmark_set = read_landmark_set(name)
                matches = landmark_set.find(embedding)
                for number, label in enumerate(landmark_set.names):
                    if label in places:
                        error = np.linalg.norm(matches.points_ras[number] - places[label])
                        kind = label.removesuffix(" left").removesuffix(" right")
                        for row in (kind, "all"):
                            rows[name, row].append((error, matches.expected_error_mm[number]))
        for (name, kind), values in rows.items():
            errors, stated = np.array(values).T
            error = f"{errors.mean():.1f} / {np.median(errors):.1f}"
            print(f"| {name} | {group} | {kind} | {len(errors)} | {error} | {stated.mean():.1f} |")


def drawn_scans(model: Model, folder: Path, most: int) -> Iterator[tuple[EmbeddingMap, Places]]:
    """Give the maps of images drawn from label maps, and the manual landmarks."""
    subjects = json.loads((folder / "vsd_pelvic_landmarks.json").read_text())["subjects"]
    paths = [*sorted(folder.glob("vsd_*" + SUFFIX))[:most], *sorted(folder.glob(COLLECTION))]
    bodies = [LabelledBody.read(path) for path in paths]
    placement = place({body.name: body.points for body in bodies})
    for body in bodies[:most]:
        manual = subjects[body.name.removeprefix("vsd_")]
        places_lps = np.array([manual[name]["lps"] for name in MANUAL.values()])
        places_ras = transform_points(RAS_FROM_LPS, places_lps)
        embedding = model.embed(make_label_image(body, placement, 0).volume)
        yield embedding, dict(zip(MANUAL, places_ras, strict=True))


def labelled_scans(model: Model, paths: list[Path]) -> Iterator[tuple[EmbeddingMap, Places]]:
    """Give the maps of labelled scans, and the landmarks that the rules find in their labels."""
    for path in paths:
        body = LabelledBody.read(path.with_name(path.name.removesuffix(".nii.gz") + SUFFIX))
        yield model.embed(Volume.read(path)), place_by_rule(labels_of(body), PELVIS | TRUNK)


if __name__ == "__main__":
    main()
