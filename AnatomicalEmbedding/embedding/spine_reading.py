"""Reads from a map what the package `spine` needs: coordinates, boxes of organs, and the part of the body."""

import numpy as np

from ..scan.geometry import bounds_of
from ..scan.volume import Volume
from ..spine.average import USUAL_MM
from ..spine.ends import find_ends
from ..spine.fitting import fit_spine
from ..spine.vertebrae import Spine
from .coverage import END_MM, height_at
from .map import EmbeddingMap


def spine_ends(embedding: EmbeddingMap) -> dict[str, float]:
    """Find the ends of the spine (top of sacrum, lung apices, skull base) in a scan. Returns end -> S in RAS mm."""
    if not embedding.provenance.metric or not embedding.organ_boxes:
        return {}
    bottom, top = bounds_of(embedding.scan_to_ras, embedding.scan_shape)[:, 2]
    index, body = embedding.body_cells
    heights = embedding.cell_to_ras[2, 3] + embedding.cell_mm[2] * index[:, 2].numpy()  # RAS S mm
    top_height = -np.inf  # body height of the scan's upper end; not known if no body cell is near
    if (heights > top - END_MM).any():
        top_height = height_at(top, heights, body[:, 2].numpy())
    return find_ends(embedding.organ_boxes, (bottom, top), top_height)


def read_spine(
    embedding: EmbeddingMap, volume: Volume, usual: np.ndarray = USUAL_MM
) -> Spine | None:
    """Find the vertebrae of a scan. Return None if the scan shows too little of the spine.

    Args:
        embedding: map of the scan, whose coordinates are not corrected yet.
        volume: the scan.
        usual: as in `spine.fitting.fit_spine`.
    """
    if not embedding.provenance.metric:
        return None
    ends = spine_ends(embedding)
    return fit_spine(embedding.coordinate_and_body, embedding.cell_to_ras, volume, ends, usual)
