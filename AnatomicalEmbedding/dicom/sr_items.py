"""Read the items of DICOM structured reports, and the codes that all reports of this program use.

This module uses pydicom, because highdicom refuses a whole report if one item breaks a rule of DICOM.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from ..anatomy.codes import Code, site_words
from ..errors import AnatomicalEmbeddingError
from .reading import read_whole

if TYPE_CHECKING:
    from pydicom import Dataset

SCHEME = "99ANATEMB"  # the coding scheme of this program; local schemes begin with 99 (DICOM PS3.16, section 8.2)
MM: Code = ("mm", "UCUM", "mm")
CENTER: Code = ("111010", "DCM", "Center")
IDENTIFIER: Code = ("112039", "DCM", "Tracking Identifier")
_GROUP: Code = ("125007", "DCM", "Measurement Group")
_FINDING_SITE: Code = ("363698007", "SCT", "Finding Site")
_LATERALITY: Code = ("272741003", "SCT", "Laterality")


def open_report(path: Path) -> Dataset:
    """Read a structured report. Raises AnatomicalEmbeddingError if the file is missing, damaged or of another kind."""
    document = read_whole(path, "give a structured report")
    if document.get("Modality") != "SR" or "ContentSequence" not in document:
        raise AnatomicalEmbeddingError(
            f"{path}: is DICOM, but not a structured report; give a file of modality SR."
        )
    return document


# -- the content tree --------------------------------------------------------------------------------------------------


def measurement_groups(item: Dataset) -> Iterator[Dataset]:
    """Yield the measurement groups (TID 1410, 1411, 1501) below an item."""
    for child in children(item):
        if child.ValueType == "CONTAINER" and named([child], _GROUP):
            yield child
        else:
            yield from measurement_groups(child)


def children(item: Dataset) -> Iterator[Dataset]:
    """Yield the items that an item contains."""
    for child in item.get("ContentSequence") or ():
        if "ValueType" in child:  # an item without ValueType only refers to another item
            yield child


def named(items: Iterable[Dataset], name: Code) -> list[Dataset]:
    """Return the items whose concept name has the meaning of `name`, as an SCT code or as an older SRT code."""
    from pydicom.sr.coding import Code as AnyCode

    concepts = [(item, item.get("ConceptNameCodeSequence")) for item in items]
    return [
        item
        for item, concept in concepts
        if concept and AnyCode(*code_in(concept[0])) == AnyCode(*name)
    ]


def code_in(item: Dataset) -> Code:
    """Return value, scheme and meaning of a code; "" for parts that the item lacks."""
    return (
        str(item.get("CodeValue", "")),
        str(item.get("CodingSchemeDesignator", "")),
        str(item.get("CodeMeaning", "")),
    )


def points_in(item: Dataset) -> list[tuple[float, float, float]]:
    """Return the points, RAS mm, of a DICOM item. Raises ValueError if a point does not have three finite numbers."""
    values = [float(value) for value in item.GraphicData]
    if not all(map(math.isfinite, values)):
        raise ValueError("a coordinate is not finite")
    return [(-x, -y, z) for x, y, z in zip(values[::3], values[1::3], values[2::3], strict=True)]


def center_in(items: list[Dataset]) -> tuple[float, float, float] | None:
    """Return a place, RAS mm: the center that `items` state, otherwise the mean point of the outline in `items`; None
    if `items` have no 3-D coordinates."""
    items_with_place = [item for item in items if item.ValueType == "SCOORD3D"]
    chosen = [*named(items_with_place, CENTER), *items_with_place]
    points = points_in(chosen[0]) if chosen else []
    if not points:
        return None
    # in a closed outline, the last point repeats the first, and counts once
    if len(points) > 2 and points[0] == points[-1]:
        points = points[1:]
    return tuple(sum(values) / len(points) for values in zip(*points, strict=True))


def site_in(items: list[Dataset]) -> str:
    """Return the finding site in words, such as "left kidney"; "" if there is no finding site."""
    for item in named(items, _FINDING_SITE):
        sides = [
            code_in(modifier.ConceptCodeSequence[0])
            for modifier in named(children(item), _LATERALITY)
        ]
        return site_words(code_in(item.ConceptCodeSequence[0]), next(iter(sides), None))
    return ""
