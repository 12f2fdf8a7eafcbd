"""The affine part of a registration as elastix (Klein 2010) takes it for a start: `elastix -t0 FILE`.

elastix 5 refuses ITK transforms as a start where its metric needs second derivatives, as its usual B-spline does.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ..errors import VolumeError
from ..files import atomic_path
from ..simpleitk_bridge import LPS_FROM_RAS, RAS_FROM_LPS
from ..volume import Volume


def elastix_parameters(affine: np.ndarray, fixed: Volume) -> dict[str, tuple[str, ...]]:
    """elastix's parameter map of a (4, 4) map of RAS mm, fixed -> moving."""
    lps = LPS_FROM_RAS @ affine @ RAS_FROM_LPS
    ijk_to_lps = LPS_FROM_RAS @ fixed.ijk_to_ras
    direction = ijk_to_lps[:3, :3] / fixed.spacing
    return {
        "Transform": ("AffineTransform",),
        "NumberOfParameters": ("12",),
        "TransformParameters": _words([*lps[:3, :3].ravel(), *lps[:3, 3]]),
        "CenterOfRotationPoint": _words([0.0, 0.0, 0.0]),
        "InitialTransformParameterFileName": ("NoInitialTransform",),
        "HowToCombineTransforms": ("Compose",),
        "FixedImageDimension": ("3",),
        "MovingImageDimension": ("3",),
        "FixedInternalImagePixelType": ("float",),
        "MovingInternalImagePixelType": ("float",),
        "Size": tuple(str(n) for n in fixed.shape[::-1]),
        "Index": ("0", "0", "0"),
        "Spacing": _words(fixed.spacing),
        "Origin": _words(ijk_to_lps[:3, 3]),
        "Direction": _words(direction.T.ravel()),  # elastix writes it column by column
        "UseDirectionCosines": ("true",),
    }


def write_elastix_start(path: str | Path, affine: np.ndarray, fixed: Volume) -> None:
    """Write the same as a parameter file. Raises VolumeError where it cannot be written."""
    lines = []
    for name, values in elastix_parameters(affine, fixed).items():
        numbers = all(_is_number(value) for value in values)
        lines.append(f"({name} " + " ".join(value if numbers else f'"{value}"' for value in values) + ")")
    path = Path(path)
    try:
        with atomic_path(path) as temporary:
            temporary.write_text("\n".join(lines) + "\n", encoding="utf-8")
    except OSError as error:
        raise VolumeError(f"{path}: cannot be written; check that the folder is writable and not full.") from error


def _words(values) -> tuple[str, ...]:
    return tuple(repr(float(value)) for value in values)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
