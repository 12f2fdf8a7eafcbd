"""Test the command `anatemb match`: the files that it writes, what it prints, and what it refuses."""

import json

import numpy as np
import pytest
from cli_runs import assert_refused, rows_of

from AnatomicalEmbedding.landmarks.drawing import Drawing, read_drawing, write_drawing
from AnatomicalEmbedding.landmarks.markups import Markup
from AnatomicalEmbedding.scan.points import PointList, read_points, write_markups

pytestmark = pytest.mark.usefixtures("kept_maps")


COLUMNS = [
    "label",
    "target",
    "r",
    "a",
    "s",
    "status",
    "expected_error_mm",
    "probability",
    "score",
    "levels",
    "found_by",
]


class TestMatch:
    def test_writes_markups_table_and_report(self, anatemb, place, expected, tmp_path):
        out = tmp_path / "deeper" / "out"
        outcome = anatemb(
            "match", place.template, place.points, place.target, "-o", out, *place.model
        )
        assert (outcome.code, outcome.err) == (0, "")
        assert sorted(path.name for path in out.iterdir()) == [
            "matches.csv",
            "report.html",
            "target.mrk.json",
        ]
        found = read_points(out / "target.mrk.json")
        assert found.labels == place.labels
        np.testing.assert_allclose(found.points_ras, expected, atol=0.01)
        for name in ("matches.csv", "report.html", "target.mrk.json"):
            assert str(out / name) in outcome.out

    def test_points_on_the_command_line_csv_and_markups_say_the_same(
        self, anatemb, place, expected, tmp_path
    ):
        points = place.points_ras.tolist()
        lines = [
            f"{label},{r},{a},{s}" for label, (r, a, s) in zip(place.labels, points, strict=True)
        ]
        (tmp_path / "points.csv").write_text("\n".join(["label,r,a,s", *lines]))
        anatemb(
            "match",
            place.template,
            tmp_path / "points.csv",
            place.target,
            "-o",
            tmp_path / "a",
            *place.model,
        )
        flags = [word for point in points for word in ("--point", ",".join(map(str, point)))]
        # not to be taken for options
        assert any(flag.startswith("-") and flag != "--point" for flag in flags)
        anatemb("match", place.template, *flags, place.target, "-o", tmp_path / "b", *place.model)
        for folder, labels in (("a", place.labels), ("b", ("P-1", "P-2", "P-3", "P-4"))):
            found = read_points(tmp_path / folder / "target.mrk.json")
            assert found.labels == labels
            np.testing.assert_allclose(found.points_ras, expected, atol=0.01)

    def test_json_alone_is_on_stdout(self, anatemb, place, expected, tmp_path):
        outcome = anatemb(
            "match",
            place.template,
            place.points,
            place.target,
            "-o",
            tmp_path,
            "--json",
            *place.model,
        )
        answer = json.loads(outcome.out)
        assert list(answer) == ["matches", "files", "skipped"]
        assert [list(row) for row in answer["matches"]] == [COLUMNS] * len(place.labels)
        np.testing.assert_allclose(
            [[row[c] for c in "ras"] for row in answer["matches"]], expected, atol=0.01
        )
        assert {row["status"] for row in answer["matches"]} == {None}
        assert sorted(answer["files"]) == sorted(str(path) for path in tmp_path.iterdir())
        assert (answer["skipped"], outcome.err) == ([], "")


class TestRefused:
    def test_a_point_outside_the_template_is_named(self, anatemb, place, tmp_path):
        given = tmp_path / "p.mrk.json"
        out = tmp_path / "out"
        write_markups(
            given, PointList(("inside", "far away"), [place.points_ras[0], (900, -12.3, 4)])
        )
        outcome = anatemb("match", place.template, given, place.target, "-o", out, *place.model)
        assert_refused(outcome, place.template, "'far away'", "(900.0, -12.3, 4.0)")
        assert not out.exists()

    def test_lines_and_angles_of_the_template_appear_in_the_target(
        self, anatemb, place, expected, tmp_path
    ):
        given, out = tmp_path / "drawn.mrk.json", tmp_path / "out"
        labels = ("axis: 1", "axis: 2", *place.labels[2:])
        line = Markup("Line", "axis", labels[:2])
        drawing = Drawing(PointList(labels, place.points_ras), (line,))
        write_drawing(given, "drawn", drawing, [False] * len(labels))
        words = ("match", place.template, given, place.target, "-o", out, *place.model)
        assert anatemb(*words, "--no-report").code == 0
        answers = read_drawing([out / "target.mrk.json"], "target")
        assert answers.markups == (
            Markup("Line", "drawn.axis", ("drawn.axis: 1", "drawn.axis: 2")),
        )
        places = dict(zip(answers.points.labels, answers.points.points_ras, strict=True))
        line_ras = [places[label] for label in answers.markups[0].labels]
        np.testing.assert_allclose(line_ras, expected[:2], atol=0.01)
        assert {row["label"] for row in rows_of(out / "matches.csv")} == set(places)

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
    def test_a_missing_model_or_device_is_named(self, anatemb, place, tmp_path, options, says):
        out = tmp_path / "out"
        words = ("match", place.template, place.points, place.target, "-o", out, *place.model)
        assert_refused(anatemb(*words, *options), says)
        assert not out.exists()
