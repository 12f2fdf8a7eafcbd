"""The cache of maps: found by content, bounded, least recently used out first, never a reason to fail."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from contextlib import contextmanager
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


def set_age(cache: MapCache, embedding: EmbeddingMap, hours: float) -> None:
    """Make the kept map look as if last used some hours ago."""
    name = embedding.provenance.scan_hash[:24]
    (path,) = (p for p in cache.folder.iterdir() if p.name.startswith(name))
    now = path.stat().st_mtime
    os.utime(path, (now - hours * 3600, now - hours * 3600))


def kept(cache: MapCache, maps: list[EmbeddingMap]) -> list[bool]:
    """Which of the maps are still there, without using them."""
    names = {path.name for path in cache.folder.iterdir()}
    return [any(name.startswith(m.provenance.scan_hash[:24]) for name in names) for m in maps]


@pytest.fixture
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
            assert torch.equal(found.coordinate, embedding.coordinate)
            assert found.provenance == embedding.provenance
        assert cache.get(numbered(99).provenance) is None
        other_weights = analytic_map(np.copy, name="scan 0", weights_hash="cd" * 32)
        assert cache.get(other_weights.provenance) is None

    def test_an_absent_folder_is_an_empty_cache(self, tmp_path):
        cache = MapCache(tmp_path / "nowhere")
        assert cache.get(numbered(0).provenance) is None
        assert (cache.count(), cache.size_bytes(), cache.shrink(0)) == (0, 0, 0)
        assert not cache.folder.exists()

    def test_a_damaged_file_counts_as_absent_and_is_removed(self, cache, maps):
        (path,) = (p for p in cache.folder.iterdir() if p.name.startswith(maps[2].provenance.scan_hash[:24]))
        path.write_bytes(path.read_bytes()[:-100])
        assert cache.get(maps[2].provenance) is None
        assert not path.exists()
        assert kept(cache, maps) == [True, True, False, True, True]
        cache.put(maps[2])
        assert cache.get(maps[2].provenance) is not None

    def test_putting_a_map_again_keeps_one(self, cache, maps):
        cache.put(maps[0])
        assert cache.count() == MAPS

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

    def test_a_big_old_map_goes_before_a_small_recent_one_and_a_small_older_one_does_not_outlive_it(
        self, tmp_path, one_size
    ):
        cache = MapCache(tmp_path / "mixed")
        mixed = [numbered(0), numbered(1, cells=64), numbered(2)]
        for n, embedding in enumerate(mixed):
            cache.put(embedding)
            set_age(cache, embedding, hours=3 - n)
        cache.shrink(int(2.5 * one_size))
        assert kept(cache, mixed) == [False, False, True]

    def test_a_map_bigger_than_the_bound_is_not_kept(self, tmp_path, one_size):
        cache = MapCache(tmp_path / "tiny", limit_bytes=one_size - 1)
        cache.put(numbered(0))
        assert (cache.count(), cache.size_bytes()) == (0, 0)

    def test_maps_dated_in_the_future_go_first(self, cache, maps, one_size):
        """After the computer's clock was set back, new maps would be the oldest, and none would be kept."""
        set_age(cache, maps[1], hours=-48)
        set_age(cache, maps[3], hours=-48)
        assert cache.shrink(int(3.5 * one_size)) == 2
        assert kept(cache, maps) == [True, False, True, False, True]

    def test_clearing_removes_maps_and_nothing_else(self, cache):
        (cache.folder / "notes.txt").write_text("mine")
        assert cache.shrink(0) == MAPS
        assert [path.name for path in cache.folder.iterdir()] == ["notes.txt"]


class TestFailing:
    def test_a_folder_that_cannot_be_made_is_no_reason_to_fail(self, tmp_path, maps):
        (tmp_path / "file").write_text("")
        cache = MapCache(tmp_path / "file" / "cache")
        cache.put(maps[0])
        assert cache.get(maps[0].provenance) is None

    def test_a_full_disk_is_no_reason_to_fail(self, cache):
        limits = pytest.importorskip("resource")  # POSIX only
        soft, hard = limits.getrlimit(limits.RLIMIT_FSIZE)
        limits.setrlimit(limits.RLIMIT_FSIZE, (1000, hard))
        try:
            cache.put(numbered(99))
        finally:
            limits.setrlimit(limits.RLIMIT_FSIZE, (soft, hard))
        assert cache.get(numbered(99).provenance) is None
        assert len(list(cache.folder.iterdir())) == MAPS

    @pytest.mark.skipif(not hasattr(os, "seteuid"), reason="permissions of POSIX")
    def test_a_read_only_folder_still_serves(self, maps):
        with tempfile.TemporaryDirectory() as below, _as_nobody(below):
            cache = MapCache(Path(below) / "cache")
            cache.put(maps[0])
            cache.folder.chmod(0o555)
            try:
                cache.put(maps[1])
                assert torch.equal(cache.get(maps[0].provenance).coordinate, maps[0].coordinate)
                assert cache.get(maps[1].provenance) is None
                assert cache.shrink(0) == 0
                assert cache.count() == 1
            finally:
                cache.folder.chmod(0o755)


@contextmanager
def _as_nobody(folder: str):
    """Without the rights of root, which no folder is read-only for."""
    Path(folder).chmod(0o777)
    before = os.geteuid()
    if before == 0:
        os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(before)


_OTHER = """
import sys
from small_models import analytic_map
from AnatomicalEmbedding.embedding.cache import MapCache
cache = MapCache(__import__("pathlib").Path(sys.argv[1]), int(sys.argv[2]))
maps = [analytic_map(lambda p, n=n: p + n, (8, 8, 8), name=f"scan {n}") for n in range(5)]
print("ready", flush=True)
for number in range(50):
    embedding = maps[number * 3 % 5]
    found = cache.get(embedding.provenance)
    assert found is None or found.coordinate.equal(embedding.coordinate)
    cache.put(embedding)
    cache.shrink(int(sys.argv[2]) * (number % 2))
print("done")
"""


def test_two_programs_share_a_cache_at_once(tmp_path, maps, one_size):
    """Both put, use and remove the same maps: each answer is whole or absent, and nothing half-written stays."""
    folder, limit = tmp_path / "cache", int(2.5 * one_size)
    command = [sys.executable, "-c", _OTHER, str(folder), str(limit)]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path])}
    other = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
    cache, answers = MapCache(folder, limit), 0
    assert other.stdout.readline() == "ready\n"
    for number in count():
        if other.poll() is not None:
            break
        embedding = maps[number % MAPS]
        cache.put(embedding)
        found = cache.get(embedding.provenance)
        assert found is None or torch.equal(found.coordinate, embedding.coordinate)
        answers += found is not None
    assert other.communicate()[0] == "done\n"
    assert other.returncode == 0
    assert answers
    cache.shrink(limit)
    assert all(path.name.endswith(".map.safetensors") for path in folder.iterdir())
    assert not list(folder.glob(".*"))
    assert cache.size_bytes() <= limit
