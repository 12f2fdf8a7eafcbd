"""The values that a record consists of: studies, lesions, findings, sizes; in RAS mm. This module needs no torch."""

from __future__ import annotations

import math
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import date
from typing import Any

Point = tuple[float, float, float]
Axis = tuple[Point, Point]  # the two ends of an axis

MARKED = "marked"  # a person marked the place
PROPOSED = "proposed"  # the software found the place; no person has reviewed it
CONFIRMED = "confirmed"  # a person accepted the proposed place
MOVED = "moved"  # a person corrected the proposed place
NOT_VISIBLE = "not visible"  # a person entered that the scan shows the place, but no lesion there
OUTSIDE = "outside"  # a person entered that the scan does not show the place
MERGED = "merged"  # a person entered that the lesion has merged into another lesion; only the other lesion is measured
STATES = (MARKED, PROPOSED, CONFIRMED, MOVED, NOT_VISIBLE, OUTSIDE, MERGED)
WITH_PLACE = (MARKED, PROPOSED, CONFIRMED, MOVED)  # states of a finding that has a place
VISIBLE = (MARKED, CONFIRMED, MOVED)  # states of a lesion that a person saw in the study
LONG, SHORT = "long", "short"  # names of the axes
LEAST_AXIS_MM = 0.1  # a shorter axis was drawn by mistake


@dataclass(frozen=True)
class Study:
    """One scan of the patient.

    key: identifies the study and never changes: the DICOM series UID, the hash of the scan's content, or a key that is
    stored in the scene of 3D Slicer. name: shown to users. date: when the scan was taken; None if unknown. study_uid,
    series_uid: UIDs of the DICOM study and series, or "".
    """

    key: str
    name: str
    date: date | None = None
    study_uid: str = ""
    series_uid: str = ""

    @property
    def label(self) -> str:
        """The date of the study. If the date is unknown, the name of the study."""
        return self.name if self.date is None else self.date.isoformat()


@dataclass(frozen=True)
class Guess:
    """The result of matching for a proposed place.

    status: "matched", "uncertain" or "absent" (the scan does not show the place). source: key of the study from which
    the lesion was matched. expected_error_mm: expected error of the place, mm. probability: probability that the error
    is less than 10 mm, 0 to 1. expected_error_mm and probability are None if the weights have no calibration. doubt:
    why the status is "uncertain", see `doubts.doubt_of`; "" if only the expected error makes it so, or if it is not.
    """

    status: str
    source: str
    expected_error_mm: float | None = None
    probability: float | None = None
    doubt: str = ""

    @property
    def error_mm(self) -> float | None:
        """The expected error to show to the user, mm. None if the status is "absent"."""
        return None if self.status == "absent" else self.expected_error_mm


@dataclass(frozen=True)
class Measurement:
    """The sizes of a lesion in a study.

    long_axis, short_axis: the two ends of each axis, RAS mm; None if not drawn.
    confirmed: whether a person drew or accepted the axes in this study. Axes that were copied from another
    study are not confirmed, and are not used in sums.
    """

    long_axis: Axis | None = None
    short_axis: Axis | None = None
    confirmed: bool = False

    @property
    def axes(self) -> dict[str, Axis]:
        """The drawn axes: the kind of axis (LONG or SHORT) -> the two ends of this axis, RAS mm."""
        axes = {LONG: self.long_axis, SHORT: self.short_axis}
        return {kind: axis for kind, axis in axes.items() if axis is not None}

    @property
    def long_mm(self) -> float | None:
        """The length of the long axis, mm. None if the axis is not drawn."""
        return None if self.long_axis is None else math.dist(*self.long_axis)

    @property
    def short_mm(self) -> float | None:
        """The length of the short axis, mm. None if the axis is not drawn."""
        return None if self.short_axis is None else math.dist(*self.short_axis)

    def moved(self, start: Point, place: Point) -> Measurement:
        """Return the measurement with both axes moved by the vector from `start` to `place`, RAS mm."""
        dx, dy, dz = (to_mm - from_mm for from_mm, to_mm in zip(start, place, strict=True))
        axes: dict[str, Any] = {}  # the fields long_axis and short_axis
        for kind, axis in self.axes.items():
            axes[f"{kind}_axis"] = tuple((x + dx, y + dy, z + dz) for x, y, z in axis)
        return replace(self, **axes)


NO_SIZE = Measurement()


@dataclass(frozen=True)
class Finding:
    """One lesion in one study.

    state: one of STATES. point_ras: place of the lesion, RAS mm; None if the state is not visible, outside or merged.
    guess: the result of matching; it is kept after a person has reviewed the place. into: id of the lesion that this
    lesion merged into; "" in all states but merged. query: the query of the place, `matching.query.query_to_text`, with
    which the lesion is proposed in other studies when the scan of this study is not loaded; "" if it was not read.
    """

    state: str
    point_ras: Point | None = None
    guess: Guess | None = None
    size: Measurement = NO_SIZE
    into: str = ""
    query: str = field(default="", compare=False, repr=False)

    @property
    def reviewed(self) -> bool:
        """Whether a person has entered or reviewed the finding."""
        return self.state != PROPOSED

    @property
    def visible(self) -> bool:
        """Whether a person has seen the lesion in this study."""
        return self.state in VISIBLE


@dataclass(frozen=True)
class Lesion:
    """One lesion in all studies.

    id: short name such as "L1", unique in the record. findings: study key -> finding. site: the organ, in words.
    target: whether the lesion is a target lesion of RECIST 1.1, which counts in the sum. nodal: whether the lesion is a
    lymph node; its short axis counts instead of its long axis. split_from: id of the lesion that this lesion was a part
    of in an earlier study, or "". tracking_uid: Tracking Unique Identifier in DICOM reports.
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
        return {key: finding for key, finding in self.findings.items() if finding.reviewed}

    @property
    def visible(self) -> dict[str, Finding]:
        """The findings of the studies in which a person saw the lesion, by study key."""
        return {key: finding for key, finding in self.findings.items() if finding.visible}

    @property
    def label(self) -> str:
        """The id of the lesion, followed by its name if it has one."""
        return f"{self.id} {self.name}".rstrip()
