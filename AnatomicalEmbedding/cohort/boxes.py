"""Boxes of structures in all scans of a cohort, and their file in the manner of COCO."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..files import write_text
from ..structures.locating import Example, Located, locate
from .manifest import Row
from .search import Search


@dataclass(frozen=True, eq=False)
class Boxed:
    """The structures of one scan, and the scan's facts."""

    row: Row
    facts: dict[str, Any]
    found: dict[str, Located]


def locate_all(search: Search, structures: Mapping[str, Sequence[Example]], effort: str) -> Iterator[Boxed]:
    """Locate structures by examples in every embedded scan; only maps are read."""
    for row, facts in search.index.scans.values():
        yield Boxed(row, facts, locate(structures, search.map_of(row), effort))


def write_coco(path: Path, every: Sequence[Boxed], boxes: Mapping[tuple[int, str], np.ndarray]) -> None:
    """Scans as "images", structures as "categories", boxes as "annotations".

    boxes: (2, 3) RAS mm by row and structure. COCO knows pictures; a "bbox" is here the lowest corner and the size in
    three axes, R, A, S mm of the scan's own frame, and "status" says whether the structure is whole in the scan.
    """
    names = sorted({name for each in every for name in each.found})
    number = {name: n + 1 for n, name in enumerate(names)}
    annotations = []
    for each in every:
        for name, located in each.found.items():
            box = boxes.get((each.row.id, name))
            if box is not None:
                size = box[1] - box[0]
                annotations.append(
                    {
                        "id": len(annotations) + 1,
                        "image_id": each.row.id,
                        "category_id": number[name],
                        "bbox": [round(float(x), 2) for x in (*box[0], *size)],
                        "status": located.status,
                    }
                )
    images = [
        {
            "id": each.row.id,
            "file_name": each.row.scan,
            "voxels_ijk": each.facts.get("voxels"),
            "spacing_mm": each.facts.get("spacing_mm"),
        }
        for each in every
    ]
    about = {"description": "boxes of an AnatomicalEmbedding cohort", "frame": "RAS", "unit": "mm"}
    categories = [{"id": n, "name": name} for name, n in number.items()]
    content = {"info": about, "images": images, "categories": categories, "annotations": annotations}
    write_text(path, json.dumps(content, indent=1))
