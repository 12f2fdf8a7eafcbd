"""Lesions and their findings in studies, as plain values without torch. Coordinates are RAS mm."""

from __future__ import annotations

import math
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import date

Point = tuple[float, float, float]
Axis = tuple[Point, Point]  # two ends

MARKED = "marked"  # placed here by a person
PROPOSED = "proposed"  # found by the software, not reviewed
CONFIRMED = "confirmed"  # a proposal that a person accepted
MOVED = "moved"  # a proposal that a person corrected
NOT_VISIBLE = "not visible"  # reviewed: the scan shows the place, but no lesion there
OUTSIDE = "outside"  # reviewed: the scan does not show the place
MERGED = "merged"  # reviewed: merged with another lesion, which is measured for both
STATES = (MARKED, PROPOSED, CONFIRMED, MOVED, NOT_VISIBLE, OUTSIDE, MERGED)
WITH_PLACE = (MARKED, PROPOSED, CONFIRMED, MOVED)
VISIBLE = (MARKED, CONFIRMED, MOVED)  # a person saw the lesion here
LONG, SHORT = "long", "short"  # axes
LEAST_AXIS_MM = 0.1  # shorter ones are drawing mistakes


@dataclass(frozen=True)
class Study:
    """One scan of the patient. key: unique and constant: the DICOM series UID, the hash of its content, or a key that a
    scene keeps. date: of the scan; None where unknown. name: for users.
    """

    key: str
    name: str
    date: date | None = None
    study_uid: str = ""
    series_uid: str = ""

    @property
    def label(self) -> str:
        """Its date, or its name where it has none."""
        return self.name if self.date is None else self.date.isoformat()


@dataclass(frozen=True)
class Guess:
    """The result of matching for a proposed place. status: "matched", "uncertain" or "absent" (not in this scan).
    source: key of the study whose place was carried over. expected_error_mm, probability (of less than 10 mm): None
    where the weights have no calibration.
    """

    status: str
    source: str
    expected_error_mm: float | None = None
    probability: float | None = None

    @property
    def error_mm(self) -> float | None:
        """The expected error to show; None for a place reported as absent."""
        return None if self.status == "absent" else self.expected_error_mm


@dataclass(frozen=True)
class Measurement:
    """Sizes of a lesion in a study. long_axis, short_axis: their ends. volume_ml: where it was segmented.
    confirmed: a person drew or accepted them in this study; carried-over sizes are not counted.
    """

    long_axis: Axis | None = None
    short_axis: Axis | None = None
    volume_ml: float | None = None
    confirmed: bool = False

    @property
    def axes(self) -> dict[str, Axis]:
        """The axes that there are: LONG or SHORT -> its ends."""
        return {kind: axis for kind, axis in ((LONG, self.long_axis), (SHORT, self.short_axis)) if axis is not None}

    @property
    def long_mm(self) -> float | None:
        """Length of the long axis."""
        return None if self.long_axis is None else math.dist(*self.long_axis)

    @property
    def short_mm(self) -> float | None:
        """Length of the short axis."""
        return None if self.short_axis is None else math.dist(*self.short_axis)

    def moved(self, start: Point, place: Point) -> Measurement:
        """The same sizes, moved as far as from `start` to `place`."""
        dx, dy, dz = (to - at for at, to in zip(start, place, strict=True))

        def there(axis: Axis | None) -> Axis | None:
            if axis is None:
                return None
            (a, b, c), (d, e, f) = axis
            return (a + dx, b + dy, c + dz), (d + dx, e + dy, f + dz)

        return replace(self, long_axis=there(self.long_axis), short_axis=there(self.short_axis))


NO_SIZE = Measurement()


@dataclass(frozen=True)
class Finding:
    """A lesion in one study. point_ras: None where `state` has no place. guess: of matching, kept after the review.
    into: the lesion that it has `MERGED` with.
    """

    state: str
    point_ras: Point | None = None
    guess: Guess | None = None
    size: Measurement = NO_SIZE
    into: str = ""

    @property
    def reviewed(self) -> bool:
        """Whether a person has reviewed the finding."""
        return self.state != PROPOSED

    @property
    def visible(self) -> bool:
        """Whether a person has seen the lesion here."""
        return self.state in VISIBLE


@dataclass(frozen=True)
class Lesion:
    """A lesion and its findings by study key. id: short and unique in the patient ("L1"). site: organ, in words.
    tracking_uid: the same in every report, DICOM's Tracking Unique Identifier. target: counts in the RECIST sum.
    nodal: a lymph node, measured by its short axis. split_from: the lesion that it was part of before.
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
        """Its number, and its name where it has one."""
        return f"{self.id} {self.name}".rstrip()
