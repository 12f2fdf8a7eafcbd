"""Facts about a scan, computed from the scan's map. They are stored in the manifest, and checked when read."""

import re
from typing import Any

import numpy as np

from ..embedding.coverage import apply_affine, body_points, find_coverage, robust_affine
from ..embedding.map import EmbeddingMap
from ..scan.boxes import boxes_from_json, boxes_to_json
from ..scan.geometry import spacing_of
from ..spine.vertebrae import spine_from_json, spine_to_json

_LARGEST_SIZE = 100_000  # cells or voxels along an axis
_HASH = re.compile(r"[0-9A-Za-z]{1,128}")


def make_facts(embedding: EmbeddingMap) -> dict[str, Any]:
    """Return facts about a scan as JSON values, computed from the map of the scan.

    held: which part of the body the scan shows, in words. low_mm, high_mm: body heights of the ends of this part.
    frame: (4, 3) matrix that converts RAS mm to body coordinates, fitted to the body cells: body = [ras, 1] @ frame.
    misfit_mm: median error of this fit. body_shape: number of cells k, j, i. Other entries: see `EmbeddingMap`. Raises
    MapError if the body coordinates of the map are not in mm.
    """
    made_by = embedding.provenance
    coverage = find_coverage(embedding)
    ras, body = body_points(embedding)
    affine, _ = robust_affine(ras, body)
    misfit = np.median(np.linalg.norm(body - apply_affine(affine, ras), axis=1))
    return {
        "body_shape": list(embedding.body.shape),
        "scan_shape": list(embedding.scan_shape),
        "voxels": list(embedding.scan_shape[::-1]),
        "spacing_mm": spacing_of(embedding.scan_to_ras).round(4).tolist(),
        "model": made_by.model,
        "weights_hash": made_by.weights_hash,
        "scan_hash": made_by.scan_hash,
        "notes": list(embedding.notes),
        "faults": list(embedding.faults),
        "organ_boxes": boxes_to_json(embedding.organ_boxes),
        "spine": spine_to_json(embedding.spine),
        "low_mm": round(coverage.low_mm, 1),
        "high_mm": round(coverage.high_mm, 1),
        "held": coverage.text,
        "misfit_mm": round(float(misfit), 2),
        "frame": affine.round(6).tolist(),
    }


def check_facts(facts: dict[str, Any]) -> None:
    """Raise ValueError, TypeError, KeyError or AttributeError if `facts` cannot come from `make_facts`."""
    for shape in (facts["body_shape"], facts["scan_shape"]):
        sizes_fit = all(isinstance(n, int) and 0 < n < _LARGEST_SIZE for n in shape)
        if len(shape) != 3 or not sizes_fit:
            raise ValueError("a scan cannot have this size")
    texts = [facts[name] for name in ("model", "weights_hash", "scan_hash", "held")]
    if not all(isinstance(text, str) for text in (*texts, *facts["notes"], *facts["faults"])):
        raise ValueError("a fact is not a text")
    boxes_from_json(facts["organ_boxes"])
    spine_from_json(facts["spine"])
    numbers = np.array([facts["low_mm"], facts["high_mm"], facts["misfit_mm"]], np.float64)
    frame = np.array(facts["frame"], np.float64)
    shapes_fit = numbers.shape == (3,) and frame.shape == (4, 3)
    if not shapes_fit or not np.isfinite([*numbers, *frame.flat]).all():
        raise ValueError("a fact is not a finite number")


def check_hash(scan_hash: str) -> str:
    """Return `scan_hash`, which becomes part of a path. Raises ValueError if the text is not a hash."""
    if not _HASH.fullmatch(scan_hash):
        raise ValueError("not a hash")
    return scan_hash
