"""`anatemb match` as a user would call it: what it writes, what it prints, and how it refuses."""

from __future__ import annotations

import csv
import gzip
import json
import re
from pathlib import Path

import numpy as np
import pytest
from bad_files import SAYS
from cli_runs import assert_refused
from scan_files import stack_positions, write_linear_series
from small_models import small_network

from AnatomicalEmbedding.cli import main
from AnatomicalEmbedding.embedding.inference import load_model
from AnatomicalEmbedding.embedding.models.registry import write_weights
from AnatomicalEmbedding.matching.match import match
from AnatomicalEmbedding.scan.points import PointList, read_points, write_markups
from AnatomicalEmbedding.scan.volume import Volume

COLUMNS = ["label", "target", "r", "a", "s", "status", "expected_error_mm", "probability", "score", "levels"]
pytestmark = pytest.mark.usefixtures("kept_maps")


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


class TestMatch:
    def test_a_header_without_orientation_is_reported(self, anatemb, place, tmp_path):
        image = bytearray(gzip.decompress(place.target.read_bytes()))
        image[252:256] = bytes(4)  # qform_code and sform_code
        (tmp_path / "nowhere.nii.gz").write_bytes(gzip.compress(bytes(image)))
        words = ("match", place.template, place.points, tmp_path / "nowhere.nii.gz", "-o", tmp_path / "out")
        outcome = anatemb(*words, "--no-report", *place.model)
        assert outcome.code == 0
        assert "nowhere.nii.gz: the header gives no position or orientation" in outcome.err

    def test_writes_markups_table_and_report(self, anatemb, place, expected, tmp_path):
        out = tmp_path / "deeper" / "out"
        outcome = anatemb("match", place.template, place.points, place.target, "-o", out, *place.model)
        assert (outcome.code, outcome.err) == (0, "")
        assert sorted(path.name for path in out.iterdir()) == ["matches.csv", "report.html", "target.mrk.json"]
        found = read_points(out / "target.mrk.json")
        assert found.labels == place.labels
        np.testing.assert_allclose(found.points_ras, expected, atol=0.01)
        for name in ("matches.csv", "report.html", "target.mrk.json"):
            assert str(out / name) in outcome.out

    def test_the_table_has_exactly_the_promised_columns(self, anatemb, place, expected, tmp_path):
        anatemb("match", place.template, place.points, place.target, "-o", tmp_path, "--no-report", *place.model)
        rows = rows_of(tmp_path / "matches.csv")
        assert (tmp_path / "matches.csv").read_text().splitlines()[0] == ",".join(COLUMNS)
        assert [row["label"] for row in rows] == list(place.labels)
        np.testing.assert_allclose([[float(row[c]) for c in "ras"] for row in rows], expected, atol=0.01)
        assert all(0 <= float(row["score"]) <= 1 for row in rows)
        assert {row[c] for row in rows for c in ("status", "expected_error_mm", "probability")} == {""}
        assert not (tmp_path / "report.html").exists()

    @pytest.mark.parametrize("spelled", ["./target.nii.gz", "..//{name}/target.nii.gz", "target.nii.gz"])
    def test_the_target_is_named_as_it_was_given(self, anatemb, place, tmp_path, monkeypatch, spelled):
        monkeypatch.chdir(place.folder)
        given = spelled.format(name=place.folder.name)
        anatemb("match", place.template, place.points, given, "-o", tmp_path, "--no-report", *place.model)
        assert {row["target"] for row in rows_of(tmp_path / "matches.csv")} == {given}

    def test_points_on_the_command_line_csv_and_markups_say_the_same(self, anatemb, place, expected, tmp_path):
        points = place.points_ras.tolist()
        lines = [f"{label},{r},{a},{s}" for label, (r, a, s) in zip(place.labels, points, strict=True)]
        (tmp_path / "points.csv").write_text("\n".join(["label,r,a,s", *lines]))
        anatemb("match", place.template, tmp_path / "points.csv", place.target, "-o", tmp_path / "a", *place.model)
        flags = [word for point in points for word in ("--point", ",".join(map(str, point)))]
        assert any(flag.startswith("-") and flag != "--point" for flag in flags)  # not to be taken for options
        anatemb("match", place.template, *flags, place.target, "-o", tmp_path / "b", *place.model)
        for folder, labels in (("a", place.labels), ("b", ("P-1", "P-2", "P-3", "P-4"))):
            found = read_points(tmp_path / folder / "target.mrk.json")
            assert found.labels == labels
            np.testing.assert_allclose(found.points_ras, expected, atol=0.01)

    def test_fast_answers_are_those_of_the_python_interface(self, anatemb, place, tmp_path):
        weights = tmp_path / "described.safetensors"
        write_weights(
            small_network(local_channels=8, spacing_mm=(3.0, 3.0, 4.0)), weights, "described", {"recipe": "none"}
        )
        model = load_model(str(weights), "cpu")
        template, target = (model.embed(Volume.read(path)) for path in (place.template, place.target))
        found = {}
        for options in ([], ["--fast"]):
            words = ("match", place.template, place.points, place.target, "-o", tmp_path / "out", "--no-report")
            anatemb(*words, "--model", weights, *options)
            answers = read_points(tmp_path / "out" / "target.mrk.json").points_ras
            expected = match(template, place.points_ras, target, effort="fast" if options else "standard").points_ras
            np.testing.assert_allclose(answers, expected, atol=1e-3)
            found[bool(options)] = answers
        assert not np.allclose(found[True], found[False], atol=0.1)

    def test_json_is_all_there_is_on_stdout(self, anatemb, place, expected, tmp_path):
        outcome = anatemb("match", place.template, place.points, place.target, "-o", tmp_path, "--json", *place.model)
        answer = json.loads(outcome.out)
        assert list(answer) == ["matches", "files", "skipped"]
        assert [list(row) for row in answer["matches"]] == [COLUMNS] * len(place.labels)
        np.testing.assert_allclose([[row[c] for c in "ras"] for row in answer["matches"]], expected, atol=0.01)
        assert {row["status"] for row in answer["matches"]} == {None}
        assert sorted(answer["files"]) == sorted(str(path) for path in tmp_path.iterdir())
        assert (answer["skipped"], outcome.err) == ([], "")

    def test_the_report_holds_all_it_shows(self, anatemb, place, tmp_path):
        anatemb("match", place.template, place.points, place.target, "-o", tmp_path, *place.model)
        page = (tmp_path / "report.html").read_text()
        references = re.findall(r"""(?:src|href|url)\s*[=(]\s*["']?([^"')\s>]+)""", page)
        assert len([r for r in references if r.startswith("data:image/")]) == len(place.labels) * 2 * 3
        assert all(reference.startswith(("data:", "#")) for reference in references)
        assert not re.search(r"https?://|<script|<link|@import", page)
        for shown in (*place.labels, "template", "target", "small"):
            assert shown in page

    def test_targets_of_one_name_do_not_overwrite_each_other(self, anatemb, place, tmp_path):
        (tmp_path / "other").mkdir()
        twin = tmp_path / "other" / "TARGET.nii.gz"  # one file on a disk that ignores case
        twin.write_bytes(place.template.read_bytes())
        out = tmp_path / "out"
        anatemb("match", place.template, place.points, place.target, twin, "-o", out, "--no-report", *place.model)
        names = (f"{place.folder.name}_target.mrk.json", f"{tmp_path.name}_TARGET.mrk.json")
        first, second = (read_points(out / name).points_ras for name in names)
        assert np.abs(first - second).max() > 1
        rows = rows_of(out / "matches.csv")
        assert [row["target"] for row in rows] == [str(place.target)] * 4 + [str(twin)] * 4
        np.testing.assert_allclose([[float(row[c]) for c in "ras"] for row in rows[4:]], second, atol=0.01)

    def test_names_keep_their_dots_and_links_their_own_name(self, anatemb, place, tmp_path):
        dotted, link = tmp_path / "follow.up.2.nii.gz", tmp_path / "link.nii.gz"
        dotted.write_bytes(place.target.read_bytes())
        link.symlink_to(place.target)
        out = tmp_path / "out"
        anatemb("match", place.template, place.points, dotted, link, "-o", out, "--no-report", *place.model)
        assert sorted(p.name for p in out.iterdir()) == ["follow.up.2.mrk.json", "link.mrk.json", "matches.csv"]

    def test_a_dicom_folder_is_a_scan(self, anatemb, place, tmp_path):
        write_linear_series(tmp_path / "1.2.840", stack_positions((-40, -40, 0), (0, 0, 3.5), range(24)))
        outcome = anatemb(
            "match", place.template, place.points, f"{tmp_path / '1.2.840'}/", "-o", tmp_path / "out", *place.model
        )
        assert outcome.code == 0
        assert (tmp_path / "out" / "1.2.840.mrk.json").is_file()

    def test_several_series_are_listed_to_choose_from(self, anatemb, place, tmp_path):
        positions = stack_positions((-40, -40, 0), (0, 0, 3.5), range(24))
        for uid in ("1.2.3.111", "1.2.3.222"):
            write_linear_series(tmp_path / "study", positions, SeriesInstanceUID=uid)
        outcome = anatemb("match", tmp_path / "study", place.points, place.target, "-o", tmp_path / "o", *place.model)
        assert_refused(outcome, tmp_path / "study", "1.2.3.111", "1.2.3.222")
        words = (place.template, place.points, tmp_path / "study", "-o", tmp_path / "o", "--no-report", *place.model)
        assert anatemb("match", *words).code == 0  # a target need not be chosen: it is each of them
        targets = {row["target"] for row in rows_of(tmp_path / "o" / "matches.csv")}
        assert targets == {f"{tmp_path / 'study'}#1.2.3.{n}" for n in (111, 222)}
        assert {path.name for path in (tmp_path / "o").glob("*.json")} == {"study_111.mrk.json", "study_222.mrk.json"}
        facts = json.loads(anatemb("info", tmp_path / "study", "--series", "1.2.3.222", "--json").out)
        assert facts[0]["voxels_ijk"] == [28, 26, 24]


