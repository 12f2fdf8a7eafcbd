"""The diameter that each lesion adds to the RECIST sum, or the reason why it is unknown. Only confirmed sizes count."""

from collections.abc import Iterable
from dataclasses import dataclass

from .lesions import LEAST_AXIS_MM, LONG, NOT_VISIBLE, OUTSIDE, PROPOSED, SHORT, Finding, Lesion, Study
from .record import FollowUp

NORMAL_NODE_MM = 10.0  # a node with a shorter short axis is normal


@dataclass(frozen=True)
class Measured:
    """Diameters in a study. lesions: each lesion once, with its diameter in mm. missing: (id, reason) if unknown."""

    lesions: tuple[tuple[Lesion, float], ...]
    missing: tuple[tuple[str, str], ...]

    @property
    def at_least(self) -> float:
        """The sum of the known diameters, mm."""
        return sum(size for _, size in self.lesions)

    @property
    def total(self) -> float | None:
        """The sum of the diameters, mm; None if a diameter is unknown."""
        return None if self.missing else self.at_least

    @property
    def is_cleared(self) -> bool:
        """Whether every lesion is gone or, if nodal, of normal size."""
        return not self.missing and all(is_normal(lesion, size) for lesion, size in self.lesions)

    @property
    def present(self) -> tuple[str, ...]:
        """Ids of the lesions, without lymph nodes, that are still present."""
        return tuple(lesion.id for lesion, size in self.lesions if size > 0 and not lesion.nodal)


def measured(record: FollowUp, study: Study, lesions: Iterable[Lesion]) -> Measured:
    """Return the diameters of lesions in a study. A merged lesion is replaced by the lesion that it merged into."""
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
    """Return the diameter for the sum, mm: the short axis of a node, else the long axis; 0 if reviewed as not visible.

    None if the diameter is not known.
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
    """Return whether the size means no disease: a node below 10 mm, or any other lesion of 0 mm."""
    if size_mm is None:
        return False
    return size_mm < NORMAL_NODE_MM if lesion.nodal else size_mm <= 0


def why_unknown(lesion: Lesion, found: Finding | None, study: Study) -> str:
    """Return a sentence: why a lesion has no diameter in a study, and the remedy."""
    axis = "short axis" if lesion.nodal else "long axis"
    if found is None:
        return f"not assessed in {study.label}; find or mark it there."
    if found.state == PROPOSED:
        return f"only proposed in {study.label}; confirm it, or place the lesion."
    if found.state == OUTSIDE:
        return f"not in the scan of {study.label}."
    if (SHORT if lesion.nodal else LONG) in found.size.axes and not found.size.confirmed:
        return f"axes in {study.label} are carried over from another study; accept or draw them."
    return f"not measured in {study.label}; draw the {axis}."


def sentences(why: Iterable[tuple[str, str]]) -> tuple[str, ...]:
    """Return one sentence for each reason, which names all lesions with this reason. why: (lesion id, reason)."""
    of_reason: dict[str, dict[str, None]] = {}
    for lesion_id, reason in why:
        of_reason.setdefault(reason, {})[lesion_id] = None
    return tuple(f"{', '.join(ids)}: {reason}" for reason, ids in of_reason.items())
