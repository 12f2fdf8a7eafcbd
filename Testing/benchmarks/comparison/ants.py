"""Registration with ANTs SyN, for comparison (Avants et al., Medical Image Analysis 2008). Needs antspyx."""

from importlib import metadata
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from AnatomicalEmbedding.scan.geometry import LPS_FROM_RAS, RAS_FROM_LPS, transform_points
from AnatomicalEmbedding.scan.volume import Volume
from AnatomicalEmbedding.structures.labelled_scans import Case


class AntsSyN:
    """Registers each pair with ANTs' `SyN` preset: affine, then symmetric diffeomorphic, mutual information.

    The template is the fixed image, since ANTs maps fixed points to moving ones. No answer (NaN) where a registration
    fails, as when images do not overlap enough.

    With `is_aligned` the images start as they lie, otherwise with their centres of mass on each other.

    Raises importlib.metadata.PackageNotFoundError when antspyx is not installed.
    """

    def __init__(self, is_aligned: bool = False) -> None:
        metadata.version("antspyx")
        self._start = "Identity" if is_aligned else None

    def prepare(self, case: Case) -> float:
        """Load ANTs and read the scan: no work of the method's own."""
        import ants  # noqa: F401

        _ = case.volume
        return 0.0

    def __call__(self, template: Case, points_ras: np.ndarray, target: Case) -> np.ndarray:
        import ants
        import pandas

        with TemporaryDirectory() as folder:
            try:
                found = ants.registration(
                    _to_ants(template.volume),
                    _to_ants(target.volume),
                    type_of_transform="SyN",
                    initial_transform=self._start,
                    outprefix=str(Path(folder) / "pair"),
                )
            except (RuntimeError, ValueError):
                return np.full_like(points_ras, np.nan)
            points_lps = pandas.DataFrame(
                transform_points(LPS_FROM_RAS, points_ras), columns=["x", "y", "z"]
            )
            moved_lps = ants.apply_transforms_to_points(3, points_lps, found["fwdtransforms"])
        return transform_points(RAS_FROM_LPS, moved_lps[["x", "y", "z"]].to_numpy())


def _to_ants(volume: Volume) -> Any:
    import ants

    ijk_to_lps = LPS_FROM_RAS @ volume.ijk_to_ras
    return ants.from_numpy(
        np.ascontiguousarray(volume.voxels.transpose(2, 1, 0), dtype=np.float32),
        origin=ijk_to_lps[:3, 3].tolist(),
        spacing=list(volume.spacing),
        direction=ijk_to_lps[:3, :3] / volume.spacing,
    )
