"""Test taking a record of an earlier session over into a follow-up without lesions."""

from dataclasses import replace
from datetime import date

import pytest
from hypothesis import given
from record_steps import STUDIES, records

from AnatomicalEmbedding.errors import AnatomicalEmbeddingError
from AnatomicalEmbedding.followup.importing import adopt_record
from AnatomicalEmbedding.followup.lesions import Study
from AnatomicalEmbedding.followup.record import FollowUp
from AnatomicalEmbedding.followup.study_inputs import same_studies


@given(records())
def test_every_lesion_is_taken_over_with_its_studies_here(earlier) -> None:
    assert adopt_record(FollowUp(), earlier) == earlier
    here = FollowUp().with_studies([replace(study, key=f"here {study.key}") for study in STUDIES])
    back = adopt_record(here, earlier)
    assert back.studies == here.studies
    for lesion, written in zip(back.lesions, earlier.lesions, strict=True):
        assert replace(lesion, findings={}) == replace(written, findings={})
        assert list(lesion.findings) == [f"here {key}" for key in written.findings]
        for finding, before in zip(
            lesion.findings.values(), written.findings.values(), strict=True
        ):
            assert replace(finding, guess=None) == replace(before, guess=None)
            if before.guess is not None:
                source = before.guess.source  # a study that is in neither record keeps its key
                is_shared = source in {study.key for study in earlier.studies}
                assert finding.guess == replace(
                    before.guess, source=f"here {source}" if is_shared else source
                )


def test_no_lesion_here_is_lost(empty: FollowUp) -> None:
    marked = empty.mark("a", (1, 1, 1))
    with pytest.raises(
        AnatomicalEmbeddingError, match="already has lesions; import the record before you mark"
    ):
        adopt_record(marked, marked)


HERE = (
    Study("k1", "prior"),
    Study("k2", "renamed", series_uid="1.2"),
    Study("k3", "else", date(2024, 5, 1)),
)
THERE = Study("x", "prior", date(2024, 1, 1))


@pytest.mark.parametrize(
    ("here", "there", "same"),
    [
        (HERE, (THERE, Study("y", "now", series_uid="1.2")), {"x": "k1", "y": "k2"}),
        (HERE, (Study("k3", "prior"), Study("y", "no name", series_uid="9.9")), {"k3": "k3"}),
        ((*HERE, Study("k4", "prior")), (THERE,), {}),
        ((*HERE, Study("k4", "prior", date(2024, 1, 2))), (THERE,), {"x": "k1"}),
        (HERE, (THERE, Study("y", "prior")), {}),
        (HERE, (Study("x", "else", date(2024, 6, 1)),), {}),
        ((replace(HERE[0], study_uid="2.1"),), (replace(THERE, study_uid="2.2"),), {}),
        ((Study("x", "scan_1"),), (Study("y", "scan_2"),), {}),
        ((Study("x", "xs"),), (Study("y", "yt"),), {}),
    ],
    ids=[
        "by name and by series", "by key before name", "two here of a name", "the date tells two apart",
        "two there of a name", "another day", "another DICOM study", "a number that belongs to the name", "other names",
    ],
)  # fmt: skip
def test_studies_are_the_same_by_key_or_series_or_by_a_name_without_doubt(
    here, there, same
) -> None:
    assert same_studies(here, there) == same
