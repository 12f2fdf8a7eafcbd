"""Split a DICOM series that shows the same positions several times into its phases.

Some archives store the contrast phases, or the reconstructions, of one examination in one series.
"""

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from itertools import combinations
from typing import Any

from .checks import MIN_SLICES
from .dicom_geometry import MAX_DUPLICATES

# Attributes that may tell phases apart, in the order in which they are tried, and the name of a phase.
_ATTRIBUTES = {
    "acquisition": "acquisition {}",
    "temporal": "temporal position {}",
    "kernel": "kernel {}",
    "acquired": "acquired at {}",
    "created": "created at {}",
}
_COMMON = 0.5  # acquisitions of one volume, such as of neck and chest, have less of the shorter one in common
_ORDERS = ("acquired", "created", "number")


def split_phases(
    positions: Sequence[Hashable], heights_mm: Sequence[float], tags: Sequence[Mapping[str, str]]
) -> list[str] | None:
    """Find the phase of each of N slices.

    A series is split if positions are repeated, or if two acquisitions show the same part of the body. The first
    attribute that gives at least two phases without repeated positions decides. If there is none, slices are sorted by
    time and instance number, and a new phase begins where a position is repeated. If two slices of one position always
    follow each other, the first slices of all positions are one phase, and the second slices another.

    Args:
        positions: place of each slice; equal for slices at one position.
        heights_mm: place of each slice along the normal of the slices, mm.
        tags: texts of the attributes "acquisition", "temporal", "kernel", "acquired", "created" and "number" of each
            slice; "" if the header lacks one.

    Returns:
        The name of each slice's phase; None if the series is one phase, or if its phases cannot be told apart.
    """
    if not _is_mixed(positions) and not _overlap(heights_mm, [row["acquisition"] for row in tags]):
        return None
    for attribute, name in _ATTRIBUTES.items():
        values = [row[attribute] for row in tags]
        if _are_phases(positions, values):
            return [name.format(value or "not stated") for value in values]
    # by time of acquisition, time of creation and instance number
    keys = [tuple(_sortable(row[order]) for order in _ORDERS) for row in tags]
    if len(set(keys)) < len(keys):  # two slices with equal keys have no order
        return None
    order = sorted(range(len(keys)), key=keys.__getitem__)
    for numbers in (_runs(positions, order), _ranks(positions, order)):
        if _are_phases(positions, numbers):
            return [f"part {number}" for number in numbers]
    return None


def _is_mixed(positions: Sequence[Hashable]) -> bool:
    """Return whether so many positions are repeated that the slices are of several phases."""
    return len(positions) - len(set(positions)) > MAX_DUPLICATES * len(positions)


def _overlap(heights_mm: Sequence[float], acquisitions: Sequence[str]) -> bool:
    """Return whether two acquisitions that can be volumes have more than half of the shorter one in common."""
    groups = _grouped(heights_mm, acquisitions)
    ranges = [(min(group), max(group)) for group in groups if len(group) >= MIN_SLICES]
    for (low, high), (second_low, second_high) in combinations(ranges, 2):
        shorter = min(high - low, second_high - second_low)
        # the part in common; below 0 if there is none
        if min(high, second_high) - max(low, second_low) > _COMMON * shorter:
            return True
    return False


def _grouped(items: Sequence[Any], keys: Sequence[Hashable]) -> list[list[Any]]:
    """Return the items with equal keys as groups."""
    groups: dict[Hashable, list[Any]] = {}
    for item, key in zip(items, keys, strict=True):
        groups.setdefault(key, []).append(item)
    return list(groups.values())


def _are_phases(positions: Sequence[Hashable], values: Sequence[Hashable]) -> bool:
    """Return whether the groups of slices with equal values are phases: no group repeats positions, and at least two
    groups can be volumes."""
    groups = _grouped(positions, values)
    volumes = sum(len(group) >= MIN_SLICES for group in groups)
    return volumes > 1 and not any(map(_is_mixed, groups))


def _runs(positions: Sequence[Hashable], order: Sequence[int]) -> list[int]:
    """Return the number of each slice's phase, from 1: a phase ends before a slice that repeats a position of it."""
    numbers = [0] * len(positions)
    number = 1
    phase_positions: set[Hashable] = set()
    for index in order:
        if positions[index] in phase_positions:
            number += 1
            phase_positions = set()
        phase_positions.add(positions[index])
        numbers[index] = number
    return numbers


def _ranks(positions: Sequence[Hashable], order: Sequence[int]) -> list[int]:
    """Return the rank of each slice among the slices at its position, from 1; all 0 if the positions have different
    numbers of slices."""
    count: Counter[Hashable] = Counter()
    numbers = [0] * len(positions)
    for index in order:
        count[positions[index]] += 1
        numbers[index] = count[positions[index]]
    return numbers if len(set(count.values())) == 1 else [0] * len(positions)


def _sortable(text: str) -> float:
    """Return a time or a number of a header as a number; 0 if it is missing."""
    try:
        return float(text)
    except ValueError:
        return 0.0
