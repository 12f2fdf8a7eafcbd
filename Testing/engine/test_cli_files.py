"""Test files of all commands: inputs are not changed, a full disk is reported, no file is left half-written."""

import errno
import os
import signal
from pathlib import Path

import pytest
from cli_runs import assert_refused

from AnatomicalEmbedding.files import atomic_path

pytestmark = pytest.mark.usefixtures("kept_maps")


def given(source, path):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(source.read_bytes())
    return path


class TestInputsStay:
    def test_by_register(self, anatemb, place, tmp_path):
        moving = given(place.target, tmp_path / "moving_on_fixed.nii.gz")
        words = ("register", place.template, moving, "-o", tmp_path, *place.model)
        assert_refused(anatemb(*words), moving, "would be overwritten by results")
        points = given(place.points, tmp_path / "points_in_moving.mrk.json")
        words = (
            "register",
            place.template,
            place.target,
            "--points",
            points,
            "-o",
            tmp_path / ".." / tmp_path.name,
        )
        assert_refused(anatemb(*words), points, "would be overwritten by results")
        assert moving.read_bytes() == place.target.read_bytes()

    def test_by_the_demo(self, anatemb, tmp_path):
        path = tmp_path / "template.mrk.json"
        path.write_text("mine")
        assert_refused(anatemb("demo", "-o", tmp_path), path, "would be overwritten by results")
        assert path.read_text() == "mine"


def test_ctrl_c_is_one_line(anatemb, monkeypatch):
    def interrupted(options: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("AnatomicalEmbedding.cli.info.run", interrupted)
    outcome = anatemb("info")
    assert (outcome.code, outcome.out, outcome.err.count("\n")) == (130, "", 1)


class TestFullDisk:
    def test_it_is_reported(self, anatemb, monkeypatch):
        def full(options: object) -> None:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        monkeypatch.setattr("AnatomicalEmbedding.cli.info.run", full)
        assert_refused(
            anatemb("info"), "the disk is full; delete files, then run the same command again"
        )


class TestBeingEnded:
    @pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP"])
    def test_leaves_nothing_half_written(self, name, anatemb, monkeypatch, tmp_path):
        number = getattr(signal, name, None)
        if number is None:
            pytest.skip(f"there is no {name} here")

        def ended(options: object) -> None:
            with atomic_path(tmp_path / "map.safetensors") as path:
                path.write_text("half")
                signal.raise_signal(number)

        monkeypatch.setattr("AnatomicalEmbedding.cli.info.run", ended)
        before = signal.signal(number, signal.SIG_DFL)  # pytest may run under nohup
        try:
            with pytest.raises(SystemExit) as end:
                anatemb("info")
            assert signal.getsignal(number) == signal.SIG_DFL
        finally:
            signal.signal(number, before)
        assert end.value.code == 128 + number
        assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("command", ["match", "register"])
def test_an_output_folder_that_is_a_file_is_refused_before_any_work(
    command, anatemb, place, tmp_path, monkeypatch
):
    monkeypatch.setattr(
        "AnatomicalEmbedding.cli.console.open_model", lambda *_: pytest.fail("work was begun")
    )
    (tmp_path / "file").write_text("")
    given = {
        "match": (place.template, place.points, place.target, "--no-report"),
        "register": (place.template, place.target, "--no-report"),
    }
    words = (command, *given[command], "-o")
    if Path("/proc").is_dir():  # where even root cannot write
        assert_refused(anatemb(*words, "/proc/out"), "/proc/out: /proc cannot be written")
    refused = anatemb(*words, tmp_path / "file")
    assert_refused(refused, "file: is a file; choose another output folder")
    refused = anatemb(*words, tmp_path / "file" / "out")
    assert_refused(refused, f"out: {tmp_path / 'file'} is a file; choose another output folder")
