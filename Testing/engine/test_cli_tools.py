"""Test the smaller commands, such as info and doctor, called as a user calls them."""

import json

import numpy as np
import pytest
from cli_runs import assert_refused

from AnatomicalEmbedding import __version__, load_model
from AnatomicalEmbedding.cli import main
from AnatomicalEmbedding.embedding.coverage import find_coverage

pytestmark = pytest.mark.usefixtures("kept_maps")


class TestInfo:
    def test_of_a_scan(self, anatemb, place, phantom_pair):
        volume = phantom_pair[0].volume
        outcome = anatemb("info", place.template, "--json")
        (facts,) = json.loads(outcome.out)
        assert facts["voxels_ijk"] == list(volume.shape[::-1])
        assert facts["spacing_mm"] == [4.0, 4.0, 4.0]
        assert facts["axes"] == "LPS"
        np.testing.assert_allclose(
            [facts["from_ras_mm"], facts["to_ras_mm"]], volume.bounds_ras, atol=0.06
        )
        assert str(place.template) in anatemb("info", place.template).out

    def test_of_a_map(self, anatemb, place, tmp_path):
        embedding = load_model(place.model[1]).embed(place.template)
        embedding.save(tmp_path / "template.map.safetensors")
        (facts,) = json.loads(anatemb("info", tmp_path / "template.map.safetensors", "--json").out)
        assert (facts["scan"], facts["model"]) == ("template", "small")
        assert facts["cells_ijk"] == list(embedding.body.shape[::-1])
        assert facts["body_cells"] == int(embedding.body.sum())
        held = find_coverage(embedding)
        assert facts["holds"] == held.text
        assert facts["body_heights_mm"] == [round(held.low_mm), round(held.high_mm)]

    def test_of_a_missing_file(self, anatemb, tmp_path):
        path = tmp_path / "missing.safetensors"
        assert_refused(anatemb("info", path), path, "no such file")


def test_the_cache_is_shown_and_emptied(anatemb, place, tmp_path, monkeypatch):
    monkeypatch.setenv("ANATEMB_CACHE", str(tmp_path / "cache"))
    words = ("find", "liver", place.template, place.target, "-o", tmp_path / "out", *place.model)
    anatemb(*words, "--no-cache")
    assert not (tmp_path / "cache").exists()
    anatemb(*words)
    (facts,) = json.loads(anatemb("doctor", "--json").out)
    assert facts["cache"].startswith(f"{tmp_path / 'cache'}: 2 maps, ")
    assert json.loads(anatemb("info", "--clear-cache", "--json").out) == []
    assert list((tmp_path / "cache").iterdir()) == []


def test_version(capsys):
    with pytest.raises(SystemExit) as end:
        main(["--version"])
    assert (end.value.code, capsys.readouterr().out) == (0, f"anatemb {__version__}\n")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("mtach", "a"), "mtach: no such command (did you mean match?)"),
        (
            ("crop", "scan", "--stuctures=liver", "-o", "out"),
            "--stuctures: no such option (did you mean --structures?)",
        ),
    ],
)
def test_the_nearest_command_or_option_is_suggested_for_a_misspelt_one(capsys, words, says):
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"anatemb: {says}")
