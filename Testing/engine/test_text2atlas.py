"""Test the text network: its organs, sentences, training that is stopped and continued, and the command."""

import json

import numpy as np
import pytest
from cli_runs import Outcome, assert_refused

from AnatomicalEmbedding.papers.text2atlas.__main__ import main
from AnatomicalEmbedding.papers.text2atlas.organs import Organs
from AnatomicalEmbedding.papers.text2atlas.run import FILE, TextRecipe
from AnatomicalEmbedding.words import load_terms

QUICK = TextRecipe(steps=4, batch=8)


def cube(x: float) -> np.ndarray:
    """Centres of 27 cells of 6 mm about (x, 0, 0)."""
    return np.stack(np.meshgrid(*[6.0 * np.arange(-1, 2)] * 3, indexing="ij"), axis=-1).reshape(
        -1, 3
    ) + [x, 0, 0]


@pytest.fixture(scope="module")
def organs() -> Organs:
    return Organs(("one", "two"), (cube(0), cube(100)), np.array([[0.0, 0, 0], [100, 0, 0]]))


class TestOrgans:
    @pytest.mark.parametrize(
        ("point", "names", "mm"),
        [
            ((0, 0, 0), ["one"], 0),
            ((19, 0, 0), ["one"], 10),
            ((91, 0, 0), ["one", "two"], 0),
        ],
    )
    def test_distance_is_that_to_the_nearest_cell(self, organs, point, names, mm):
        assert organs.distance(np.array(point, dtype=float), names) == pytest.approx(mm)


@pytest.fixture
def text2atlas(capsys):
    """Run a command of the paper's folder in this process."""

    def run(*words: object) -> Outcome:
        capsys.readouterr()
        code = main([str(word) for word in words])
        return Outcome(code, *capsys.readouterr())

    return run


class TestCommand:
    def test_trains_and_answers(self, text2atlas, tmp_path):
        (tmp_path / "report.txt").write_text(
            "Cyst in the left kidney.\nNothing else.\nNormal spleen.\n"
        )
        run = tmp_path / "run"
        words = ("train", "-o", run, "--steps", 2, "--reports", tmp_path / "report.txt", "--json")
        outcome = text2atlas(*words)
        assert outcome.code == 0
        assert json.loads(outcome.out) == {"model": str(run / FILE), "steps": 2, "sentences": 2}
        answer = json.loads(
            text2atlas("place", "liver", "a very long word", "--model", run, "--json").out
        )
        assert [row["text"] for row in answer] == ["liver", "a very long word"]
        assert all(row["place"] in load_terms().by_name for row in answer)
        assert "liver" in text2atlas("place", "liver", "--model", run).out
        assert_refused(text2atlas("train", "-o", run, "--steps", 3), run, "another recipe")

    @pytest.mark.parametrize(
        ("text", "says"),
        [
            ("Cyst of the liver. " * 2000, "at most 30,000"),
        ],
    )
    def test_reports_that_teach_nothing_are_refused_by_name(self, text, says, text2atlas, tmp_path):
        (tmp_path / "report.txt").write_text(text)
        outcome = text2atlas("train", "-o", tmp_path / "run", "--reports", tmp_path / "report.txt")
        assert_refused(outcome, "report.txt: ", says)
        assert not (tmp_path / "run").exists()
