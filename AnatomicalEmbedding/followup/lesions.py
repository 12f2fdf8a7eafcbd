"""Lesions and their findings in studies, as plain values without torch. Coordinates are RAS mm."""

from __future__ import annotations

import math
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import date
from typing import Any

Point = tuple[float, float, float]
Axis = tuple[Point, Point]  # two ends

MARKED = "marked"  # placed here by a person
PROPOSED = "proposed"  # found by the software, not reviewed
CONFIRMED = "confirmed"  # a proposal that a person accepted
MOVED = "moved"  # a proposal that a person corrected
NOT_VISIBLE = "not visible"  # reviewed: the scan shows the place, but no lesion there
OUTSIDE = "outside"  # reviewed: the scan does not show the place
MERGED = "merged"  # reviewed: has merged into another lesion; only that lesion is measured
STATES = (MARKED, PROPOSED, CONFIRMED, MOVED, NOT_VISIBLE, OUTSIDE, MERGED)
WITH_PLACE = (MARKED, PROPOSED, CONFIRMED, MOVED)
VISIBLE = (MARKED, CONFIRMED, MOVED)  # a person saw the lesion here
LONG, SHORT = "long", "short"  # axes
LEAST_AXIS_MM = 0.1  # a shorter axis is a drawing mistake


@dataclass(frozen=True)
class Study:
    """One scan of the patient. key: unique and constant: the DICOM series UID, the hash of the scan's content, or a key
    that the scene stores. date: of the scan; None if unknown. name: for users.
    """

    key: str
    name: str
    date: date | None = None
    study_uid: str = ""
    series_uid: str = ""

    @property
    def label(self) -> str:
        """The date of the study, or its name if it has no date."""
        return self.name if self.date is None else self.date.isoformat()


@dataclass(frozen=True)
class Guess:
    """The result of matching for a proposed place. status: "matched", "uncertain" or "absent" (not in this scan).
    source: key of the study from which the place was matched. expected_error_mm: mm. probability: that the error is
    less than 10 mm. Both are None if the weights have no calibration.
    """

    status: str
    source: str
    expected_error_mm: float | None = None
    probability: float | None = None

    @property
    def error_mm(self) -> float | None:
        """The expected error, mm, to show to the user; None if the status is "absent"."""
        return None if self.status == "absent" else self.expected_error_mm


@dataclass(frozen=True)
class Measurement:
    """Sizes of a lesion in a study. long_axis, short_axis: two ends each, RAS mm. volume_ml: if it was segmented.
    confirmed: whether a person drew or accepted the sizes in this study. Sizes that are copied from another study are
    not confirmed and do not count.
    """

    long_axis: Axis | None = None
    short_axis: Axis | None = None
    volume_ml: float | None = None
    confirmed: bool = False

    @property
    def axes(self) -> dict[str, Axis]:
        """The axes that are set: LONG or SHORT -> the two ends, RAS mm."""
        return {kind: axis for kind, axis in ((LONG, self.long_axis), (SHORT, self.short_axis)) if axis is not None}

    @property
    def long_mm(self) -> float | None:
        """Length of the long axis, mm; None if it is not set."""
        return None if self.long_axis is None else math.dist(*self.long_axis)

    @property
    def short_mm(self) -> float | None:
        """Length of the short axis, mm; None if it is not set."""
        return None if self.short_axis is None else math.dist(*self.short_axis)

    def moved(self, start: Point, place: Point) -> Measurement:
        """Return the same sizes, with the axes moved by the vector from `start` to `place`."""
        dx, dy, dz = (to - at for at, to in zip(start, place, strict=True))
        moved: dict[str, Any] = {}
        for kind, ((a, b, c), (d, e, f)) in self.axes.items():
            moved[f"{kind}_axis"] = (a + dx, b + dy, c + dz), (d + dx, e + dy, f + dz)
        return replace(self, **moved)


NO_SIZE = Measurement()


@dataclass(frozen=True)
class Finding:
    """A lesion in one study. state: one of STATES. point_ras: RAS mm; None if the state has no place. guess: the result
    of matching, also kept after the review. into: id of the lesion that this lesion has merged into, or "".
    """

    state: str
    point_ras: Point | None = None
    guess: Guess | None = None
    size: Measurement = NO_SIZE
    into: str = ""

    @property
    def reviewed(self) -> bool:
        """Whether a person entered or reviewed the finding."""
        return self.state != PROPOSED

    @property
    def visible(self) -> bool:
        """Whether a person has seen the lesion here."""
        return self.state in VISIBLE


@dataclass(frozen=True)
class Lesion:
    """A lesion. findings: by study key. id: short and unique in the patient ("L1"). site: organ, in words. target:
    whether it counts in the RECIST sum. nodal: whether it is a lymph node, measured by its short axis. split_from: id
    of the lesion that it was part of earlier, or "". tracking_uid: DICOM Tracking Unique Identifier.
    """

    id: str
    findings: Mapping[str, Finding] = field(default_factory=dict)
    name: str = ""
    site: str = ""
    target: bool = True
    nodal: bool = False
    split_from: str = ""
    tracking_uid: str = field(default_factory=lambda: f"2.25.{uuid.uuid4().int}")

    @property
    def reviewed(self) -> dict[str, Finding]:
        """The findings that a person has reviewed, by study key."""
        return {key: found for key, found in self.findings.items() if found.reviewed}

    @property
    def label(self) -> str:
        """The id of the lesion, followed by its name if it has one."""
        return f"{self.id} {self.name}".rstrip()
