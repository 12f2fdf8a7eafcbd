"""Test cohort runs with Dask: the maps are the same for any number of workers, and after workers were killed."""

import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from cli_runs import assert_refused
from cohort_scans import checksums, embed_waiting, states, write_parts
from small_models import write_small_weights

from AnatomicalEmbedding.cohort.store import Store

_ANATEMB = [sys.executable, "-m", "AnatomicalEmbedding", "cohort"]
_SCANS = 12


@pytest.fixture(scope="module")
def scans(tmp_path_factory) -> Path:
    """Twelve good scans, a copy and a cut one."""
    folder = tmp_path_factory.mktemp("scans")
    paths = write_parts(folder, _SCANS)
    shutil.copy(paths[3], folder / "x_copy.nii")
    (folder / "y_cut.nii").write_bytes(paths[0].read_bytes()[:5000])
    return folder


@pytest.fixture(scope="module")
def weights(tmp_path_factory) -> Path:
    return write_small_weights(tmp_path_factory.mktemp("weights"))


@pytest.fixture(scope="module")
def expected(scans, weights, tmp_path_factory) -> tuple[dict[str, str], dict[str, str]]:
    """Checksums and states of a run in one process."""
    with Store(tmp_path_factory.mktemp("expected") / "store", create=True) as store:
        store.add([scans])
        embed_waiting(store, weights)
        found = checksums(store), states(store)
    assert len(found[0]) == _SCANS
    return found


@pytest.fixture
def folder(tmp_path, scans) -> Path:
    with Store(tmp_path / "store", create=True) as store:
        store.add([scans])
    return tmp_path / "store"


def command(folder: Path, weights: Path, workers: str) -> list[str]:
    options = ["--model", str(weights), "--device", "cpu", "--workers", workers]
    return [*_ANATEMB, "run", str(folder), *options]


def outcome(folder: Path) -> tuple[dict[str, str], dict[str, str]]:
    with Store(folder) as store:
        assert store.verify() == []
        assert len(list(folder.glob("maps/*/*"))) == len(checksums(store))
        return checksums(store), states(store)


@pytest.mark.long
def test_killed_workers_and_a_killed_run_leave_the_same_maps(folder, weights, expected):
    first = subprocess.Popen(
        command(folder, weights, "2"), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    _wait_for_maps(folder, 2, first)
    workers = _workers(first.pid)
    for worker in workers:
        worker.kill()
    _wait_for_maps(folder, 4, first)
    after = _workers(first.pid)
    first.send_signal(signal.SIGKILL)
    first.wait()
    psutil.wait_procs(after, timeout=30)
    (folder / "maps" / "00").mkdir(exist_ok=True)
    (folder / "maps" / "00" / ".0123456789ab.00ff.map.safetensors").write_bytes(b"half")
    done = subprocess.run(command(folder, weights, "1"), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert f"{_SCANS} embedded, 1 duplicate, 1 unusable" in done.stdout
    assert "left" in done.stderr or "scans, " in done.stderr  # progress
    assert outcome(folder) == expected
    assert not any(
        worker.is_running() and worker.status() != psutil.STATUS_ZOMBIE for worker in after
    )


@pytest.mark.skipif(
    signal.getsignal(signal.SIGINT) is signal.SIG_IGN, reason="in the background Ctrl-C is ignored"
)
def test_interrupted_by_the_user(folder, weights, expected):
    first = subprocess.Popen(
        command(folder, weights, "1"), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    _wait_for_maps(folder, 1, first)
    first.send_signal(signal.SIGINT)
    _, said = first.communicate(timeout=60)
    assert first.returncode == 130
    assert said.splitlines()[-1] == "anatemb: interrupted; no file was left incomplete."
    assert "Traceback" not in said
    with Store(folder) as store:
        embed_waiting(store, weights)
    assert outcome(folder) == expected


def _wait_for_maps(folder: Path, count: int, process: subprocess.Popen) -> None:
    while len(list(folder.glob("maps/*/[!.]*"))) < count and process.poll() is None:
        time.sleep(0.02)


def _workers(pid: int) -> list[psutil.Process]:
    every = psutil.Process(pid).children(recursive=True)
    return [each for each in every if "spawn_main" in " ".join(each.cmdline())]


def test_a_folder_without_scans_is_refused_and_no_cohort_is_made(anatemb, tmp_path):
    (tmp_path / "empty").mkdir()
    assert_refused(
        anatemb("cohort", "run", tmp_path / "store", tmp_path / "empty"),
        "empty",
        "contains no scan",
    )
    assert not (tmp_path / "store").exists()
