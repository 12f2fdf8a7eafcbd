"""Test the preparation of scans: which scans are found, reused or left out, and what the user is told."""

import json
import multiprocessing
import os
import subprocess
import sys

import numpy as np
import pytest
import SimpleITK as sitk
from cli_runs import rows_of
from small_models import write_small_weights

from AnatomicalEmbedding.errors import AnatomicalEmbeddingError
from AnatomicalEmbedding.scan.volume import Volume
from AnatomicalEmbedding.training.frames import LevelTable
from AnatomicalEmbedding.training.preparation import REPORT, prepare_set
from AnatomicalEmbedding.training.scans import PreparedScan

FOLDER_MM = (8.0, 8.0, 8.0)
MANY = 40

LEVELS = LevelTable(
    {"kidney_centre": 257, "carina": 469, "brainstem": 700, "larynx": 600},
    {"good": {"carina": -30.0}},
)


@pytest.fixture(scope="module")
def small_ct(phantom_pair):
    """A torso of 8 mm voxels that can be written and prepared at once."""
    volume = phantom_pair[0].volume
    return Volume(
        volume.voxels[::2, ::2, ::2],
        volume.ijk_to_ras @ np.diag([2.0, 2.0, 2.0, 1.0]),
        name="small",
    )


def prepare(tmp_path, levels=None):
    lines = []
    (tmp_path / "ct").mkdir(exist_ok=True)

    def run(**options):
        options = {"levels": levels or LEVELS, "report": lines.append} | options
        return prepare_set([tmp_path / "ct"], FOLDER_MM, tmp_path / "prepared", **options)

    return lines, run


def test_prepared_scans_are_reused(small_ct, tmp_path):
    lines, run = prepare(tmp_path)
    small_ct.write(tmp_path / "ct" / "good.nii.gz")
    (path,) = run()
    written = path.stat().st_mtime_ns
    assert run() == [path]
    assert path.stat().st_mtime_ns == written
    small_ct.write(tmp_path / "ct" / "good.nii.gz")  # may be another scan
    assert run() == [path]
    assert path.stat().st_mtime_ns > written
    assert lines == ["prepared good"] * 3


# More than one folder, kind and process


def test_bad_tiny_foreign_and_duplicate_scans_do_not_stop_the_others(small_ct, tmp_path):
    lines, run = prepare(tmp_path)
    folder = tmp_path / "ct"
    small_ct.write(folder / "good.nii.gz")
    Volume(small_ct.voxels[::-1], small_ct.ijk_to_ras @ flip_k(small_ct.shape[0])).write(
        folder / "good_again.nrrd"
    )
    (folder / "corrupt.nii.gz").write_bytes(b"\x1f\x8b damaged")
    Volume(small_ct.voxels[:8], small_ct.ijk_to_ras).write(folder / "tiny.nii.gz")
    sitk.WriteImage(
        sitk.GaussianSource(sitk.sitkFloat32, [40, 40, 40], [9.0] * 3, [20.0] * 3),
        str(folder / "mr.nii.gz"),
    )
    names = ("good", "good_again", "corrupt", "tiny", "mr")
    paths = run(levels=LevelTable({"carina": 469}, {name: {"carina": -30.0} for name in names}))
    assert [p.name for p in paths] == ["good.safetensors"]
    rows = {row["name"]: row for row in rows_of(tmp_path / "prepared" / REPORT)}
    assert {name for name, row in rows.items() if row["used"] == "yes"} == {"good"}
    assert "is the same scan as" in rows["good_again"]["reason"]
    for name in names[2:]:
        assert name in rows[name]["reason"]
    assert sorted(p.name for p in (tmp_path / "prepared").iterdir()) == ["good.safetensors", REPORT]
    assert sum(line.startswith("skipped: ") for line in lines) == 4


def flip_k(slices):
    """Matrix from the voxels of a scan stored upside down to those of the scan."""
    matrix = np.diag([1.0, 1.0, -1.0, 1.0])
    matrix[2, 3] = slices - 1
    return matrix


@pytest.fixture
def many(small_ct, tmp_path):
    """Folder of scans that take two processes a while, and readings that place them."""
    (tmp_path / "ct").mkdir()
    names = [f"ct{n:02d}" for n in range(MANY)]
    for n, name in enumerate(names):
        Volume(small_ct.voxels + np.int16(n), small_ct.ijk_to_ras).write(
            tmp_path / "ct" / f"{name}.nii.gz"
        )
    levels = {
        "body_height_mm": {"carina": 469},
        "scans": {name: {"carina": -30.0} for name in names},
    }
    (tmp_path / "train_levels.json").write_text(json.dumps(levels))
    return tmp_path / "ct"


def test_a_killed_process_is_reported_and_the_next_run_goes_on(many, tmp_path):
    def kill(line):
        for process in multiprocessing.active_children():
            process.kill()

    levels = LevelTable.read(tmp_path / "train_levels.json")
    with pytest.raises(AnatomicalEmbeddingError, match="the system ended a process"):
        prepare_set([many], FOLDER_MM, tmp_path / "set", levels=levels, jobs=2, report=kill)
    assert multiprocessing.active_children() == []
    written = {path: path.stat().st_mtime_ns for path in (tmp_path / "set").iterdir()}
    assert 0 < len(written) < MANY
    assert len(prepare_set([many], FOLDER_MM, tmp_path / "set", levels=levels)) == MANY
    assert all(path.stat().st_mtime_ns == changed for path, changed in written.items())


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such signals")
def test_processes_end_with_the_command(many, tmp_path):
    words = ["prepare", many, "-o", tmp_path / "set", "--recipe", "ape", "--jobs", 2]
    command = [sys.executable, "-m", "AnatomicalEmbedding", *map(str, words)]
    run = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True)
    assert run.stderr.readline().startswith("prepared ")
    run.terminate()
    run.communicate(timeout=60)  # further processes hold its stderr: it ends with the last of them
    assert run.returncode == 143  # of SIGTERM
    assert len(list((tmp_path / "set").glob("*.safetensors"))) < MANY


def test_scans_without_readings_are_placed_by_a_model(small_ct, tmp_path):
    _, run = prepare(tmp_path)
    small_ct.write(tmp_path / "ct" / "unread.nii.gz")
    weights = write_small_weights(tmp_path)
    (path,) = run(levels=None, model=str(weights))
    guess = PreparedScan.load(path).frame
    assert np.isfinite(guess.scale).all()
    assert (guess.shift_sd_mm > 0).all()
