"""Dates as DICOM writes them."""

from __future__ import annotations

import re
from datetime import date

_DATE = re.compile(r"(\d{4})([.-]?)(\d{2})\2(\d{2})")  # YYYYMMDD; in older files YYYY.MM.DD, in some YYYY-MM-DD


def date_of(text: str) -> date | None:
    """The day that a DICOM date tells, or None for what is none."""
    found = _DATE.fullmatch(text.strip())
    try:
        return None if found is None else date(int(found[1]), int(found[3]), int(found[4]))
    except ValueError:
        return None
