"""The atlas: how often each structure lies at each place of the average body, and weights to recognise the structure.

The places are body coordinates that the network computed, so they include the network's usual errors. The body frame is
the coordinate system of these coordinates; the atlas divides the body frame into cells of 6 mm. The atlas file holds
statistics of many bodies; no scan can be restored from the file.
"""

from __future__ import annotations

import json
import zipfile
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import WeightsError
from ..files import atomic_path, parse_json
from ..resources import companions

SUFFIX = ".atlas.npz"
FORMAT_VERSION = 2
_BYTES_LIMIT = 200 << 20  # limit of an unpacked file; the shipped atlas has 3 MB
_LARGEST_WEIGHT = 1e4  # largest weight of a discriminant; shipped atlases stay below 12
STEP_MM = 6.0  # side of a cell; by hand, not tuned
# centre of the first cell of the body frame: right, anterior, superior
LOW_MM = np.array([-246.0, -180.0, -186.0])
SHAPE = (173, 66, 83)  # k, j, i


def frame_index(body_mm: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the atlas cell i, j, k of each of n body coordinates, (n, 3), and bool (n,): whether the atlas has it."""
    index = np.rint((body_mm - LOW_MM) / STEP_MM).astype(int)
    return index, ((index >= 0) & (index < SHAPE[::-1])).all(axis=-1)


@dataclass(frozen=True, eq=False)
class Occupancy:
    """Where one structure lies in the average body.

    Args:
        first: cell i, j, k of the body frame to which the value share[0, 0, 0] belongs.
        share: uint8 (k, j, i), 255 times the fraction of patients in whom the structure fills the cell.
        real: number of real patients in whom the structure was counted.
        discriminant: float32 (d + 1,), d weights and a constant; or None. The weighted sum of a descriptor's numbers,
            plus the constant, is high if the descriptor looks like the structure.
    """

    first: tuple[int, int, int]
    share: np.ndarray
    real: int
    discriminant: np.ndarray | None = None

    def points_mm(self) -> tuple[np.ndarray, np.ndarray]:
        """Return body coordinates (n, 3), mm, and shares (n,) with the sum 1, of the n cells with a share above 0."""
        k, j, i = np.nonzero(self.share)
        weight = self.share[k, j, i].astype(np.float64)
        return LOW_MM + STEP_MM * (np.stack([i, j, k], axis=1) + self.first), weight / weight.sum()


@dataclass(frozen=True, eq=False)
class Atlas:
    """The occupancy of each structure, by canonical name. weights_hash: SHA-256 of the weights that computed the
    coordinates. metadata: the name of these weights, and the names of the bodies in the atlas.
    """

    weights_hash: str
    occupancies: dict[str, Occupancy]
    metadata: dict

    def save(self, path: str | Path) -> None:
        """Write the atlas to one file, completely or not at all. Raises WeightsError if the file cannot be written."""
        facts = []
        arrays: dict[str, Any] = {}
        for n, (name, occupancy) in enumerate(sorted(self.occupancies.items())):
            facts.append({"name": name, "first": occupancy.first, "real": occupancy.real})
            arrays[f"share_{n}"] = occupancy.share
            if occupancy.discriminant is not None:
                arrays[f"discriminant_{n}"] = occupancy.discriminant
        metadata = {
            "format_version": FORMAT_VERSION,
            "weights_sha256": self.weights_hash,
            "structures": facts,
            "about": self.metadata,
        }
        content = json.dumps(metadata).encode()
        try:
            with atomic_path(Path(path)) as temporary, temporary.open("wb") as file:
                np.savez_compressed(file, about=np.frombuffer(content, dtype=np.uint8), **arrays)
        except OSError:
            raise WeightsError(
                f"{path}: cannot be written; check that the folder is writable and not full."
            ) from None

    @classmethod
    def load(cls, path: str | Path) -> Atlas:
        """Read a file that `save` wrote. Raises WeightsError if the file is missing, damaged, too new or no atlas."""
        if not Path(path).is_file():
            raise WeightsError(f"{path}: no such file; give the path of an atlas.")
        try:
            with zipfile.ZipFile(path) as archive:
                if sum(entry.file_size for entry in archive.infolist()) > _BYTES_LIMIT:
                    raise ValueError("more than an atlas holds")
            with np.load(path, allow_pickle=False) as file:
                metadata = parse_json(file["about"].tobytes())
                if metadata["format_version"] > FORMAT_VERSION:
                    raise WeightsError(
                        f"{path}: was written by a newer version of this program; update the program."
                    )
                occupancies = {
                    str(facts["name"]): _occupancy(
                        facts, file[f"share_{n}"], file.get(f"discriminant_{n}")
                    )
                    for n, facts in enumerate(metadata["structures"])
                }
            return cls(str(metadata["weights_sha256"]), occupancies, dict(metadata["about"]))
        except WeightsError:
            raise
        except Exception:  # zipfile and numpy raise errors of many types for damaged files
            raise WeightsError(
                f"{path}: the file is damaged or is not an atlas; download the atlas again."
            ) from None


def _occupancy(
    facts: dict[str, Any], share: np.ndarray, discriminant: np.ndarray | None
) -> Occupancy:
    """Make an Occupancy, after checks of the values that were read from a file.

    facts: a dict read from JSON, with `first` (i, j, k) and `real`. share: (k, j, i). Raises ValueError if a value is
    wrong.
    """
    first = facts["first"]
    real = facts["real"]
    are_whole = all(type(n) is int for n in (*first, real))
    if not are_whole or share.dtype != np.uint8 or share.ndim != 3 or not share.any():
        raise ValueError("no occupancy")
    after = np.add(first, share.shape[::-1])  # the last cell
    if len(first) != 3 or min(first) < 0 or (after > SHAPE[::-1]).any():
        raise ValueError("outside the frame")
    weights = np.zeros(1, np.float32) if discriminant is None else discriminant
    if (
        weights.ndim != 1
        or weights.dtype != np.float32
        or not (np.abs(weights) < _LARGEST_WEIGHT).all()
    ):
        raise ValueError("no weights of descriptors")
    return Occupancy(tuple(first), share, real, discriminant)


_load_once = lru_cache(maxsize=2)(Atlas.load)


def shipped_atlas(weights_hash: str, weights: Path | None = None) -> Atlas:
    """Return the atlas for these weights, next to the file `weights` or shipped; if missing, one for other weights.

    Raises WeightsError if no atlas is installed.
    """
    atlases = [_load_once(path) for path in companions("Atlas", SUFFIX, weights)]
    if not atlases:
        raise WeightsError(
            "this installation has no atlas, so no named place can be found; install the package again."
        )
    return next((atlas for atlas in atlases if atlas.weights_hash == weights_hash), atlases[0])
