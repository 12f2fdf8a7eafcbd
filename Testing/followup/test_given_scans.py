"""Test scans of a command: each becomes a study of the record, or a new study with a name of its own."""

from datetime import date

import pytest

from AnatomicalEmbedding.errors import AnatomicalEmbeddingError
from AnatomicalEmbedding.followup.lesions import Study
from AnatomicalEmbedding.followup.study_inputs import in_order, recognize


def content(name: str, number: int, day: date | None = None) -> Study:
    """A file as a command knows it."""
    return Study(f"{number:040x}", name, day)


def year(number: int) -> date:
    return date(number, 1, 1)


def given(known, *scans: tuple[str, Study]) -> tuple[list[Study], list[str]]:
    """Recognise files, each with its path."""
    return recognize(known, [scan for _, scan in scans], [path for path, _ in scans])


BY_NAME = (Study("a", "ct", year(2023)), Study("b", "ct", year(2024)))  # as records were once


def test_two_files_of_one_name_are_called_by_their_folders() -> None:
    studies, notes = given(
        (), ("2023/ct.nii.gz", content("ct", 1)), ("2024/ct.nii.gz", content("ct", 2))
    )
    assert [study.name for study in studies] == ["2023_ct", "2024_ct"]
    assert notes == []


def test_a_file_is_known_by_its_content_whatever_its_name() -> None:
    known = (content("ct", 1, year(2023)), content("ct_2", 2))
    studies, _ = given(
        known, ("ct.nii", content("ct", 2)), ("new/ct.nii.gz", content("ct", 3, year(2025)))
    )
    assert studies[0] == known[1]
    assert studies[1].key == content("ct", 3).key
    assert studies[1].name not in {"ct", "ct_2"}


def test_a_name_that_the_record_has_gets_a_number() -> None:
    studies, notes = given((content("ct", 1),), ("new/ct.nii.gz", content("ct", 2)))
    assert studies == [content("ct_2", 2)]
    assert notes == [
        "new/ct.nii.gz: is not the scan ct of the record, so the file's study is called ct_2."
    ]


def test_a_date_of_the_record_stays_unless_a_person_gives_another_now() -> None:
    known = (content("ct", 1, year(2024)),)
    by_header = content("ct", 1, year(1900))
    studies, notes = given(known, ("ct.nii", by_header))
    assert tuple(studies) == known
    assert (
        "has the date 1900-01-01 in its header and 2024-01-01 in the record; the date in the record is used"
        in notes[0]
    )
    studies, notes = recognize(known, [content("ct", 1, year(2020))], ["ct.nii"], by_hand=True)
    assert ([study.date for study in studies], notes) == ([year(2020)], [])


def test_one_scan_twice_is_refused() -> None:
    with pytest.raises(AnatomicalEmbeddingError, match=r"b\.nii: was given twice"):
        given((), ("a.nii", content("ct", 1)), ("b.nii", content("other", 1)))


def test_a_dicom_series_is_known_under_another_key() -> None:
    known = Study("scene", "CT thorax", year(2024), "1.2", "1.2.3")
    assert given([known], ("dicom", Study("1.2.3", "thorax", None, "1.2", "1.2.3")))[0] == [known]


def test_a_record_that_knows_scans_by_name_needs_a_date_where_names_are_alike() -> None:
    studies, notes = given(BY_NAME, ("ct.nii", content("ct", 1, year(2024))))
    assert studies == [BY_NAME[1]]
    assert notes == [
        "ct.nii: has the same name as ct (2024-01-01) of the record, and is used as this study."
    ]
    with pytest.raises(
        AnatomicalEmbeddingError,
        match=r"may be the study ct \(2023-01-01\) or ct \(2024-01-01\) .* give the dates",
    ):
        given(BY_NAME, ("ct.nii", content("ct", 1)))
    with pytest.raises(AnatomicalEmbeddingError, match=r"a/ct\.nii: may be the study ct "):
        given(BY_NAME[:1], ("a/ct.nii", content("ct", 1)), ("b/ct.nii", content("ct", 2)))


def test_the_order_is_by_date_and_a_study_without_one_stays_behind_its_predecessor() -> None:
    prior = Study("p", "p", year(2024))
    current = Study("c", "c", year(2023))
    undated = Study("u", "u")
    new = Study("n", "n", year(2025))
    for known, others, keys, note in (
        ((), (prior, current), "cp", ""),
        (
            (),
            (prior, undated, current),
            "cpu",
            "u: no date is known, so the order of the files is used",
        ),
        ((), (undated, prior, current), "ucp", "u: no date is known"),
        ((current, undated, prior), (undated, new), "cupn", "u: no date is known"),
        ((), (undated, Study("v", "v")), "uv", "u, v: no date is known"),
    ):
        studies, notes = in_order(known, others)
        assert "".join(study.key for study in studies) == keys
        assert "".join(notes).startswith(note)
