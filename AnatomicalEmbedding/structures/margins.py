"""Margins: how far the sides of a box are moved outward so that the box contains a given share of its structure.

Margins are learned from boxes with known truth, by conformal risk control (Angelopoulos 2022, theorem 1). The margin of
a side is a multiple of the side's likely error. The likely error is the expected error of matching, multiplied by the
ratio of true to expected error. This ratio is learned for all structures together and, if possible, for each structure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from ..anatomy.names import canonical_name
from ..embedding.map import EmbeddingMap
from ..errors import AnatomicalEmbeddingError
from ..scan.boxes import OUTWARD, grown
from .examples import SYNTHETIC, BoxCase
from .labelled_scans import patient_of
from .locating import Example, Located, locate

# possible margins of a side, as multiples of the side's likely error
TIMES = np.round(np.arange(0.0, 30.01, 0.1), 1)
_DOUBT = 4.0  # in the ratio of one structure, the ratio of all structures counts as much as this number of boxes
_COMMON = ""  # key of the ratio of all structures


@dataclass(frozen=True, eq=False)
class KnownBox:
    """A located structure whose true box is known.

    Args:
        target: name of the scan.
        truth_ras: (2, 3) RAS mm, true box of the structure.
        points_ras: (n, 3) RAS mm, some points of the structure.
        peers: boxes (2, 3) RAS mm that other methods found, by name of the method.
    """

    target: str
    located: Located
    truth_ras: np.ndarray
    points_ras: np.ndarray
    peers: Mapping[str, np.ndarray] = field(default_factory=dict)

    def recall(self, box: np.ndarray) -> float:
        """Return the share of the structure's points inside a box."""
        inside = (self.points_ras >= box[0]) & (self.points_ras <= box[1])
        return float(inside.all(axis=1).mean())

    def volume_ratio(self, box: np.ndarray) -> float:
        """Return the scan's volume divided by the volume of the box inside the scan; infinite if the box is outside."""
        low, high = self.located.in_scan(box)
        inside = (high - low).prod()
        scan = np.diff(self.located.scan_ras, axis=0).prod()
        return float(scan / inside) if inside > 0 else float("inf")


def known_boxes(
    target: BoxCase,
    embedding: EmbeddingMap,
    examples: Mapping[str, Sequence[Example]],
    effort: str = "standard",
) -> list[KnownBox]:
    """Locate structures that lie completely in a scan.

    Args:
        target: the scan with its true structures.
        embedding: map of the scan.
        examples: name of structure -> examples of other patients.
        effort: effort of matching.
    """
    located = locate(examples, embedding, effort)
    truth = target.structures
    return [
        KnownBox(target.id, box, truth[name].box_ras, truth[name].voxels_ras)
        for name, box in located.items()
    ]


@dataclass(frozen=True, eq=False)
class Margins:
    """How far to move the sides of boxes outward for a stated recall.

    Args:
        recall: for each factor in TIMES, the mean share of a structure inside its box, if each side is moved by this
            factor times its likely error. Real and synthetic scans have separate means; the smaller mean is stored.
        boxes: number of boxes with known truth.
        scales: name of structure -> (6,) ratio of true to expected error of each side; key "": all other structures.
    """

    recall: np.ndarray
    boxes: int
    scales: dict[str, np.ndarray]

    def times_for(self, recall: float) -> float:
        """Return the smallest factor in TIMES whose margins give this expected recall in a new scan.

        Raises AnatomicalEmbeddingError if the recall cannot be guaranteed with so few boxes, or is never reached.
        """
        if not 0 < recall < 1:
            raise AnatomicalEmbeddingError(
                f"recall {recall}: is not between 0 and 1; give a share such as 0.99."
            )
        # conformal risk control: one more box may lose all of its structure
        lost = (self.boxes * (1 - self.recall) + 1) / (self.boxes + 1)
        enough = np.flatnonzero(lost <= 1 - recall)
        if not len(enough):
            raise AnatomicalEmbeddingError(
                f"recall {recall}: cannot be guaranteed with only {self.boxes} boxes to learn from; lower the recall."
            )
        return float(TIMES[enough[0]])

    def margins_mm(self, located: Located, recall: float) -> np.ndarray:
        """Compute the margins (6,), mm, of the sides of a box for an expected recall."""
        return self.times_for(recall) * _likely(located, self.scales)

    def box(self, located: Located, recall: float) -> np.ndarray:
        """Add margins to a box and clip it to the scan: (2, 3) RAS mm."""
        return located.in_scan(grown(located.box_ras, self.margins_mm(located, recall)))

    def adapted(self, boxes: Sequence[KnownBox]) -> Margins:
        """Return new margins with scales learned from a user's examples. boxes: result of `locate_examples`."""
        off = _errors(boxes)
        names = _names(boxes)
        structure_scales = {
            str(name): _shrunk(off[names == name], self.scales[_COMMON])
            for name in np.unique(names)
        }
        return Margins(self.recall, self.boxes, self.scales | structure_scales)

    def to_dict(self) -> dict:
        """Return the margins as values that can be written as JSON."""
        scales = {name: np.round(scale, 3).tolist() for name, scale in self.scales.items()}
        return {"recall": np.round(self.recall, 5).tolist(), "boxes": self.boxes, "scales": scales}

    @classmethod
    def from_dict(cls, values: dict) -> Margins:
        """Make margins from the result of `to_dict`. Raises an error of `tensor_files.DAMAGED` for other values."""
        recall = np.array(values["recall"], np.float64)
        scales = {
            canonical_name(str(name)): np.array(scale, np.float64)
            for name, scale in values["scales"].items()
        }
        has_scales = _COMMON in scales and all(scale.shape == (6,) for scale in scales.values())
        is_finite = all(np.isfinite(numbers).all() for numbers in (recall, *scales.values()))
        if recall.shape != TIMES.shape or not has_scales or not is_finite:
            raise ValueError("the margins are damaged")
        return cls(recall, int(values["boxes"]), scales)


