"""Facts of a scan, which its shard and the manifest hold: what they are checked for when they are read."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from ..scan.boxes import boxes_from_json

_MOST = 100_000  # cells or voxels along an axis
_HASH = re.compile(r"[0-9A-Za-z]{1,128}")


def check_facts(facts: dict[str, Any]) -> None:
    """Raise ValueError, TypeError, KeyError or AttributeError unless these are facts as `write_shard` keeps them."""
    shapes = facts["body_shape"], facts["scan_shape"]
    if not all(len(shape) == 3 and all(isinstance(n, int) and 0 < n < _MOST for n in shape) for shape in shapes):
        raise ValueError("a size of no scan")
    texts = [facts[name] for name in ("model", "weights_hash", "scan_hash", "held")]
    texts += [facts.get("scan", ""), *facts["notes"], *facts.get("faults", ())]
    if not all(isinstance(text, str) for text in texts):
        raise ValueError("facts that are no words")
    boxes_from_json(facts.get("organ_boxes", {}))
    numbers = np.array([facts["low_mm"], facts["high_mm"], facts["misfit_mm"], *facts["scales"]], dtype=np.float64)
    frame = np.array(facts["frame"], dtype=np.float64)
    if numbers.shape != (6,) or frame.shape != (4, 3) or not (np.isfinite(numbers).all() and np.isfinite(frame).all()):
        raise ValueError("facts that are no numbers")


def check_hash(scan_hash: str) -> str:
    """The content hash of a scan, which names a file. Raises ValueError for what could name another."""
    if not _HASH.fullmatch(scan_hash):
        raise ValueError("no hash")
    return scan_hash