class TestRefused:
    @pytest.mark.parametrize("kind", SAYS)
    def test_a_bad_target_is_named_and_nothing_is_written(self, anatemb, place, bad_files, tmp_path, kind):
        out = tmp_path / "out"
        words = ("match", place.template, place.points, bad_files[kind], "-o", out, *place.model)
        assert_refused(anatemb(*words), bad_files[kind])
        assert not out.exists()

    @pytest.mark.parametrize("kind", SAYS)
    def test_a_bad_template_is_named_and_nothing_is_written(self, anatemb, place, bad_files, tmp_path, kind):
        out = tmp_path / "out"
        words = ("match", bad_files[kind], place.points, place.target, "-o", out, *place.model)
        assert_refused(anatemb(*words), bad_files[kind])
        assert not out.exists()

    def test_a_bad_target_beside_a_good_one_stops_the_run(self, anatemb, place, bad_files, tmp_path):
        out = tmp_path / "out"
        bad = bad_files["truncated_gzip"]
        assert_refused(anatemb("match", place.template, place.points, place.target, bad, "-o", out, *place.model), bad)
        assert not out.exists()

    def test_unless_asked_to_keep_going(self, anatemb, place, bad_files, tmp_path):
        bad = bad_files["magnetic_resonance"]
        words = ("match", place.template, place.points, bad, place.target, "-o", tmp_path, "--keep-going", *place.model)
        outcome = anatemb(*words, "--no-report")
        assert outcome.code == 0
        assert outcome.err.count("\n") == 1
        assert outcome.err.startswith(f"anatemb: skipped: {bad}")
        assert {row["target"] for row in rows_of(tmp_path / "matches.csv")} == {str(place.target)}
        (skipped,) = json.loads(anatemb(*words, "--no-report", "--json").out)["skipped"]
        assert skipped.startswith(str(bad))

    def test_keeping_going_without_any_good_target(self, anatemb, place, bad_files, tmp_path):
        bad = [bad_files["constant"], bad_files["colour"]]
        words = ("match", place.template, place.points, *bad, "-o", tmp_path / "out", "--keep-going", "--json")
        outcome = anatemb(*words, *place.model)
        assert (outcome.code, outcome.out) == (2, "")
        assert all(str(path) in outcome.err for path in bad)
        assert not (tmp_path / "out").exists()

    def test_a_point_outside_the_template_is_named(self, anatemb, place, tmp_path):
        given, out = tmp_path / "p.mrk.json", tmp_path / "out"
        write_markups(given, PointList(("inside", "far away"), [place.points_ras[0], (900, -12.3, 4)]))
        outcome = anatemb("match", place.template, given, place.target, "-o", out, *place.model)
        assert_refused(outcome, place.template, "'far away'", "(900.0, -12.3, 4.0)")
        assert not out.exists()

    @pytest.mark.parametrize(
        ("name", "text"),
        [
            ("missing.csv", None),
            ("empty.csv", ""),
            ("columns.csv", "name,x,y,z\na,1,2,3\n"),
            ("words.csv", "label,r,a,s\na,one,2,3\n"),
            ("cut.mrk.json", '{"markups": ['),
            ("points.txt", "1 2 3"),
        ],
    )
    def test_bad_points_files_are_named(self, anatemb, place, tmp_path, name, text):
        path = tmp_path / name
        if text is not None:
            path.write_text(text)
        out = tmp_path / "out"
        assert_refused(anatemb("match", place.template, path, place.target, "-o", out, *place.model), path)
        assert not out.exists()

    @pytest.mark.parametrize("text", ["1,2", "a,b,c", "1,2,nan", ""])
    def test_a_point_that_is_none(self, anatemb, place, tmp_path, text):
        words = ("match", place.template, "--point", text, place.target, "-o", tmp_path / "out", *place.model)
        assert_refused(anatemb(*words), f"{text!r} is not a point")

    def test_points_without_a_target(self, anatemb, place, tmp_path):
        words = ("match", place.template, place.points, "-o", tmp_path / "out", *place.model)
        assert_refused(anatemb(*words), place.points, "at least one target")

    def test_an_output_folder_that_is_a_file(self, anatemb, place, tmp_path):
        (tmp_path / "file").write_text("mine")
        for out in (tmp_path / "file", tmp_path / "file" / "out"):
            words = ("match", place.template, place.points, place.target, "-o", out, *place.model)
            assert_refused(anatemb(*words), tmp_path / "file")
        assert (tmp_path / "file").read_text() == "mine"

    def test_the_points_are_not_overwritten_by_the_answer(self, anatemb, place, tmp_path):
        given = tmp_path / "target.mrk.json"
        given.write_bytes(place.points.read_bytes())
        words = ("match", place.template, given, place.target, "-o", tmp_path, *place.model)
        assert_refused(anatemb(*words), given, "would be overwritten")
        assert given.read_bytes() == place.points.read_bytes()

    @pytest.mark.parametrize(
        ("options", "says"),
        [
            (["--model", "no-such-model"], "no-such-model: no such weights"),
            (["--model", "no/such/file.safetensors"], "no/such/file.safetensors: no such file"),
            (["--device", "tpu"], "device 'tpu' is unknown"),
            (["--memory-mb", "1", "--no-cache"], "but 1 MB are allowed"),
        ],
    )
    def test_a_model_that_cannot_be_had(self, anatemb, place, tmp_path, options, says):
        out = tmp_path / "out"
        words = ("match", place.template, place.points, place.target, "-o", out, *place.model)
        assert_refused(anatemb(*words, *options), says)
        assert not out.exists()

    @pytest.mark.parametrize(
        "words", [[], ["walk"], ["match"], ["cache", "--limit-mb", "nan"], ["cache", "--limit-mb", "-1"], ["evaluate"]]
    )
    def test_what_is_no_command_shows_the_usage(self, capsys, words):
        with pytest.raises(SystemExit) as end:
            main(words)
        assert end.value.code == 2
        assert "usage: anatemb" in capsys.readouterr().err

    def test_ctrl_c_is_no_traceback(self, anatemb, monkeypatch):
        def interrupted(options: object) -> None:
            raise KeyboardInterrupt

        monkeypatch.setattr("AnatomicalEmbedding.cli.cache.run", interrupted)
        outcome = anatemb("cache")
        assert (outcome.code, outcome.out) == (130, "")
        assert outcome.err.count("\n") == 1