def learn_margins(boxes: Sequence[KnownBox], by_structure: bool) -> Margins:
    """Learn margins from boxes with known truth. Raises AnatomicalEmbeddingError if there is no box.

    Scales (true error / expected error) are learned from real scans if there are any, because boxes of synthetic
    patients have smaller errors. by_structure: if True, also learn scales for each structure, and measure the recall of
    a patient's boxes with scales from the other patients.
    """
    if not boxes:
        raise AnatomicalEmbeddingError(
            "margins need structures with known boxes, but no box was given; add scans."
        )
    is_real = np.array([not box.target.startswith(SYNTHETIC) for box in boxes])
    usable = is_real if is_real.any() else ~is_real
    recalls = _recalls(boxes, usable, by_structure)
    groups = [recalls[group] for group in (is_real, ~is_real) if group.any()]  # real, synthetic
    # Kish's effective number of boxes, of two groups with the same weight
    count = len(groups) ** 2 / sum(1 / len(group) for group in groups)
    recall = np.min([group.mean(axis=0) for group in groups], axis=0)
    scales = _scales(_errors(boxes)[usable], _names(boxes)[usable], by_structure)
    return Margins(recall, int(count), scales)


def _recalls(boxes: Sequence[KnownBox], usable: np.ndarray, by_structure: bool) -> np.ndarray:
    """Return the recall (n, len(TIMES)) of each box. If scales are learned for structures, those of a patient's boxes
    come from the other patients. usable: (n,) bool, the boxes from which scales are learned if possible."""
    off = _errors(boxes)
    names = _names(boxes)
    patients = np.array([patient_of(box.target) for box in boxes])
    leaves_out = by_structure and len(np.unique(patients)) > 1
    recalls = np.empty((len(boxes), len(TIMES)))
    for patient in np.unique(patients):
        is_own = patients == patient
        chosen = ~is_own if leaves_out else np.ones(len(boxes), bool)
        if usable[chosen].any():
            chosen &= usable
        scales = _scales(off[chosen], names[chosen], by_structure)
        for n in np.flatnonzero(is_own):
            recalls[n] = _recall(boxes[n], scales)
    return recalls


def _names(boxes: Sequence[KnownBox]) -> np.ndarray:
    """Return the names (n,) of the structures of n boxes."""
    return np.array([box.located.name for box in boxes])


def locate_examples(marked: Mapping[str, Sequence[tuple[Example, EmbeddingMap]]]) -> list[KnownBox]:
    """Locate each example with the other examples of its structure. Structures with 1 or 2 examples are left out."""
    boxes = []
    for name, pairs in marked.items():
        for n, (example, embedding) in enumerate(pairs if len(pairs) > 2 else ()):
            sources = [source for m, (source, _) in enumerate(pairs) if m != n]
            located = locate({name: sources}, embedding)[name]
            boxes.append(KnownBox(example.scan, located, example.box_ras, example.points_ras))
    return boxes


def _scales(off: np.ndarray, names: np.ndarray, by_structure: bool) -> dict[str, np.ndarray]:
    """Return the root mean squares (6,) of the errors `off` (n, 6) of the sides of boxes: "" -> of all n rows and, if
    `by_structure`, name of a structure -> of the rows that have this name in `names` (n,)."""
    common = np.sqrt((off**2).mean(axis=0))
    scales = {_COMMON: common}
    for name in np.unique(names) if by_structure else ():
        scales[str(name)] = _shrunk(off[names == name], common)
    return scales


def _shrunk(off: np.ndarray, common: np.ndarray) -> np.ndarray:
    """Return the root mean square (6,) of the errors `off` (n, 6) of one structure, drawn towards `common` (6,), the
    root mean square of all structures. `common` counts as much as _DOUBT rows of `off`."""
    return np.sqrt(((off**2).sum(axis=0) + _DOUBT * common**2) / (len(off) + _DOUBT))


def _errors(boxes: Sequence[KnownBox]) -> np.ndarray:
    """Return (n, 6): true error / expected error of each side of n boxes; positive where the box is too small."""
    errors = []
    for box in boxes:
        error_mm = (box.truth_ras - box.located.box_ras).ravel() * OUTWARD
        errors.append(error_mm / box.located.sigma_mm)
    return np.array(errors)


def _likely(located: Located, scales: dict[str, np.ndarray]) -> np.ndarray:
    """Return the likely error (6,), mm, of each side: its expected error, times the scale of the structure."""
    return located.sigma_mm * scales.get(located.name, scales[_COMMON])


def _recall(box: KnownBox, scales: dict[str, np.ndarray]) -> np.ndarray:
    """Return, for each factor in TIMES, the share of points inside the box with margins of factor * likely error."""
    low, high = box.located.box_ras
    beyond = np.concatenate([low - box.points_ras, box.points_ras - high], axis=1)
    # the factor from which each point is inside all six sides, ascending
    needed = np.sort((beyond / _likely(box.located, scales)).max(axis=1))
    return np.searchsorted(needed, TIMES, side="right") / len(needed)
