"""Test the text network: its organs, sentences, training that is stopped and continued, and the command."""

import json

import numpy as np
import pytest
import torch
from cli_runs import Outcome, assert_refused
from safetensors.torch import load_file, save_file

from AnatomicalEmbedding.errors import CancelledError, WeightsError
from AnatomicalEmbedding.papers.text2atlas.__main__ import main
from AnatomicalEmbedding.papers.text2atlas.network import MASK, TextNetwork, words_of
from AnatomicalEmbedding.papers.text2atlas.organs import Organs, shipped_organs
from AnatomicalEmbedding.papers.text2atlas.run import FILE, TextRecipe, load_text, train_text
from AnatomicalEmbedding.papers.text2atlas.sentences import SentenceMaker, sentences_of
from AnatomicalEmbedding.words import load_terms, shipped_atlas

QUICK = TextRecipe(steps=4, batch=8)


def cube(x: float) -> np.ndarray:
    """Centres of 27 cells of 6 mm about (x, 0, 0)."""
    return np.stack(np.meshgrid(*[6.0 * np.arange(-1, 2)] * 3, indexing="ij"), axis=-1).reshape(
        -1, 3
    ) + [x, 0, 0]


@pytest.fixture(scope="module")
def organs() -> Organs:
    return Organs(("one", "two"), (cube(0), cube(100)), np.array([[0.0, 0, 0], [100, 0, 0]]))


@pytest.fixture(scope="module")
def drawn() -> list:
    maker = SentenceMaker(shipped_organs())
    rng = np.random.default_rng(0)
    return [maker.draw(rng) for _ in range(400)]


class TestOrgans:
    @pytest.mark.parametrize(
        ("point", "names", "mm"),
        [
            ((0, 0, 0), ["one"], 0),
            ((8.9, -8.9, 8.9), ["one"], 0),
            ((19, 0, 0), ["one"], 10),
            ((12, 13, 0), ["one"], 5),
            ((19, 0, 0), ["two"], 72),
            ((91, 0, 0), ["one", "two"], 0),
        ],
    )
    def test_distance_is_that_to_the_nearest_cell(self, organs, point, names, mm):
        assert organs.distance(np.array(point, dtype=float), names) == pytest.approx(mm)

    def test_a_sample_is_of_the_organs_named(self, organs):
        points, named = organs.sample([["two"], ["one", "two"]], 20, np.random.default_rng(0))
        assert points.shape == (2, 2, 20, 3)
        assert named.tolist() == [[True, False], [True, True]]
        assert all(organs.distance(point, ["two"]) == 0 for point in points[0, 0])
        assert all(organs.distance(point, ["one"]) == 0 for point in points[1, 0])

    def test_every_place_of_the_terms_is_there_and_holds_its_best_point(self):
        shipped = shipped_organs()
        assert set(shipped.names) == set(load_terms().by_name)
        for name in shipped.names[::20]:
            assert shipped.distance(shipped.best[shipped.index[name]], [name]) == 0
        left, right = (shipped.best[shipped.index[f"kidney_{side}"]] for side in ("left", "right"))
        assert left[0] < 0 < right[0]
        liver = shipped_atlas("").occupancies["liver"]
        middle = shipped.cells[shipped.index["liver"]].mean(axis=0)
        points, weight = liver.points_mm()
        assert np.linalg.norm(middle - weight @ points) < 30


