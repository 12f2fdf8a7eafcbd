"""Test the cache of maps: maps are found by content, the oldest are removed, and its errors stop no command."""

import os
import subprocess
import sys
from itertools import count
from pathlib import Path

import numpy as np
import pytest
import torch
from small_models import analytic_map

from AnatomicalEmbedding.embedding.cache import MapCache, default_folder
from AnatomicalEmbedding.embedding.map import EmbeddingMap

MAPS = 5


def numbered(number: int, cells: int = 8) -> EmbeddingMap:
    return analytic_map(lambda p: p + number, (cells, 8, 8), name=f"scan {number}")


def file_of(cache: MapCache, embedding: EmbeddingMap) -> Path:
    (path,) = cache.folder.glob(f"{embedding.provenance.scan_hash[:24]}*")
    return path


def set_age(cache: MapCache, embedding: EmbeddingMap, hours: float) -> None:
    """Make the kept map look as if last used some hours ago."""
    path = file_of(cache, embedding)
    changed = path.stat().st_mtime - hours * 3600
    os.utime(path, (changed, changed))


def kept(cache: MapCache, maps: list[EmbeddingMap]) -> list[bool]:
    """Which maps the folder holds; asking does not use them."""
    names = {path.name for path in cache.folder.iterdir()}
    return [any(name.startswith(m.provenance.scan_hash[:24]) for name in names) for m in maps]


def is_equal(found: EmbeddingMap, embedding: EmbeddingMap) -> bool:
    return torch.allclose(found.coordinate, embedding.coordinate, rtol=0, atol=0.01)


@pytest.fixture(scope="module")
def maps() -> list[EmbeddingMap]:
    return [numbered(n) for n in range(MAPS)]


@pytest.fixture
def one_size(tmp_path: Path, maps: list[EmbeddingMap]) -> int:
    maps[0].save(tmp_path / "one.safetensors")
    return (tmp_path / "one.safetensors").stat().st_size


@pytest.fixture
def cache(tmp_path: Path, maps: list[EmbeddingMap]) -> MapCache:
    """All maps, the first used longest ago."""
    cache = MapCache(tmp_path / "cache")
    for n, embedding in enumerate(maps):
        cache.put(embedding)
        set_age(cache, embedding, hours=MAPS - n)
    return cache


class TestFinding:
    def test_each_map_is_found_by_its_own_scan_and_weights(self, cache, maps):
        for embedding in maps:
            found = cache.get(embedding.provenance)
            assert is_equal(found, embedding)
            assert found.provenance == embedding.provenance
        assert cache.get(numbered(99).provenance) is None
        other_weights = analytic_map(np.copy, name="scan 0", weights_hash="cd" * 32)
        assert cache.get(other_weights.provenance) is None

    def test_a_damaged_file_counts_as_absent_and_is_removed(self, cache, maps):
        path = file_of(cache, maps[2])
        path.write_bytes(path.read_bytes()[:-100])
        assert cache.get(maps[2].provenance) is None
        assert kept(cache, maps) == [True, True, False, True, True]
        cache.put(maps[2])
        assert cache.get(maps[2].provenance) is not None

    def test_the_folder_follows_the_environment(self, tmp_path, monkeypatch):
        monkeypatch.setenv("ANATEMB_CACHE", str(tmp_path / "given"))
        assert default_folder() == tmp_path / "given"
        monkeypatch.delenv("ANATEMB_CACHE")
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
        assert default_folder() == tmp_path / "xdg" / "AnatomicalEmbedding"


class TestBound:
    def test_the_bound_is_kept_at_every_moment(self, tmp_path, maps, one_size):
        cache = MapCache(tmp_path / "small", limit_bytes=int(2.5 * one_size))
        for n, embedding in enumerate(maps):
            cache.put(embedding)
            set_age(cache, embedding, hours=MAPS - n)
            assert cache.count() == min(n + 1, 2)
            assert cache.size_bytes() <= cache.limit_bytes
        assert kept(cache, maps) == [False, False, False, True, True]

    def test_the_least_recently_used_goes_first(self, cache, maps, one_size):
        cache.get(maps[0].provenance)
        assert cache.shrink(int(3.5 * one_size)) == 2
        assert kept(cache, maps) == [True, False, False, True, True]

    def test_clearing_removes_maps_and_nothing_else(self, cache):
        (cache.folder / "notes.txt").write_text("mine")
        assert cache.shrink(0) == MAPS
        assert [path.name for path in cache.folder.iterdir()] == ["notes.txt"]


_OTHER = """
import sys
from pathlib import Path
from test_cache import MapCache, is_equal, numbered
cache = MapCache(Path(sys.argv[1]), int(sys.argv[2]))
maps = [numbered(n) for n in range(5)]
print("ready", flush=True)
for number in range(50):
    embedding = maps[number * 3 % 5]
    found = cache.get(embedding.provenance)
    assert found is None or is_equal(found, embedding)
    cache.put(embedding)
    cache.shrink(int(sys.argv[2]) * (number % 2))
print("done")
"""


def test_two_programs_share_a_cache_at_once(tmp_path, maps, one_size):
    """Both put, use and remove the same maps: each answer is whole or absent, and no half-written file stays."""
    folder = tmp_path / "cache"
    limit = int(2.5 * one_size)
    command = [sys.executable, "-c", _OTHER, str(folder), str(limit)]
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path])
    }
    other = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
    cache = MapCache(folder, limit)
    answers = 0
    assert other.stdout.readline() == "ready\n"
    for number in count():
        if other.poll() is not None:
            break
        embedding = maps[number % MAPS]
        cache.put(embedding)
        found = cache.get(embedding.provenance)
        assert found is None or is_equal(found, embedding)
        answers += found is not None
    assert other.communicate()[0] == "done\n"
    assert other.returncode == 0
    assert answers
    cache.shrink(limit)
    assert all(path.name.endswith(".map.safetensors") for path in folder.iterdir())
    assert not list(folder.glob(".*"))
    assert cache.size_bytes() <= limit
