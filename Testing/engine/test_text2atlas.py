"""The text network around its losses: organs, sentences, training that stops and goes on, and the command."""

from __future__ import annotations

import json
import signal
from functools import partial

import numpy as np
import pytest
import torch
from cli_runs import Outcome, assert_refused
from safetensors.torch import load_file, save_file

from AnatomicalEmbedding.errors import AnatomicalEmbeddingError, CancelledError, WeightsError
from AnatomicalEmbedding.papers.text2atlas.__main__ import LOSSES as OFFERED
from AnatomicalEmbedding.papers.text2atlas.__main__ import main
from AnatomicalEmbedding.papers.text2atlas.losses import soft_organ_distance
from AnatomicalEmbedding.papers.text2atlas.network import MASK, TextNetwork, TextSpec, words_of
from AnatomicalEmbedding.papers.text2atlas.organs import Organs, shipped_organs
from AnatomicalEmbedding.papers.text2atlas.run import FILE, LOSSES, TextPlacer, TextRecipe, train_text
from AnatomicalEmbedding.papers.text2atlas.sentences import FAMILIES, SentenceMaker, sentences_of
from AnatomicalEmbedding.words import load_terms, parse, shipped_atlas

QUICK = TextRecipe(steps=4, batch=8)


def cube(x: float) -> np.ndarray:
    """Centres of 27 cells of 6 mm about (x, 0, 0)."""
    return np.stack(np.meshgrid(*[6.0 * np.arange(-1, 2)] * 3, indexing="ij"), axis=-1).reshape(-1, 3) + [x, 0, 0]


@pytest.fixture(scope="module")
def organs() -> Organs:
    return Organs(("one", "two"), (cube(0), cube(100)), np.array([[0.0, 0, 0], [100, 0, 0]]))


@pytest.fixture(scope="module")
def drawn() -> list:
    maker, rng = SentenceMaker(shipped_organs()), np.random.default_rng(0)
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

    def test_classes_and_names(self, organs):
        assert organs.one_hot([["two"], ["one", "two"]]).tolist() == [[0, 1], [1, 1]]
        assert organs.name_at(np.array([60.0, 0, 0])) == "two"

    def test_every_place_of_the_terms_is_there_and_holds_its_best_point(self):
        shipped = shipped_organs()
        assert set(shipped.names) == set(load_terms().by_name)
        for name in shipped.names[::20]:
            assert shipped.distance(shipped.best[shipped.index[name]], [name]) == 0
        left, right = (shipped.best[shipped.index[f"kidney_{side}"]] for side in ("left", "right"))
        assert left[0] < 0 < right[0]
        liver = shipped_atlas("").occupancies["liver"]
        middle = shipped.cells[shipped.index["liver"]].mean(axis=0)
        assert np.linalg.norm(middle - liver.centre_mm) < 30

    def test_near_places_are_nearer_than_others(self, organs):
        shipped = shipped_organs()
        middle = {name: shipped.cells[shipped.index[name]].mean(axis=0) for name in shipped.names}
        apart = {name: float(np.linalg.norm(middle[name] - middle["spleen"])) for name in shipped.names}
        near = shipped.near("spleen")
        assert max(apart[name] for name in near) <= min(v for n, v in apart.items() if n not in [*near, "spleen"])
        assert organs.near("one") == ["two"]