class TestSentences:
    def test_each_names_the_places_that_it_is_labelled_with(self, drawn):
        for example in drawn:
            assert example.organs
            assert set(example.organs) <= set(load_terms().by_name)
            for start, end in example.spans:
                assert example.text[start:end].strip() == example.text[start:end] != ""

    def test_masks_cover_names_alone(self, drawn):
        rng = np.random.default_rng(0)
        for example in drawn[:100]:
            assert example.masked(0.0, rng) == example.text
            parts = example.masked(1.0, rng).split(MASK)
            assert len(parts) == len(example.spans) + 1
            ends = [0, *(end for _, end in sorted(example.spans))]
            starts = [*(start for start, _ in sorted(example.spans)), len(example.text)]
            assert parts == [example.text[a:b] for a, b in zip(ends, starts, strict=True)]

    def test_reports_label_themselves(self):
        found = sentences_of(["Cyst in the left kidney. All else is normal.", "Ribs 3 to 5 on the left: no lesion"],
                             shipped_organs())  # fmt: skip
        assert [each.organs for each in found] == [
            ("kidney_left",), ("rib_left_3", "rib_left_4", "rib_left_5"),
        ]  # fmt: skip
        assert MASK in found[0].masked(1.0, np.random.default_rng(0))
        assert "idney" not in found[0].masked(1.0, np.random.default_rng(0))


class TestNetwork:
    def test_words_are_those_of_the_text(self):
        assert words_of("L4/5: a [mask], 3.5 cm; Ödem") == [
            "l4",
            "5",
            "a",
            MASK,
            "3",
            "5",
            "cm",
            "ödem",
        ]

    def test_a_text_has_its_point_in_any_company(self):
        torch.manual_seed(0)
        network = TextNetwork().eval()
        texts = ["liver", "", "a 3 cm mass in the upper pole of the left kidney", "word " * 500]
        with torch.no_grad():
            together = network(texts)
            for text, point in zip(texts, together, strict=True):
                torch.testing.assert_close(network([text])[0], point, rtol=0, atol=1e-3)
        assert ((together - network.middle_mm).abs() < network.half_mm).all()


class TestTraining:
    def test_a_run_that_was_stopped_ends_as_one_that_was_not(self, tmp_path):
        whole = train_text(QUICK, tmp_path / "whole")
        steps: list[int] = []
        with pytest.raises(CancelledError, match="stopped at step 2; run the same command"):
            train_text(
                QUICK,
                tmp_path / "parts",
                (),
                lambda done: steps.append(done.step),
                lambda: 2 in steps,
            )
        assert not (tmp_path / "parts" / FILE).exists()
        train_text(QUICK, tmp_path / "parts", progress=lambda done: steps.append(done.step))
        assert steps == [1, 2, 3, 4]
        for name, values in load_file(tmp_path / "parts" / FILE).items():
            assert torch.equal(values, whole.state_dict()[name])
        assert len((tmp_path / "parts" / "loss.csv").read_text().splitlines()) == 5

    def test_what_was_trained_is_read_again(self, tmp_path):
        texts = ["liver", "something else", ""]
        made = train_text(TextRecipe(mask=0.5, steps=2, batch=4), tmp_path)
        read = load_text(tmp_path)
        np.testing.assert_array_equal(read.place(texts), made.place(texts))
        assert read.place(texts).shape == (3, 3)

    @pytest.mark.parametrize(
        ("about", "says"),
        [
            ({"format_version": 2}, "newer version"),
            ({"organs": ["liver"]}, "another list of places"),
            ({"organs": None}, "damaged"),
        ],
    )
    def test_a_changed_file_is_refused(self, about, says, tmp_path):
        facts = {"format_version": 1, "organs": list(shipped_organs().names)} | about
        save_file(
            TextNetwork().state_dict(), tmp_path / FILE, {"anatomical_text": json.dumps(facts)}
        )
        with pytest.raises(WeightsError, match=says):
            load_text(tmp_path)

    def test_a_folder_without_a_run_is_refused(self, tmp_path):
        with pytest.raises(WeightsError, match="holds no trained text network"):
            load_text(tmp_path)


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
            ("All is well.\n", "these reports name no known place"),
            ("Cyst of the liver. " * 2000, "at most 30,000"),
        ],
    )
    def test_reports_that_teach_nothing_are_refused_by_name(self, text, says, text2atlas, tmp_path):
        (tmp_path / "report.txt").write_text(text)
        outcome = text2atlas("train", "-o", tmp_path / "run", "--reports", tmp_path / "report.txt")
        assert_refused(outcome, "report.txt: ", says)
        assert not (tmp_path / "run").exists()
