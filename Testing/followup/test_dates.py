"""Dates as DICOM files hold them."""

from datetime import date

import pytest

from AnatomicalEmbedding.followup.study_inputs import date_of


@pytest.mark.parametrize("text", ["20240105", "2024.01.05", "2024-01-05", " 20240105 "])
def test_a_day_is_read(text: str) -> None:
    assert date_of(text) == date(2024, 1, 5)


@pytest.mark.parametrize("text", ["", "2024", "20241305", "20240230", "2024.01-05", "January 2024", "202401051"])
def test_what_is_no_day_is_none(text: str) -> None:
    assert date_of(text) is None
