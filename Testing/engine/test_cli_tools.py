"""The smaller commands, called as a user would: info, embed, cache and the evaluation of phantoms."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import torch
from cli_runs import assert_refused
from small_models import cell_centres, small_network

from AnatomicalEmbedding import __version__
from AnatomicalEmbedding.cli import main
from AnatomicalEmbedding.embedding.coverage import find_coverage
from AnatomicalEmbedding.embedding.inference import Model, load_model
from AnatomicalEmbedding.embedding.map import EmbeddingMap
from AnatomicalEmbedding.phantom import make_phantom
from AnatomicalEmbedding.phantom import patient as phantoms
from AnatomicalEmbedding.scan.volume import Volume

pytestmark = pytest.mark.usefixtures("kept_maps")


class TestInfo:
    def test_of_a_scan(self, anatemb, place, phantom_pair):
        volume = phantom_pair[0].volume
        outcome = anatemb("info", place.template, "--json")
        (facts,) = json.loads(outcome.out)
        assert facts["voxels_ijk"] == list(volume.shape[::-1])
        assert facts["spacing_mm"] == [4.0, 4.0, 4.0]
        assert facts["axes"] == "LPS"
        np.testing.assert_allclose([facts["from_ras_mm"], facts["to_ras_mm"]], volume.bounds_ras, atol=0.06)
        assert str(place.template) in anatemb("info", place.template).out

    def test_of_a_turned_scan(self, anatemb, phantom_pair, tmp_path):
        volume = phantom_pair[0].volume
        angle = np.radians(10)
        turn = np.eye(4)
        turn[1:3, 1:3] = [(np.cos(angle), -np.sin(angle)), (np.sin(angle), np.cos(angle))]
        replace(volume, ijk_to_ras=turn @ volume.ijk_to_ras).write(tmp_path / "turned.nrrd")
        (facts,) = json.loads(anatemb("info", tmp_path / "turned.nrrd", "--json").out)
        assert facts["axes"] == "LPS, 10.0 degrees oblique"

    def test_of_a_map(self, anatemb, place, tmp_path):
        anatemb("embed", place.template, "-o", tmp_path, *place.model)
        (facts,) = json.loads(anatemb("info", tmp_path / "template.map.safetensors", "--json").out)
        embedding = EmbeddingMap.load(tmp_path / "template.map.safetensors")
        assert (facts["scan"], facts["model"]) == ("template", "small")
        assert facts["cells_ijk"] == list(embedding.body.shape[::-1])
        assert facts["body_cells"] == int(embedding.body.sum())
        held = find_coverage(embedding)
        assert facts["holds"] == held.text
        assert facts["body_heights_mm"] == [round(held.low_mm), round(held.high_mm)]

    def test_of_the_installation(self, anatemb, place):
        (facts,) = json.loads(anatemb("info", "--json").out)
        assert facts["anatemb"] == __version__
        assert facts["torch"] == torch.__version__
        assert facts["devices"][0] == "cpu"
        assert facts["cache_folder"] == str(place.folder / "cache")
        assert anatemb("info").out.startswith("anatemb")

    @pytest.mark.parametrize("name", ["missing.nii.gz", "missing.safetensors"])
    def test_of_nothing(self, anatemb, tmp_path, name):
        assert_refused(anatemb("info", tmp_path / name), tmp_path / name, "no such file")


class TestEmbed:
    def test_writes_the_map_of_each_scan(self, anatemb, place, tmp_path):
        outcome = anatemb("embed", place.template, place.target, "-o", tmp_path, "--json", *place.model)
        written = json.loads(outcome.out)
        assert [row["scan"] for row in written] == [str(place.template), str(place.target)]
        for row, name in zip(written, ("template", "target"), strict=True):
            assert row["map"] == str(tmp_path / f"{name}.map.safetensors")
            made = load_model(place.model[1], "cpu").embed(Volume.read(row["scan"]))
            kept = EmbeddingMap.load(row["map"])
            assert torch.allclose(kept.coordinate[:, made.body], made.coordinate[:, made.body], atol=0.01)
            assert kept.provenance == made.provenance

    def test_a_folder_that_cannot_be_written(self, anatemb, place, tmp_path):
        (tmp_path / "file").write_text("mine")
        words = ("embed", place.template, "-o", tmp_path / "file", "--json", *place.model)
        assert_refused(anatemb(*words), tmp_path / "file")


class TestCache:
    def test_shows_bounds_and_empties(self, anatemb, place, tmp_path, monkeypatch):
        monkeypatch.setenv("ANATEMB_CACHE", str(tmp_path / "cache"))
        empty = json.loads(anatemb("cache", "--json").out)
        assert empty == {"folder": str(tmp_path / "cache"), "maps": 0, "megabytes": 0.0, "removed": 0}
        anatemb("embed", place.template, place.target, "-o", tmp_path / "maps", *place.model)
        held = json.loads(anatemb("cache", "--json").out)
        assert (held["maps"], held["removed"]) == (2, 0)
        biggest = max(path.stat().st_size for path in (tmp_path / "cache").iterdir())
        bounded = json.loads(anatemb("cache", "--limit-mb", biggest / 2**20 + 0.01, "--json").out)
        assert (bounded["maps"], bounded["removed"]) == (1, 1)
        assert "0 maps, 0.0 MB, 1 removed" in anatemb("cache", "--clear").out
        assert list((tmp_path / "cache").iterdir()) == []

    def test_nothing_is_kept_when_asked_not_to(self, anatemb, place, tmp_path, monkeypatch):
        monkeypatch.setenv("ANATEMB_CACHE", str(tmp_path / "cache"))
        anatemb("embed", place.template, "-o", tmp_path / "maps", "--no-cache", *place.model)
        assert not (tmp_path / "cache").exists()


class TestEvaluatePhantoms:
    def test_a_model_that_knows_the_truth_is_measured_as_perfect(self, anatemb, tmp_path, monkeypatch):
        """Maps that hold the body frame itself: what error is left is that of cells, cuts and matching."""
        small = {"whole": (100.0, 500.0), "lower half": (100.0, 300.0), "upper half": (300.0, 500.0)}
        monkeypatch.setattr(phantoms, "VIEWS", small)
        monkeypatch.setattr(phantoms, "_SPACING_MM", (6.0, 6.0, 6.0))
        monkeypatch.setattr("AnatomicalEmbedding.cli.evaluate.open_model", lambda options: Truth())
        words = ("evaluate", "phantoms", "--count", 2, "--seed", 300, "--json", "-o", tmp_path / "deeper" / "r.json")
        outcome = anatemb(*words)
        result = json.loads(outcome.out)
        assert result == json.loads((tmp_path / "deeper" / "r.json").read_text())
        views = {row["view"]: row for row in result["views"]}
        assert list(views) == ["whole", "lower half", "upper half", "all"]
        assert views["whole"]["points"] > views["lower half"]["points"] > 10
        assert views["all"]["points"] == sum(views[view]["points"] for view in small)
        assert all(row["mean"] < 3 and row["p90"] < 5 for row in views.values())

    @pytest.mark.parametrize("options", [["--count", 1], ["--count", 0], ["--seed", -1]])
    def test_one_patient_is_no_pair(self, anatemb, options):
        assert_refused(anatemb("evaluate", "phantoms", *options), "--count must be 2 or more")


class Truth:
    """A model whose maps hold the phantom's own body frame."""

    name = "truth"

    def __init__(self):
        self._geometry = Model(small_network(spacing_mm=(4.0, 4.0, 4.0)), self.name, "0" * 64)

    def embed(self, volume: Volume) -> EmbeddingMap:
        embedding = self._geometry.embed(volume)
        known = patient(int(volume.name.removeprefix("phantom-")))
        points_body = known.to_body(cell_centres(embedding)[embedding.body.numpy()])
        embedding.coordinate[:, embedding.body] = torch.from_numpy(points_body.T).float()
        return embedding


@cache
def patient(seed: int):
    """The patient of a seed, who is the same in any scan; a thin slab is quick to make."""
    return make_phantom(seed, spacing=(12.0, 12.0, 12.0), coverage_mm=(250.0, 320.0))


def test_version(capsys):
    with pytest.raises(SystemExit) as end:
        main(["--version"])
    assert (end.value.code, capsys.readouterr().out) == (0, f"anatemb {__version__}\n")


def test_a_reader_that_has_seen_enough_is_no_error():
    """As `anatemb cache | head -0`: the pipe is closed before anything is written."""
    code = "import sys; from AnatomicalEmbedding.cli import main; sys.stdin.read(); sys.exit(main(['cache']))"
    run = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    run.stdout.close()
    run.stdin.close()
    assert run.wait(60) == 0
    assert run.stderr.read() == ""
    run.stderr.close()
