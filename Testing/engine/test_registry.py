"""Test weights files: reading returns what was written, and any other file is refused in one sentence."""

import hashlib
import json
from dataclasses import asdict
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from small_models import small_network, write_small_weights

from AnatomicalEmbedding.embedding.models.network import EmbeddingNetwork, NetworkSpec
from AnatomicalEmbedding.embedding.models.registry import find_weights, read_weights, write_weights
from AnatomicalEmbedding.errors import WeightsError
from AnatomicalEmbedding.resources import list_weights

SPEC = NetworkSpec(
    widths=(4, 6, 8),
    spacing_mm=(1.5, 2.0, 2.5),
    hu_knots=(-1000.0, 0.0, 400.0),
    level_knots=(0.0, 0.5, 1.0),
    unit_mm=None,
    normalise_output=True,
)


def trained_a_little() -> EmbeddingNetwork:
    """A network whose running statistics are no longer those it started with."""
    network = EmbeddingNetwork(SPEC)
    generator = torch.Generator().manual_seed(1)
    network.train()
    for _ in range(3):
        network(torch.rand(2, 1, 32, 32, 32, generator=generator))
    return network.eval()


class TestRoundTrip:
    def test_the_same_outputs_from_half_the_bytes(self, tmp_path):
        network = trained_a_little()
        path = tmp_path / "w.safetensors"
        write_weights(network, path, "mine", {"recipe": {"steps": 3}})
        back = read_weights(path)
        assert back.name == "mine"
        assert back.network.spec == SPEC
        assert back.card["recipe"] == {"steps": 3}
        x = torch.rand(1, 1, 32, 36, 40, generator=torch.Generator().manual_seed(2))
        with torch.no_grad():
            torch.testing.assert_close(
                back.network(x).coordinate, network(x).coordinate, atol=1e-2, rtol=0
            )
        parameters = sum(p.numel() for p in network.parameters())
        assert path.stat().st_size < 2 * parameters + 10_000
        assert not back.network.training
        assert all(p.dtype == torch.float32 for p in back.network.parameters())

    def test_the_hash_is_that_of_the_file(self, tmp_path):
        path = tmp_path / "w.safetensors"
        sha256 = write_weights(small_network(), path, "mine", {})
        assert sha256 == hashlib.sha256(path.read_bytes()).hexdigest() == read_weights(path).sha256
        other = write_weights(small_network(seed=1), path, "mine", {})
        assert other != sha256
        assert [p.name for p in tmp_path.iterdir()] == ["w.safetensors"]


class TestCard:
    def test_weights_altered_after_their_card_was_written_are_refused(self, tmp_path):
        path = write_small_weights(tmp_path)
        path.with_suffix(".json").write_text(
            json.dumps({"sha256": hashlib.sha256(path.read_bytes()).hexdigest()})
        )
        data = bytearray(path.read_bytes())
        data[-7] ^= 1
        path.write_bytes(data)
        assert_refused(path, "is not the file that the card small.json describes")

    @pytest.mark.parametrize("text", ["", "{", "[]", "\udcff"])
    def test_a_damaged_card_is_named(self, tmp_path, text):
        path = write_small_weights(tmp_path)
        path.with_suffix(".json").write_bytes(text.encode(errors="surrogateescape"))
        assert_refused(path, "is not a model card", named=path.with_suffix(".json"))


class TestRefused:
    def test_tensors_that_do_not_fit_the_network_described(self, tmp_path):
        path = write_small_weights(tmp_path)
        state = load_file(path)
        about = {"name": "x", "network": asdict(NetworkSpec(widths=(4, 4)))}
        save_file(state, path, {"anatomical_embedding_model": json.dumps(about)})
        assert_refused(path, "do not fit the network")

    @pytest.mark.parametrize("name", ["nothing-like-it", "missing.pth", "../ape"])
    def test_an_unknown_name_lists_what_there_is(self, name, tmp_path, monkeypatch):
        for shipped in ("first", "second"):
            write_small_weights(tmp_path, shipped)
        monkeypatch.setattr("AnatomicalEmbedding.resources.resource", lambda folder: tmp_path)
        assert list_weights() == ["first", "second"]
        assert find_weights("second").name == "second"
        with pytest.raises(
            WeightsError, match=r"no such weights; give a file or one of: first, second\.$"
        ) as refusal:
            find_weights(name)
        assert str(refusal.value).startswith(f"{name}: ")


def assert_refused(path: Path, because: str, named: Path | None = None) -> None:
    with pytest.raises(WeightsError) as refusal:
        find_weights(str(path))
    message = str(refusal.value)
    assert message.startswith(f"{named or path}: ")
    assert because in message
    assert "\n" not in message
