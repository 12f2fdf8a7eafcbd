"""Test map files: they are small, exact and written completely; files of other kinds are refused."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from cohort_scans import torso
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from safetensors.torch import save_file
from small_models import analytic_map, write_small_weights

from AnatomicalEmbedding.embedding.inference import load_model
from AnatomicalEmbedding.embedding.map import EmbeddingMap
from AnatomicalEmbedding.embedding.map_file import FORMAT_VERSION, read_descriptors
from AnatomicalEmbedding.errors import MapError
from AnatomicalEmbedding.matching.match import match

_KEY = "anatomical_embedding_map"
_SHAPE = (5, 6, 7)


def described(body: np.ndarray | None = None, seed: int = 0) -> EmbeddingMap:
    """A map with everything a map can hold."""
    torch.manual_seed(seed)
    k, j, i = _SHAPE
    return replace(
        analytic_map(lambda p: 0.9 * p - 40, _SHAPE, body=body, name="Röntgen 胸部.nii.gz"),
        local=F.normalize(torch.randn(6, 2 * k, 2 * j, 2 * i), dim=0).half(),
        image=torch.randint(0, 256, (4 * k, 4 * j, 4 * i), dtype=torch.uint8),
        organ_boxes={"liver": np.array([(0.0, 1, 2), (3, 4, 5)])},
        notes=("gantry tilt",),
        faults=("left and right are swapped",),
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("maps")


@settings(max_examples=25, deadline=None)
@given(body=arrays.arrays(bool, _SHAPE), seed=st.integers(0, 99))
def test_a_file_gives_the_map_back_where_matching_reads_it(folder, body, seed):
    made = described(body, seed)
    path = folder / "deeper" / "map.safetensors"
    made.save(path)
    found = EmbeddingMap.load(path)
    for name in ("scan_shape", "provenance", "notes", "faults"):
        assert getattr(found, name) == getattr(made, name)
    for name in ("body", "image"):
        assert torch.equal(getattr(found, name), getattr(made, name))
    for name in ("cell_to_ras", "scan_to_ras"):
        np.testing.assert_array_equal(getattr(found, name), getattr(made, name))
    np.testing.assert_array_equal(found.organ_boxes["liver"], made.organ_boxes["liver"])
    assert ((found.coordinate - made.coordinate)[:, made.body].abs() < 0.01).all()
    near = (
        F.max_pool3d(F.interpolate(made.body[None, None].float(), scale_factor=2), 3, 1, 1)[0, 0]
        > 0
    )
    step = made.local.float().abs().amax(0) / 2047
    assert ((found.local - made.local).float().abs().amax(0) <= 1.1 * step + 1e-3)[near].all()
    assert [each.name for each in path.parent.iterdir()] == [path.name]


def test_a_part_is_read_as_the_whole(tmp_path):
    body = np.random.default_rng(0).random(_SHAPE) < 0.3
    described(body).save(tmp_path / "map.safetensors")
    whole = EmbeddingMap.load(tmp_path / "map.safetensors")
    part = read_descriptors(
        tmp_path / "map.safetensors", whole.body, (slice(1, 4), slice(2, 6), slice(0, 3))
    )
    assert torch.equal(part, whole.local[:, 2:8, 4:12, 0:6])


@pytest.fixture(scope="module")
def maps() -> list[EmbeddingMap]:
    model = load_model(device="cpu")
    return [model.embed(torso(seed).volume) for seed in (0, 1)]


def test_answers_stay_within_a_twentieth_of_a_millimetre(maps, tmp_path):
    points = np.array(sorted(torso(0).points_ras.values(), key=lambda point: point.tolist()))
    kept = []
    for number, embedding in enumerate(maps):
        embedding.save(tmp_path / f"{number}.safetensors")
        kept.append(EmbeddingMap.load(tmp_path / f"{number}.safetensors"))
        assert (tmp_path / f"{number}.safetensors").stat().st_size < 0.7 * embedding.local.nbytes
    one = match(maps[0], points, maps[1])
    other = match(kept[0], points, kept[1])
    moved = np.linalg.norm(one.points_ras - other.points_ras, axis=1)
    assert np.quantile(moved, 0.9) < 0.05
    assert one.status is None or (one.status == other.status).mean() > 0.95


def test_other_files_are_refused(tmp_path):
    assert_refused(tmp_path / "missing.safetensors", "no such file")
    (tmp_path / "text.safetensors").write_text("a map, honestly")
    assert_refused(tmp_path / "text.safetensors", "not an embedding map")
    assert_refused(write_small_weights(tmp_path), "not an embedding map")


@pytest.mark.parametrize(
    ("version", "because"), [(4, "older version"), (FORMAT_VERSION + 1, "newer version")]
)
def test_files_of_other_versions_are_recognised(tmp_path, version, because):
    path = tmp_path / "other.safetensors"
    save_file({"unknown": torch.zeros(3)}, path, {_KEY: json.dumps({"format_version": version})})
    assert_refused(path, because)


def test_a_full_disk_leaves_the_old_file(tmp_path):
    limits = pytest.importorskip("resource")  # POSIX only
    path = tmp_path / "map.safetensors"
    described().save(path)
    before = path.read_bytes()
    soft, hard = limits.getrlimit(limits.RLIMIT_FSIZE)
    limits.setrlimit(limits.RLIMIT_FSIZE, (1000, hard))
    try:
        with pytest.raises(MapError, match="not full"):
            described(seed=1).save(path)
    finally:
        limits.setrlimit(limits.RLIMIT_FSIZE, (soft, hard))
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def assert_refused(path: Path, because: str) -> None:
    with pytest.raises(MapError) as refusal:
        EmbeddingMap.load(path)
    message = str(refusal.value)
    assert message.startswith(f"{path}: ")
    assert because in message
    assert "\n" not in message
