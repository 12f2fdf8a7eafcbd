"""Centre point matching rates (CPM) of lesions. Three papers call different things by the same two names.

DLT: Cai et al., CVPR 2021, and their script. UAE: Yan et al., TMI 2022, and their repository. TLT: Tang et al., MICCAI
2022, and their code, which counts in voxels. Figures of different columns cannot be compared.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

MEANINGS = {
    "CPM@Radius as DLT: offset < radius": "dlt_radius",
    "CPM@10mm as DLT: offset <= radius and 10 mm": "dlt_10",
    "CPM@Radius as UAE: in the target's box": "uae_radius",
    "CPM@10mm as UAE: offset <= 10 mm": "uae_10",
    "CPM@Radius as TLT: voxels < box diagonal": "tlt_radius",
    "CPM@10 as TLT: voxels < box diagonal and 10": "tlt_10",
}
_NO_LESS = 1e-3  # mm, as in DLT's script


@dataclass(frozen=True, eq=False)
class CentrePoints:
    """Answers for the centres of n lesions. offsets_mm: (n, 3) answer less truth along the axes that the box has.
    spacing_mm: (n, 3) of the target's voxels along them. radius_mm: (n,) half the longest diameter.
    from_corner_mm, box_mm: (n, 3) answer less the box's least corner, and the box's size.
    """

    offsets_mm: np.ndarray
    spacing_mm: np.ndarray
    radius_mm: np.ndarray
    from_corner_mm: np.ndarray
    box_mm: np.ndarray

    @property
    def errors_mm(self) -> np.ndarray:
        """(n,) distance of answer and truth."""
        return np.linalg.norm(self.offsets_mm, axis=1)

    def hits(self) -> dict[str, np.ndarray]:
        """Name of `MEANINGS` -> (n,) bool."""
        error = self.errors_mm
        voxels = np.linalg.norm(self.offsets_mm / self.spacing_mm, axis=1)
        diagonal = np.linalg.norm(self.box_mm / self.spacing_mm, axis=1)
        in_box = ((self.from_corner_mm >= 0) & (self.from_corner_mm <= self.box_mm)).all(axis=1)
        found = {
            "dlt_radius": error < np.maximum(self.radius_mm, _NO_LESS),
            "dlt_10": error <= np.minimum(self.radius_mm, 10.0),
            "uae_radius": in_box,
            "uae_10": error <= 10.0,
            "tlt_radius": voxels < diagonal,
            "tlt_10": voxels < np.minimum(10.0, diagonal),
        }
        return {name: found[key] for name, key in MEANINGS.items()}

    def rates(self) -> dict[str, float]:
        """Name of `MEANINGS` -> share of the lesions."""
        return {name: float(hit.mean()) for name, hit in self.hits().items()}
