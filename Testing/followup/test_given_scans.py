"""Scans given to a command: no scan is taken for another, and what decides their order is said."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import date

import pytest

from AnatomicalEmbedding.errors import AnatomicalEmbeddingError
from AnatomicalEmbedding.followup.lesions import Study
from AnatomicalEmbedding.followup.study_inputs import InOrder, Recognized, in_order, recognize


def content(name: str, number: int, day: date | None = None) -> Study:
    """A file as a command knows it."""
    return Study(f"{number:040x}", name, day)


def year(number: int) -> date:
    return date(number, 1, 1)


def seen(known: Sequence[Study], *given: Study) -> Recognized:
    return recognize(known, given, [f"file{n}" for n, _ in enumerate(given)])


BY_NAME = (Study("ct", "ct", year(2023)), Study("ct_2", "ct_2", year(2024)))  # as records were once


def test_a_file_is_known_by_its_content_whatever_its_name() -> None:
    known = (content("ct", 1, year(2023)), content("ct_2", 2))
    found = seen(known, content("ct", 2), content("ct", 3, year(2025)))
    assert found.studies == (known[1], content("ct_3", 3, year(2025)))
    assert found.notes == ("file1: differs from the scans of this name in the record; it becomes ct_3 (2025-01-01).",)


def test_files_of_one_name_have_names_of_their_own() -> None:
    found = seen((), content("ct", 1), content("CT", 2), content("ct_2", 3))
    assert [study.name for study in found.studies] == ["ct", "CT_2", "ct_2_2"]
    assert found.notes == ()


def test_a_date_that_is_given_or_was_known() -> None:
    known = (content("ct", 1, year(2023)), content("b", 2))
    found = seen(known, content("ct", 1), content("b", 2, year(2024)))
    assert [study.date for study in found.studies] == [year(2023), year(2024)]


def test_a_date_of_the_record_stays_unless_a_person_gives_another_now() -> None:
    known, by_header = (content("ct", 1, year(2024)),), content("ct", 1, year(1900))
    kept = seen(known, by_header)
    assert kept.studies == known
    told = "has the date 1900-01-01 in its header and 2024-01-01 in the record, which is kept"
    assert kept.notes == (f"file0: {told}; give --date for each scan to change it.",)
    given = recognize(known, [content("ct", 1, year(2020))], ["file0"], [year(2020)])
    assert ([study.date for study in given.studies], given.notes) == ([year(2020)], ())


def test_one_scan_twice_is_refused() -> None:
    with pytest.raises(AnatomicalEmbeddingError, match="file1: is the same scan as another one"):
        seen((), content("ct", 1), content("other", 1))


def test_a_dicom_series_is_known_under_another_key() -> None:
    known = Study("scene", "CT thorax", year(2024), "1.2", "1.2.3")
    assert seen([known], Study("1.2.3", "thorax", None, "1.2", "1.2.3")).studies == (known,)


class TestRecordsThatKnowScansByName:
    def test_by_date(self) -> None:
        found = seen(BY_NAME, content("ct", 1, year(2024)), content("ct", 2, year(2025)))
        assert found.studies == (BY_NAME[1], content("ct_3", 2, year(2025)))
        assert found.notes == (
            "file0: is taken for ct_2 (2024-01-01) of the record, by its name.",
            "file1: differs from the scans of this name in the record; it becomes ct_3 (2025-01-01).",
        )

    @pytest.mark.parametrize("given", [("ct",), ("ct", "ct"), ("CT", "ct")])
    def test_not_where_it_may_be_several(self, given: tuple[str, ...]) -> None:
        with pytest.raises(AnatomicalEmbeddingError, match=r"may be ct \(2023-01-01\) or ct_2 .* by date"):
            seen(BY_NAME, *(content(name, n) for n, name in enumerate(given)))

    def test_not_where_several_may_be_it(self) -> None:
        with pytest.raises(AnatomicalEmbeddingError, match=r"file0: may be ct .* so may another of the scans"):
            seen(BY_NAME[:1], content("ct", 1), content("ct", 2))

    def test_names_that_no_other_has(self) -> None:
        known = (
            Study("a" * 32, "before"),
            Study("b" * 32, "after", year(2024)),
            Study("s", "ct", None, "1.2", "1.2.3"),
        )
        found = seen(known, content("after", 1), content("before", 2, year(2023)), content("ct", 3))
        assert found.studies == (known[1], replace(known[0], date=year(2023)), content("ct_2", 3))

    def test_a_file_that_is_really_called_so(self) -> None:
        undated = [replace(each, date=None) for each in BY_NAME]
        assert seen(undated, content("ct", 1), content("ct_2", 2)).studies == tuple(undated)


class TestOrder:
    PRIOR, CURRENT, UNDATED = Study("p", "p", year(2024)), Study("c", "c", year(2023)), Study("u", "u")

    @staticmethod
    def keys(order: InOrder) -> str:
        return "".join(study.key for study in order.studies)

    def test_by_date_where_all_have_one(self) -> None:
        assert in_order((), (self.PRIOR, self.CURRENT)) == InOrder((self.CURRENT, self.PRIOR), ())

    def test_one_without_a_date_stays_behind_the_one_before_it(self) -> None:
        order = in_order((), (self.PRIOR, self.UNDATED, self.CURRENT))
        assert self.keys(order) == "cpu"
        (note,) = order.notes
        assert note.startswith("u: has no date, so it comes after p (2024-01-01), as listed")

    def test_the_first_without_a_date_stays_first(self) -> None:
        order = in_order((), (self.UNDATED, self.PRIOR, self.CURRENT))
        assert self.keys(order) == "ucp"
        assert order.notes[0].startswith("u: has no date, so it comes first")

    def test_those_of_the_record_keep_their_order(self) -> None:
        new = Study("n", "n", year(2025))
        order = in_order((self.CURRENT, self.UNDATED, self.PRIOR), (self.UNDATED, new))
        assert self.keys(order) == "cupn"

    def test_without_any_date_the_order_is_that_given(self) -> None:
        order = in_order((), (self.UNDATED, Study("v", "v")))
        assert (self.keys(order), len(order.notes)) == ("uv", 1)
