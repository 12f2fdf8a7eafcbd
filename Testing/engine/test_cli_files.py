"""What every command does with files: those given stay, and a full disk is told."""

from __future__ import annotations

import errno
import os
import signal
from pathlib import Path

import pytest
import SimpleITK as sitk
from cli_runs import assert_refused

from AnatomicalEmbedding.cli.console import ending_signals
from AnatomicalEmbedding.files import atomic_path
from AnatomicalEmbedding.scan.points import PointList, write_markups

pytestmark = pytest.mark.usefixtures("kept_maps")


def given(source, path):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(source.read_bytes())
    return path


class TestWhatIsGivenStays:
    def test_by_register(self, anatemb, place, tmp_path):
        moving = given(place.target, tmp_path / "moving_on_fixed.nii.gz")
        words = ("register", place.template, moving, "-o", tmp_path, *place.model)
        assert_refused(anatemb(*words), moving, "would be overwritten by the results")
        points = given(place.points, tmp_path / "points_in_moving.mrk.json")
        words = ("register", place.template, place.target, "--points", points, "-o", tmp_path / ".." / tmp_path.name)
        assert_refused(anatemb(*words), points, "would be overwritten by the results")
        assert moving.read_bytes() == place.target.read_bytes()

    def test_by_followup(self, anatemb, place, tmp_path):
        lesions = tmp_path / "patient.csv"
        lesions.write_text("label,r,a,s\n")
        words = ("followup", place.template, lesions, place.target, "-o", tmp_path, *place.model)
        assert_refused(anatemb(*words), lesions, "would be overwritten by the results")

    @pytest.mark.parametrize("name", ["template.nii.gz", "report.html", "template.mrk.json"])
    def test_by_the_demo(self, anatemb, tmp_path, name):
        (tmp_path / name).write_text("mine")
        assert_refused(anatemb("demo", "-o", tmp_path), tmp_path / name, "was not written by a demo")
        assert (tmp_path / name).read_text() == "mine"

    def test_a_demo_follows_a_demo(self, anatemb, tmp_path, monkeypatch):
        class BegunError(Exception):
            pass

        def begun(options):
            raise BegunError

        monkeypatch.setattr("AnatomicalEmbedding.cli.demo.open_model", begun)
        write_markups(tmp_path / "template.mrk.json", PointList(("carina",), [[0.0, 0, 0]]))
        (tmp_path / "template.nii.gz").write_text("")
        with pytest.raises(BegunError):
            anatemb("demo", "-o", tmp_path)


class TestFullDisk:
    @pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
    def test_it_is_reported(self, anatemb, monkeypatch, number):
        def full(options: object) -> None:
            raise OSError(number, os.strerror(number))

        monkeypatch.setattr("AnatomicalEmbedding.cli.cache.run", full)
        assert_refused(anatemb("cache"), "the disk is full; make room and run the same command again")

    def test_labels_laid_on_another_scan_are_whole(self, anatemb, place, tmp_path, monkeypatch):
        whole = sitk.WriteImage

        def half(image, path, **options):
            whole(image, path, **options)
            os.truncate(path, Path(path).stat().st_size // 2)

        labels = tmp_path / "labels.nii.gz"
        sitk.WriteImage(sitk.Cast(sitk.ReadImage(str(place.target)) > 0, sitk.sitkUInt8), str(labels))
        words = ("register", place.template, place.target, "--labels", labels, "--kind", "rigid", "--no-report")
        old = given(labels, tmp_path / "out" / "labels_on_fixed.nii.gz")
        monkeypatch.setattr(
            sitk, "WriteImage", lambda i, p, **o: (half if p.endswith("labels_on_fixed.nii.gz") else whole)(i, p, **o)
        )
        outcome = anatemb(*words, "-o", tmp_path / "out", *place.model)
        assert outcome.code == 2
        assert outcome.err.endswith("labels_on_fixed.nii.gz: could not be written whole; is the disk full?\n")
        assert old.read_bytes() == labels.read_bytes()


def test_points_are_given_once(anatemb, place, tmp_path):
    words = ("match", place.template, place.points, "--point", "0,0,0", place.target, "-o", tmp_path / "out")
    assert_refused(anatemb(*words), place.points, "--point is given too; leave one out")


def test_a_file_that_is_no_weights_is_reported(anatemb, place, tmp_path):
    words = ("match", place.template, place.points, place.target, "-o", tmp_path / "out", "--model", place.points)
    assert_refused(anatemb(*words), place.points, "is no weights file; give one that ends in .safetensors")


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

        monkeypatch.setattr("AnatomicalEmbedding.cli.cache.run", ended)
        before = signal.signal(number, signal.SIG_DFL)  # pytest may run under nohup
        try:
            with pytest.raises(SystemExit) as end:
                anatemb("cache")
            assert signal.getsignal(number) == signal.SIG_DFL
        finally:
            signal.signal(number, before)
        assert end.value.code == 128 + number
        assert list(tmp_path.iterdir()) == []

    @pytest.mark.skipif(not hasattr(signal, "SIGHUP"), reason="there is no SIGHUP here")
    def test_a_closed_terminal_ends_nothing_that_nohup_keeps(self):
        before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
        try:
            assert ending_signals() == [signal.SIGTERM]
        finally:
            signal.signal(signal.SIGHUP, before)


@pytest.mark.parametrize("command", ["embed", "match", "register", "locate", "crop"])
def test_an_output_that_is_no_folder_is_refused_before_any_work(command, anatemb, place, tmp_path, monkeypatch):
    for module in ("embed", "console", "box_options"):
        monkeypatch.setattr(f"AnatomicalEmbedding.cli.{module}.open_model", lambda *_: pytest.fail("work was begun"))
    (tmp_path / "file").write_text("")
    given = {
        "embed": (place.template,),
        "match": (place.template, place.points, place.target, "--no-report"),
        "register": (place.template, place.target, "--no-report"),
        "locate": (place.template, "--no-report"),
        "crop": (place.template,),
    }
    words = (command, *given[command], "-o")
    assert_refused(anatemb(*words, tmp_path / "file"), "file: is a file; choose another output folder")
    assert_refused(anatemb(*words, tmp_path / "file" / "out"), "cannot be made; choose another output folder")
