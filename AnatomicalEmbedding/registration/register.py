"""Registration of two scans, from matches to the refined transform."""

from collections.abc import Callable

import torch

from ..embedding.map import EmbeddingMap
from ..errors import AnatomicalEmbeddingError
from ..scan.volume import Volume
from . import AFFINE, COARSE, DEFORMABLE, KINDS, RIGID
from .affine import fit_affine, match_grid
from .coarse import fit_field
from .instance import refine
from .transform import Registration


def register(
    maps: tuple[EmbeddingMap, EmbeddingMap],
    volumes: tuple[Volume, Volume],
    kind: str = DEFORMABLE,
    device: torch.device | str = "cpu",
    step: Callable[[float, str], None] = lambda share, what: None,
) -> Registration:
    """Where every point of the fixed scan lies in the moving one.

    maps, volumes: of the fixed and the moving scan, which may show different parts of the body.
    kind: "rigid" or "affine"; "coarse", a smooth displacement through matches; "deformable", refined by the images.
    step: called with (share done, what is being done); may raise CancelledError to stop.
    Raises MapError for maps of different weights or without a body, AnatomicalEmbeddingError for another kind, or where
    the scans share too little.
    """
    if kind not in KINDS:
        raise AnatomicalEmbeddingError(f"kind {kind!r}: choose one of {', '.join(KINDS)}.")
    fixed, moving = volumes
    step(0.0, "matching")
    matches = match_grid(*maps)
    step(0.4, "fitting")
    affine = fit_affine(matches, RIGID if kind == RIGID else AFFINE)
    field = None
    if kind in (COARSE, DEFORMABLE):
        field = fit_field(matches, affine, *fixed.bounds_ras)
    if kind == DEFORMABLE:
        device = torch.device(device)
        if device.type == "mps":  # its grid_sample has no third dimension
            device = torch.device("cpu")
        field = refine(
            field, affine, volumes, maps, device, lambda share: step(0.5 + share / 2, "comparing the images")
        )
    step(1.0, "done")
    return Registration(kind, affine, field, fixed.name, moving.name, len(matches.fixed_ras), matches.asked)
