"""Measure the table of usual places and volumes, `Resources/Structures/usual.csv`, in the labels of many patients.

python tools/make_usual_table.py FOLDER... -o usual.csv

Each folder holds NAME.seg.nii.gz with NAME.labels.json; all labels must be right.
"""

import argparse
import csv
import io
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from AnatomicalEmbedding.anatomy.names import known_name
from AnatomicalEmbedding.audit.dataset import list_entries, read_entry_labels
from AnatomicalEmbedding.audit.measuring import MeasuredLabel, measure_labels
from AnatomicalEmbedding.audit.usual import Frame, Usual, fit_frame, load_usual
from AnatomicalEmbedding.resources import resource
from AnatomicalEmbedding.structures.label_names import reason_left_out
from AnatomicalEmbedding.words.atlas import Atlas

_COLUMNS = (
    "name", "patients", "r", "a", "s", "spread_r", "spread_a", "spread_s", "volume_ml", "volume_spread", "gap_mm",
    "flat",
)  # fmt: skip
_ROUNDS = 4
# spreads that count as this many patients
_POOLED_MM, _POOLED_VOLUME, _POOLED_AS = np.array([8.0, 9.0, 13.0]), 0.45, 6
_LEAST_MM, _LEAST_VOLUME = np.array([4.0, 4.0, 5.0]), 0.2


def first_places() -> dict[str, np.ndarray]:
    """The mean place of each structure in the shipped atlas, or in the shipped table, (3,) body coordinates."""
    places = dict(zip(load_usual().names, load_usual().places, strict=True))
    atlas = Atlas.load(resource("Atlas") / "ct-open.atlas.npz")
    for name, occupancy in atlas.occupancies.items():
        points, weight = occupancy.points_mm()
        places[name] = (points * weight[:, None]).sum(axis=0)
    return places


def make_table(
    bodies: Mapping[str, Sequence[MeasuredLabel]], first: Mapping[str, np.ndarray]
) -> Usual:
    """Measure a table in the labels of many patients.

    Args:
        bodies: name of a patient -> measured labels; all labels must be right.
        first: first guess of the usual places, (3,) body coordinates, for example from an atlas.
    """
    places = {name: np.asarray(place, np.float64) for name, place in first.items()}
    spreads = dict.fromkeys(places, _POOLED_MM)
    known = {
        name for name in places if known_name(name) is not None and reason_left_out(name) is None
    }
    kept = {body: [each for each in of if each.name in known] for body, of in bodies.items()}
    away: dict[str, list[np.ndarray]] = {}
    for _ in range(_ROUNDS):
        away = {}
        for of in kept.values():
            whole = [each for each in of if not each.is_cut]
            if len(whole) < 3:
                continue
            held = [each.name for each in whole]
            centres = np.array([each.centre_ras for each in whole])
            usual, wide = (np.array([table[name] for name in held]) for table in (places, spreads))
            frame, robust, _ = fit_frame(centres, usual, wide, np.ones(len(held)))
            for n, name in enumerate(held):
                rest = np.where(np.arange(len(held)) == n, 0.0, robust)
                of_rest = Frame.fit(centres, usual, wide, rest, frame.scale)
                off = (centres[n] - of_rest.to_ras(usual[n])) / frame.scale
                away.setdefault(name, []).append(np.stack([off, usual[n] + off]))
        for name, rows in away.items():
            off, found = np.array(rows).transpose(1, 0, 2)
            places[name] = (np.median(found, axis=0) * len(rows) + places[name] * 0.5) / (
                len(rows) + 0.5
            )
            spread = (
                np.square(off - np.median(off, axis=0)).sum(axis=0) + _POOLED_AS * _POOLED_MM**2
            )
            spreads[name] = np.maximum(np.sqrt(spread / (len(rows) + _POOLED_AS)), _LEAST_MM)
    names = tuple(sorted(away))
    labels = {
        name: [each for of in kept.values() for each in of if each.name == name] for name in names
    }
    measured = np.array([_row(labels[name]) for name in names])
    both = np.array([places[name] for name in names]), np.array([spreads[name] for name in names])
    return Usual(names, *both, *measured.T)


def _row(labels: Sequence[MeasuredLabel]) -> tuple[float, float, float, float, int]:
    whole = [each for each in labels if not each.is_cut]
    volumes = np.log([each.volume_ml for each in whole])
    middle = float(np.median(volumes))
    square = np.minimum(np.square(volumes - middle), 4.0).sum() + _POOLED_AS * _POOLED_VOLUME**2
    spread = max(float(np.sqrt(square / (len(volumes) + _POOLED_AS))), _LEAST_VOLUME)
    gaps = [max((piece.away_mm for piece in each.pieces), default=0.0) for each in labels]
    flats = [each.flat for each in labels]
    return (
        middle,
        spread,
        float(np.percentile(gaps, 95)),
        float(np.percentile(flats, 95)),
        len(whole),
    )


def to_csv(usual: Usual) -> str:
    """Return a table as text."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(_COLUMNS)
    numbers = [
        usual.places,
        usual.spreads,
        np.exp(usual.volume),
        usual.volume_spread,
        usual.gap_mm,
        usual.flat,
    ]
    for name, count, row in zip(usual.names, usual.patients, np.column_stack(numbers), strict=True):
        writer.writerow([name, int(count), *(f"{x:.4g}" for x in row)])
    return text.getvalue()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folders", type=Path, nargs="+")
    parser.add_argument("-o", "--output", type=Path, required=True)
    options = parser.parse_args()
    bodies = {
        f"{folder.name}/{entry.name}": measure_labels(read_entry_labels(entry))
        for folder in options.folders
        for entry in list_entries(folder)
    }
    options.output.write_text(to_csv(make_table(bodies, first_places())), encoding="utf-8")


if __name__ == "__main__":
    main()
