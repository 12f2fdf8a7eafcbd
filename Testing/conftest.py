"""Fixtures shared by all tests."""

import errno
import os
import socket
import tempfile
from dataclasses import replace
from ipaddress import ip_address
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from system_packages import has_browser, missing_libraries

from AnatomicalEmbedding.phantom import Phantom, make_phantom

_REAL_DATA = Path(
    os.environ.get("ANATEMB_TEST_DATA", Path(__file__).resolve().parents[2] / "shared" / "data")
)
_CANNOT_DRAW = bool(missing_libraries())
_DRAW = {"drawing", "kit"}  # fixtures

# a machine that is busy is no failure
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")


def _connect(one: socket.socket, address: object, connect: object = socket.socket.connect) -> None:
    """As `socket.socket.connect`, on this machine only."""
    if one.family in (socket.AF_INET, socket.AF_INET6) and not _is_here(address[0]):
        raise OSError(errno.ENETUNREACH, f"tests use no network, {address[0]} was asked for")
    connect(one, address)


def _is_here(host: str) -> bool:
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


socket.socket.connect = _connect  # for all tests; programs that they start are not held by it


def pytest_configure(config: pytest.Config) -> None:
    """Give all processes of a run one cache of maps, so that none of an earlier run or of the user's is read."""
    if hasattr(config, "workerinput"):  # a process that the first one has started
        return
    cache = tempfile.TemporaryDirectory(prefix="anatemb-tests-")
    config.add_cleanup(cache.cleanup)
    os.environ["ANATEMB_CACHE"] = cache.name


@pytest.fixture(scope="session")
def real_data() -> Path:
    """Folder of real CTs (`train/`, `dev/`); the test is skipped where it is absent."""
    if not _REAL_DATA.is_dir():
        pytest.skip("no real CTs here (set ANATEMB_TEST_DATA to a folder with train/ and dev/)")
    return _REAL_DATA


@pytest.fixture(scope="session")
def drawing() -> None:
    """Requested by what draws with Qt or VTK, whose libraries are the system's; `kit` counts as well."""


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip tests for which the system lacks something: here, and not in fixtures, so that the summary has one line."""
    if _CANNOT_DRAW and not _DRAW.isdisjoint(item.fixturenames):
        pytest.skip("cannot draw: the first lines of `make test` name the missing packages")
    if "browser" in item.fixturenames and not has_browser():
        pytest.skip("no browser to drive: the first lines of `make test` name the missing packages")


@pytest.fixture(scope="session")
def phantom_pair() -> tuple[Phantom, Phantom]:
    """Two synthetic torsos (4 mm, small and quick) of seeds that no weights were trained on."""
    first, second = (
        make_phantom(seed, spacing=(4.0, 4.0, 4.0), coverage_mm=(185.0, 430.0)) for seed in (71, 72)
    )
    return first, second


@pytest.fixture(scope="session")
def map_folder() -> Path:
    """Cache of maps, so that each scan is embedded once for all tests."""
    return Path(os.environ["ANATEMB_CACHE"])


@pytest.fixture(scope="session")
def other_weights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Weights that answer as the shipped ones do, in another file: they have no library and no atlas."""
    from AnatomicalEmbedding.embedding.models.registry import find_weights, write_weights

    path = tmp_path_factory.mktemp("weights") / "other.safetensors"
    write_weights(find_weights().network, path, "other", {})
    return path


@pytest.fixture(scope="session")
def finders() -> dict:
    """Finders of places by scan."""
    return {}


@pytest.fixture
def kept_finders(finders, monkeypatch) -> None:
    """Each scan is read for words once for all tests; a finder holds a copy of the map, so that a test's own can go."""
    from AnatomicalEmbedding import words

    make = words.PlaceFinder

    def kept(embedding, volume):
        key = embedding.provenance.scan_hash, embedding.provenance.weights_hash
        if key not in finders:
            finders[key] = make(replace(embedding), volume)
        return finders[key]

    monkeypatch.setattr(words, "PlaceFinder", kept)
