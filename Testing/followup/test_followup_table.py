"""Test the table: it contains the confirmed values, and rows with unconfirmed entries have a flag."""

import csv
import io
import subprocess
import sys

import pytest
from hypothesis import given
from record_steps import records

from AnatomicalEmbedding.followup.lesions import PROPOSED, Finding, Guess, Measurement
from AnatomicalEmbedding.followup.record import FollowUp
from AnatomicalEmbedding.followup.table import COLUMNS, SUM_LABEL, rows, write_csv

LONG, SHORT = ((0, 0, 0), (20, 0, 0)), ((0, 0, 0), (0, 12, 0))
GUESS = Guess("matched", "a", 4.25, 0.912)


def read(path) -> tuple[list[dict[str, str]], list[dict[str, str]]]:
    """Rows of lesions and of sums, as a spreadsheet takes them."""
    text = path.read_bytes().decode("utf-8")
    assert text[0] == "\ufeff"
    table = list(csv.DictReader(io.StringIO(text[1:], newline=""), strict=True))
    assert all(set(row) == set(COLUMNS) for row in table)
    return [r for r in table if r["lesion"] != SUM_LABEL], [
        r for r in table if r["lesion"] == SUM_LABEL
    ]


@pytest.fixture
def measured(empty: FollowUp) -> FollowUp:
    record = empty.mark("a", (-10.5, 20.25, -30)).measure("L1", "a", LONG, SHORT)
    return record.propose(
        "b", {"L1": Finding(PROPOSED, (1, 2, 3), GUESS, Measurement(LONG, SHORT))}
    )


def test_a_proposal_is_flagged_and_its_carried_sizes_are_not_in_the_table(measured, tmp_path):
    write_csv(tmp_path / "t.csv", measured)
    second = read(tmp_path / "t.csv")[0][1]
    assert (second["flags"], second["reviewed"], second["status"]) == (
        "UNCONFIRMED",
        "no",
        "proposed",
    )
    assert [second[c] for c in ("long_axis_mm", "short_axis_mm")] == ["", ""]
    assert (second["expected_error_mm"], second["probability_within_10_mm"]) == ("4.2", "0.912")


@given(records())
def test_nothing_unconfirmed_is_in_the_table_without_a_flag(record):
    table = rows(record)
    assert len(table) == len(record.lesions) * len(record.studies)
    for row in table:
        if row.finding is None or row.finding.state == PROPOSED:
            assert row.flags
        if row.size != Measurement():
            assert row.finding.reviewed
            assert row.finding.size.confirmed
            assert row.flags == ()


# spreadsheets drop what is before
UNSEEN = ("\u200b=1+1", "\ufeff=1+1", "\x00=1+1", " \u2060\x01 @SUM(A1)", "\u200e-1")


@pytest.mark.parametrize(
    "name", ["=1+1", "+1", "-1+2", "@SUM(A1)", " =1", "\t=1", "＝1", "\n=1", *UNSEEN]
)
def test_formulas_are_disarmed(empty, tmp_path, name):
    record = empty.mark("a", (-1, -2, -3)).describe("L1", name=name, site=name)
    write_csv(tmp_path / "t.csv", record)
    first = read(tmp_path / "t.csv")[0][0]
    assert first["name"] == first["site"] == f"'{name}"
    assert float(first["R_mm"]) == -1  # a number below zero stays one


@pytest.mark.parametrize("module", ["table", "report_page", "dicom_sr", "export"])
def test_reporting_loads_nothing_that_a_plain_program_need_not_have(module):
    code = (
        f"import sys, AnatomicalEmbedding.followup.{module};"
        "print([name for name in ('torch', 'highdicom', 'pydicom', 'jinja2', 'PIL') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