class TestSentences:
    def test_each_names_the_places_that_it_is_labelled_with(self, drawn):
        for example in drawn:
            assert example.organs
            assert set(example.organs) <= set(load_terms().by_name)
            for start, end in example.spans:
                assert example.text[start:end].strip() == example.text[start:end] != ""

    def test_the_dictionary_agrees_with_most_labels(self, drawn):
        """Labels come from the terms, not from the reader of phrases."""
        agree = [bool({n for m in parse(e.text) for n in m.places} & set(e.organs)) for e in drawn]
        assert np.mean(agree) > 0.97

    def test_a_side_that_is_said_is_the_labels(self, drawn):
        for example in drawn:
            if example.text.startswith(("left ", "the left ")) and len(example.spans) == 1:
                assert not any(load_terms()[name].side == "right" for name in example.organs)

    def test_all_templates_are_used_and_no_slot_is_left(self, drawn):
        assert not any("{" in example.text for example in drawn)
        assert len({example.text for example in drawn}) > 300
        assert sum(map(len, FAMILIES.values())) > 10

    def test_few_places_are_enough(self):
        few = Organs(("liver", "spleen"), (cube(0), cube(100)), np.array([[0.0, 0, 0], [100, 0, 0]]))
        maker, rng = SentenceMaker(few, {"near": FAMILIES["near"]}), np.random.default_rng(0)
        assert set(maker.draw(rng).organs) == {"liver", "spleen"}

    def test_a_seed_gives_the_same_sentences(self):
        maker = SentenceMaker(shipped_organs())
        first, second = ([maker.draw(np.random.default_rng(5)) for _ in range(3)] for _ in range(2))
        assert first == second

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
        assert words_of("L4/5: a [mask], 3.5 cm; Ödem") == ["l4", "5", "a", MASK, "3", "5", "cm", "ödem"]

    def test_a_text_has_its_point_in_any_company(self):
        torch.manual_seed(0)
        network = TextNetwork(TextSpec()).eval()
        texts = ["liver", "", "a 3 cm mass in the upper pole of the left kidney", "word " * 500]
        with torch.no_grad():
            together = network(texts)
            for text, point in zip(texts, together, strict=True):
                torch.testing.assert_close(network([text])[0], point, rtol=0, atol=1e-3)
        assert ((together - network.middle_mm).abs() < network.half_mm).all()

    def test_learns_two_words(self, organs):
        torch.manual_seed(0)
        network = TextNetwork(TextSpec(width=16, layers=1, pieces=256)).train()
        optimiser = torch.optim.Adam(network.parameters(), 1e-2)
        points, named = map(torch.from_numpy, organs.sample([["one"], ["two"]], 20, np.random.default_rng(0)))
        falling = torch.optim.lr_scheduler.LinearLR(optimiser, 1.0, 0.01, 200)
        for _ in range(200):
            loss = soft_organ_distance(network(["alpha", "omega"]) / 300, points / 300, named)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            falling.step()
        with torch.no_grad():
            found = network.eval()(["alpha", "omega"]).double().numpy()
        assert organs.distance(found[0], ["one"]) < 10
        assert organs.distance(found[1], ["two"]) < 10


