"""Test the export of all files: if a file cannot be written, the reason is reported and the others are written."""

import csv

import pytest
from dicom_series import write_ct_series

from AnatomicalEmbedding.dicom.sr import read_any_points
from AnatomicalEmbedding.errors import AnatomicalEmbeddingError
from AnatomicalEmbedding.followup.export import export
from AnatomicalEmbedding.followup.record_file import read_record

for needed in ("PIL", "jinja2", "highdicom"):
    pytest.importorskip(needed)


def test_all_of_it(record, volumes, tmp_path):
    for key, volume in volumes.items():
        write_ct_series(tmp_path / "ct" / key, volume)
    written, notes = export(
        record,
        tmp_path / "out",
        volumes,
        {key: tmp_path / "ct" / key for key in volumes},
        name="case 7",
    )
    assert [path.name for path in written] == [
        "case 7.csv", "case 7.html", "case 7.followup.json", "case 7-2024-01-15.sr.dcm", "case 7-2024-04-02.sr.dcm",
    ]  # fmt: skip
    assert sorted(written) == sorted((tmp_path / "out").iterdir())
    assert notes == ["L4: was not reviewed in 2024-04-02, so it is not in the report."]
    table, page, kept, report, _ = written
    assert len(list(csv.reader(table.open(encoding="utf-8-sig", newline="")))) == 1 + 6 * 2 + 1
    # L1, L2 and L4 have a place after
    assert page.read_text(encoding="utf-8").count("data:image/jpeg") == 6 + 3
    assert read_record(kept) == record
    assert len(read_any_points(report).labels) == 6


@pytest.mark.parametrize(
    ("kinds", "said"),
    [
        (["sr"], "no DICOM slices"),
        ([], "no kind of file was chosen"),
    ],
)
def test_when_nothing_can_be_written_it_is_an_error(record, tmp_path, kinds, said):
    with pytest.raises(AnatomicalEmbeddingError, match=said):
        export(record, tmp_path, kinds=kinds)
    assert not list(tmp_path.iterdir())
