"""What each lesion adds to the sum of diameters, and why that is not known. Confirmed measurements only."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from .lesions import LEAST_AXIS_MM, NOT_VISIBLE, OUTSIDE, PROPOSED, Finding, Lesion, Study
from .record import FollowUp

NORMAL_NODE_MM = 10.0  # a node with a shorter short axis is normal


@dataclass(frozen=True)
class Measured:
    """The lesions that count in a study, each once, and their diameters. missing: ids of those that have none, and why
    not.
    """

    lesions: tuple[tuple[Lesion, float], ...]
    missing: tuple[tuple[str, str], ...]

    @property
    def at_least(self) -> float:
        """The sum of those that are known, mm."""
        return sum(size for _, size in self.lesions)

    @property
    def total(self) -> float | None:
        """The sum, mm; None where a diameter is not known."""
        return None if self.missing else self.at_least

    @property
    def none_left(self) -> bool:
        """Whether every lesion is gone, or a node of normal size."""
        return not self.missing and all(is_normal(lesion, size) for lesion, size in self.lesions)

    @property
    def there(self) -> tuple[str, ...]:
        """Those other than nodes that are there."""
        return tuple(lesion.id for lesion, size in self.lesions if size > 0 and not lesion.nodal)


def measured(record: FollowUp, study: Study, lesions: Iterable[Lesion]) -> Measured:
    """The diameters of lesions in a study; those that have merged are measured by the one that they went into."""
    standing = dict.fromkeys(record.stands_for(lesion.id, study.key) for lesion in lesions)
    sizes, missing = [], []
    for lesion in map(record.lesion, standing):
        found = lesion.findings.get(study.key)
        size = diameter_mm(lesion, found)
        if size is None:
            missing.append((lesion.id, why_unknown(lesion, found, study)))
        else:
            sizes.append((lesion, size))
    return Measured(tuple(sizes), tuple(missing))


def diameter_mm(lesion: Lesion, found: Finding | None) -> float | None:
    """What a lesion adds to the sum: the short axis of a node, else the long one, 0 where a person saw none; None where
    nobody has measured it.
    """
    if found is None:
        return None
    if found.state == NOT_VISIBLE:
        return 0.0
    if not found.visible or not found.size.confirmed:
        return None
    length = found.size.short_mm if lesion.nodal else found.size.long_mm
    return None if length is None or length < LEAST_AXIS_MM else length


def is_normal(lesion: Lesion, size_mm: float | None) -> bool:
    """Whether what is known to be there is no disease: nothing at all, or a small node."""
    if size_mm is None:
        return False
    return size_mm < NORMAL_NODE_MM if lesion.nodal else size_mm <= 0


def why_unknown(lesion: Lesion, found: Finding | None, study: Study) -> str:
    """The reason why a lesion has no diameter in a study, and what to do."""
    axis = "short axis" if lesion.nodal else "long axis"
    if found is None:
        return f"nothing is known in {study.label}; find or mark it there."
    if found.state == PROPOSED:
        return f"only proposed in {study.label}; confirm it, or say where the lesion is."
    if found.state == OUTSIDE:
        return f"not in the scan of {study.label}."
    drawn = found.size.short_axis if lesion.nodal else found.size.long_axis
    if drawn is not None and not found.size.confirmed:
        return f"axes in {study.label} are carried over from another study; accept or draw them."
    return f"not measured in {study.label}; draw the {axis}."


def sentences(why: Iterable[tuple[str, str]]) -> tuple[str, ...]:
    """One for each reason, with all lesions that it is true of: a study that nobody has looked at has one, not ten."""
    of_reason: dict[str, dict[str, None]] = {}
    for lesion_id, reason in why:
        of_reason.setdefault(reason, {})[lesion_id] = None
    return tuple(f"{', '.join(ids)}: {reason}" for reason, ids in of_reason.items())