class TestTraining:
    def test_a_run_that_was_stopped_ends_as_one_that_was_not(self, tmp_path):
        whole = train_text(QUICK, tmp_path / "whole")
        steps: list[int] = []
        with pytest.raises(CancelledError, match="stopped at step 2; run the same command"):
            train_text(QUICK, tmp_path / "parts", (), lambda done: steps.append(done.step), lambda: 2 in steps)
        assert not (tmp_path / "parts" / FILE).exists()
        train_text(QUICK, tmp_path / "parts", progress=lambda done: steps.append(done.step))
        assert steps == [1, 2, 3, 4]
        for name, values in load_file(tmp_path / "parts" / FILE).items():
            assert torch.equal(values, whole.network.state_dict()[name])
        assert len((tmp_path / "parts" / "loss.csv").read_text().splitlines()) == 5

    def test_a_full_disk_is_reported(self, tmp_path, monkeypatch):
        def full(state, path):
            path.write_bytes(b"half")
            raise RuntimeError("[enforce fail at inline_container.cc] . PytorchStreamWriter failed writing file")

        monkeypatch.setattr(torch, "save", full)
        with pytest.raises(AnatomicalEmbeddingError, match="could not be written whole; is the disk full"):
            train_text(QUICK, tmp_path)
        assert not [path for path in tmp_path.iterdir() if "checkpoint" in path.name]

    @pytest.mark.parametrize("loss", LOSSES)
    def test_what_was_trained_is_read_again(self, loss, tmp_path):
        texts = ["liver", "something else", ""]
        made = train_text(TextRecipe(loss, mask=0.5, steps=2, batch=4), tmp_path)
        read = TextPlacer.load(tmp_path)
        assert read.recipe == made.recipe
        np.testing.assert_array_equal(read.place(texts), made.place(texts))
        assert read.place(texts).shape == (3, 3)

    def test_reports_change_the_run(self, tmp_path):
        own = sentences_of(["Cyst in the left kidney."], shipped_organs())
        train_text(QUICK, tmp_path, own)
        with pytest.raises(AnatomicalEmbeddingError, match="another recipe, data, seed or length"):
            train_text(QUICK, tmp_path)

    @pytest.mark.parametrize("write", [lambda path: path.write_bytes(b"nothing"), partial(torch.save, torch.zeros(2))])
    def test_a_damaged_checkpoint_is_named(self, write, tmp_path):
        write(tmp_path / "checkpoint.pt")
        with pytest.raises(AnatomicalEmbeddingError, match=r"checkpoint\.pt: is damaged; delete it"):
            train_text(QUICK, tmp_path)

    @pytest.mark.parametrize(
        ("about", "says"),
        [
            ({"format_version": 2}, "newer version"),
            ({"organs": ["liver"]}, "another list of places"),
            ({"network": {"width": "wide"}}, "damaged"),
            ({"network": {"width": 32}}, "damaged"),
            ({"network": {"heads": 5}}, "damaged"),  # of a width of 96
            ({"recipe": {"seed": []}}, "damaged"),
        ],
    )
    def test_a_changed_file_is_refused(self, about, says, tmp_path):
        placer = TextPlacer(TextNetwork(TextSpec()), QUICK)
        placer.save(tmp_path / FILE)
        facts = {"format_version": 1, "recipe": {}, "network": {}, "organs": list(placer.organs.names)} | about
        save_file(placer.network.state_dict(), tmp_path / FILE, {"anatomical_text": json.dumps(facts)})
        with pytest.raises(WeightsError, match=says):
            TextPlacer.load(tmp_path)

    def test_classes_of_other_places_are_refused(self, tmp_path):
        TextPlacer(TextNetwork(TextSpec(classes=7)), QUICK).save(tmp_path / FILE)
        with pytest.raises(WeightsError, match="damaged"):
            TextPlacer.load(tmp_path)

    def test_a_folder_without_a_run_is_refused(self, tmp_path):
        with pytest.raises(WeightsError, match="holds no trained text network"):
            TextPlacer.load(tmp_path)


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
        (tmp_path / "report.txt").write_text("Cyst in the left kidney.\nNothing else.\nNormal spleen.\n")
        run = tmp_path / "run"
        words = ("train", "-o", run, "--steps", 2, "--reports", tmp_path / "report.txt", "--json")
        outcome = text2atlas(*words)
        assert outcome.code == 0
        assert json.loads(outcome.out) == {"model": str(run / FILE), "steps": 2, "sentences": 2}
        answer = json.loads(text2atlas("place", "liver", "a very long word", "--model", run, "--json").out)
        assert [row["text"] for row in answer] == ["liver", "a very long word"]
        assert all(row["place"] in load_terms().by_name for row in answer)
        assert "liver" in text2atlas("place", "liver", "--model", run).out
        assert_refused(text2atlas("train", "-o", run, "--steps", 3), run, "another recipe")

    def test_offers_every_loss(self):
        assert set(OFFERED) == set(LOSSES)

    def test_a_report_that_is_missing_is_refused_before_anything_is_written(self, text2atlas, tmp_path):
        outcome = text2atlas("train", "-o", tmp_path / "run", "--reports", tmp_path / "none.txt")
        assert_refused(outcome, "none.txt: no such file")
        assert not (tmp_path / "run").exists()

    @pytest.mark.parametrize(
        ("text", "says"), [("All is well.\n", "no place is named"), ("Cyst of the liver. " * 2000, "at most 30,000")]
    )
    def test_reports_that_teach_nothing_are_refused_by_name(self, text, says, text2atlas, tmp_path):
        (tmp_path / "report.txt").write_text(text)
        outcome = text2atlas("train", "-o", tmp_path / "run", "--reports", tmp_path / "report.txt")
        assert_refused(outcome, "report.txt: ", says)
        assert not (tmp_path / "run").exists()

    def test_an_interrupt_is_handled_as_before_once_training_ends(self, text2atlas, tmp_path):
        before = signal.getsignal(signal.SIGINT)
        assert text2atlas("train", "-o", tmp_path / "run", "--steps", 1).code == 0
        assert signal.getsignal(signal.SIGINT) is before

    def test_a_seed_that_torch_does_not_take_is_refused(self, text2atlas, tmp_path, capsys):
        with pytest.raises(SystemExit):
            text2atlas("train", "-o", tmp_path / "run", "--seed", 2**63)
        assert "too large" in capsys.readouterr().err

    @pytest.mark.parametrize("share", ["1.5", "-0.1", "half"])
    def test_a_share_is_between_0_and_1(self, share, tmp_path, capsys):
        with pytest.raises(SystemExit):
            main(["train", "-o", str(tmp_path), "--mask", share])
        assert "--mask" in capsys.readouterr().err
