"""Test the commands find and name: the files that they write, and what they refuse."""

import csv
import json

import pytest
from cli_runs import assert_refused

pytestmark = pytest.mark.usefixtures("kept_maps")


def rows_of(folder):
    with (folder / "places.csv").open(newline="", encoding="utf-8") as file:
        assert file.readline() == "words,scan,place,status,probability,r,a,s,remark\n".replace(
            "\n", "\r\n"
        )
        file.seek(0)
        return list(csv.DictReader(file))


def test_words_in_two_scans(anatemb, place, tmp_path):
    words = "liver and left kidney"
    outcome = anatemb("find", words, place.template, place.target, "-o", tmp_path, *place.model)
    assert outcome.code == 0
    rows = rows_of(tmp_path)
    assert [(row["words"], row["scan"], row["place"]) for row in rows] == [
        (words, str(scan), name)
        for scan in (place.template, place.target)
        for name in ("liver", "kidney_left")
    ]
    for row in rows:
        assert row["status"] in ("inside", "partly", "uncertain", "outside")
        assert 0 <= float(row["probability"]) <= 1
        assert (row["r"] == "") == (row["status"] == "outside")
    for scan in (place.template, place.target):
        name = scan.name.removesuffix(".nii.gz")
        assert "<html" in (tmp_path / f"{name}.places.html").read_text(encoding="utf-8")
        assert (tmp_path / f"{name}.places.mrk.json").exists()


def test_a_scan_whose_results_cannot_be_written_is_skipped(anatemb, place, tmp_path):
    (tmp_path / "template.places.mrk.json").mkdir()
    outcome = anatemb("find", "liver", place.template, place.target, "-o", tmp_path, *place.model)
    assert (outcome.code, outcome.out.count("template.places")) == (2, 0)
    assert {row["scan"] for row in rows_of(tmp_path)} == {str(place.target)}


def test_each_part_of_the_words_gives_a_row(anatemb, place, tmp_path):
    words = "linke Niere; Liver; SMA origin"
    outcome = anatemb("find", words, place.target, "-o", tmp_path, "--json", *place.model)
    assert outcome.code == 0
    rows = rows_of(tmp_path)
    assert [row["place"] for row in rows] == ["liver", "superior_mesenteric_artery", ""]
    assert (rows[2]["words"], rows[2]["status"]) == ("linke Niere", "not understood")
    assert "names no place that is known" in rows[2]["remark"]
    assert rows[1]["remark"] == "not taken into account: origin"
    missed = json.loads(outcome.out)["places"][2]
    assert (missed["words"], missed["place"], missed["r"]) == ("linke Niere", None, None)
    assert "names no place that is known" in (tmp_path / "target.places.html").read_text(
        encoding="utf-8"
    )


def test_a_report_is_read_sentence_by_sentence(anatemb, place, tmp_path):
    (tmp_path / "report.txt").write_text(
        "The liver is normal. No mass in the spleen.\nNothing else.", encoding="utf-8"
    )
    outcome = anatemb(
        "find",
        "--report",
        tmp_path / "report.txt",
        place.target,
        "-o",
        tmp_path,
        "--no-report",
        "--json",
        *place.model,
    )
    found = json.loads(outcome.out)["places"]
    assert [(row["words"], row["place"], row["negated"]) for row in found] == [
        ("The liver is normal.", "liver", False),
        ("No mass in the spleen.", "spleen", True),
    ]
    assert [row["place"] for row in rows_of(tmp_path)] == ["liver", "spleen"]


def test_words_without_a_place_are_refused(anatemb, place, tmp_path):
    assert_refused(
        anatemb("find", "qwerty", place.target, "-o", tmp_path, *place.model), "names no place"
    )
    assert_refused(anatemb("find", "liver", "-o", tmp_path, *place.model), "no scan")
    missing = anatemb(
        "find", "--report", tmp_path / "none.txt", place.target, "-o", tmp_path, *place.model
    )
    assert_refused(missing, "none.txt", "no such file")


def test_the_name_of_a_point(anatemb, place):
    r, a, s = place.points_ras[0]
    outcome = anatemb("name", place.template, "--point", f"{r},{a},{s}", "--json", *place.model)
    assert outcome.code == 0
    assert all({"name", "title", "probability"} == set(row) for row in json.loads(outcome.out))
    assert_refused(
        anatemb("name", place.template, "--point", "1,2", *place.model), "give 3 numbers"
    )
    assert_refused(anatemb("name", place.template, "--point", "9999,0,0", *place.model), "outside")
