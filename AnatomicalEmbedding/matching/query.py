"""A query: all values of a template at given points that are needed to find the points in other scans."""

import base64
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from safetensors.torch import load, save

from ..embedding.map import EmbeddingMap
from ..embedding.spine_reading import spine_ends
from ..embedding.tensor_files import check_size
from ..errors import PointsError
from ..spine.average import near_spine
from ..spine.comparison import PointLevels, read_levels
from .blocks import Blocks, describe_blocks
from .coordinates import read_coordinates
from .slack import WINDOW, read_window


@dataclass(frozen=True, eq=False)
class Query:
    """Values that matching reads from the map of a template at n points.

    Args:
        weights_hash: SHA-256 of the weights of the template's map.
        coordinates: (n, 3) float64 body coordinates, in the unit of the map.
        sizes: (n,) volume in the body frame that corresponds to 1 mm^3 of the template at each point.
        descriptors: (n, l) descriptors of the points themselves, for effort "fast"; or None.
        blocks: descriptors of the tissue around the points, for effort "standard"; or None.
        levels: levels of the spine at the points; None if they are not known.
        windows: (n, m) grey values around the points, see `slack`; None for CTs.
    """

    weights_hash: str
    coordinates: torch.Tensor
    sizes: torch.Tensor
    descriptors: torch.Tensor | None = None
    blocks: Blocks | None = None
    levels: PointLevels | None = None
    windows: torch.Tensor | None = None


def read_query(template: EmbeddingMap, points_ras: np.ndarray, effort: str = "standard") -> Query:
    """Read from a template the values that an effort of matching needs.

    Args:
        template: map of the scan.
        points_ras: (n, 3) RAS mm.
        effort: see `matching.match.match_all`.

    Raises:
        PointsError: a point lies outside the template.
    """
    coordinates, sizes = read_coordinates(template, points_ras)
    descriptors = blocks = windows = None
    if template.local is not None and effort == "fast":
        descriptors = template.describe(points_ras)
    elif template.local is not None and effort != "coordinates":
        blocks = describe_blocks(template, template.cells_at(points_ras))
    if template.is_own_kind:
        windows = read_window(template, template.cells_at(points_ras))
    # body coordinates; the ends of the spine are needed only for points near it
    ends = spine_ends(template) if near_spine(coordinates.float().numpy()).any() else {}
    levels = read_levels(template.spine, ends, points_ras)
    return Query(
        template.provenance.weights_hash, coordinates, sizes, descriptors, blocks, levels, windows
    )


def query_to_text(query: Query) -> str:
    """Convert a query for effort "standard" to a text of about 9 kB for each point. `query_from_text` restores it.

    The text begins with `weights_hash`. The descriptors are rounded to steps of 1 / 127.
    """
    tensors = {"coordinates": query.coordinates, "sizes": query.sizes}
    if query.blocks is not None:
        tensors["blocks"] = (query.blocks.descriptors * 127).round().to(torch.int8)
        tensors["seen"] = query.blocks.in_body
    if query.windows is not None:
        tensors["windows"] = (query.windows * 255).round().to(torch.uint8)
    if query.levels is not None:
        tensors["above_ends_mm"] = torch.from_numpy(query.levels.above_ends_mm)
        tensors["level_chances"] = torch.from_numpy(query.levels.chance)
    packed = save({name: values.contiguous() for name, values in tensors.items()})
    return f"{query.weights_hash}:{base64.b64encode(packed).decode()}"


def query_from_text(text: str) -> Query:
    """Restore a query from the text of `query_to_text`. Raises an error of `tensor_files.DAMAGED` if it is damaged."""
    weights_hash, packed = text.split(":")
    tensors = load(base64.b64decode(packed, validate=True))
    blocks, windows = tensors.get("blocks"), tensors.get("windows")
    check_size(tensors["coordinates"], (None, 3), torch.float64)
    if blocks is not None:
        check_size(tensors["seen"], blocks.shape[:2], torch.bool)
        blocks = Blocks(F.normalize(blocks.float(), dim=2), tensors["seen"])
    if windows is not None:
        check_size(windows, (len(tensors["coordinates"]), WINDOW), torch.uint8)
        windows = windows.float() / 255
    return Query(
        weights_hash,
        tensors["coordinates"],
        tensors["sizes"],
        blocks=blocks,
        levels=_levels_in(tensors),
        windows=windows,
    )


def _levels_in(tensors: dict[str, torch.Tensor]) -> PointLevels:
    """Return the levels of a query's text; unknown levels for a text of an earlier version, which may lack them."""
    levels = PointLevels.unknown(len(tensors["coordinates"]))
    default = {"above_ends_mm": levels.above_ends_mm, "level_chances": levels.chance}
    for name, values in default.items():
        if name in tensors:
            check_size(tensors[name], values.shape, torch.float64)
            values[:] = tensors[name].numpy()
    return levels


def join_queries(parts: list[Query]) -> Query:
    """Join several queries. Raises PointsError if the queries were made with different weights or efforts."""
    if len({part.weights_hash for part in parts}) > 1:
        raise PointsError(
            "the examples were made with different weights; make all examples with the same weights."
        )
    if len({(part.descriptors is None, part.blocks is None) for part in parts}) > 1:
        raise PointsError(
            "only some examples have descriptors; make all examples again with the same effort."
        )

    joins = {"blocks": Blocks.join, "levels": PointLevels.join}
    joined: dict[str, Any] = {}
    for name in ("coordinates", "sizes", "descriptors", "blocks", "levels", "windows"):
        values = [getattr(part, name) for part in parts]
        if all(value is not None for value in values):
            joined[name] = joins.get(name, torch.cat)(values)
    return Query(parts[0].weights_hash, **joined)
