"""Test DICOMweb with a real server: Orthanc, started on this machine, stopped in mid-work and locked."""

from __future__ import annotations

import errno
import json
import socket
import subprocess
import time
from pathlib import Path

import numpy as np
import pytest
from cli_runs import assert_refused
from dicom_series import write_ct_series
from report_checks import check
from system_packages import DICOMWEB_PLUGIN, find_program

from AnatomicalEmbedding.dicom.dicomweb import Series, Server
from AnatomicalEmbedding.dicom.sr import read_any_points
from AnatomicalEmbedding.errors import AnatomicalEmbeddingError
from AnatomicalEmbedding.scan.points import PointList, write_markups
from AnatomicalEmbedding.scan.volume import Volume

highdicom = pytest.importorskip("highdicom")
requests = pytest.importorskip("requests")
pytest.importorskip("dicomweb_client")
# of the patient on the table, from the first study to the second
SHIFT_RAS = np.array([7.0, -5.0, 12.0])
ORTHANC = find_program("orthanc")
pytestmark = pytest.mark.skipif(
    ORTHANC is None or not Path(DICOMWEB_PLUGIN).exists(),
    reason="no Orthanc: the first lines of `make test` name the missing packages",
)


class Orthanc:
    """A server that keeps its files in a folder; it can be stopped and started again."""

    def __init__(self, folder: Path, **settings: object) -> None:
        folder.mkdir()
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}/dicom-web"
        self.config = folder / "orthanc.json"
        self.config.write_text(json.dumps({
            "Plugins": [DICOMWEB_PLUGIN], "StorageDirectory": str(folder / "db"), "IndexDirectory": str(folder / "db"),
            "HttpPort": self.port, "RemoteAccessAllowed": False, "DicomServerEnabled": False,
            "DicomWeb": {"Enable": True, "Root": "/dicom-web/"}, **settings,
        }))  # fmt: skip
        self.start()

    def start(self) -> None:
        log = self.config.with_suffix(".log").open("ab")
        self.process = subprocess.Popen([ORTHANC, self.config], stdout=log, stderr=log)
        for _ in range(300):
            try:
                requests.get(f"http://127.0.0.1:{self.port}/system", timeout=5)
            except requests.ConnectionError:
                assert self.process.poll() is None, self.config.with_suffix(".log").read_text()
                time.sleep(0.1)
            else:
                return
        raise AssertionError("Orthanc does not answer")

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(30)


@pytest.fixture(scope="module")
def studies(phantom_pair, tmp_path_factory) -> dict[str, Path]:
    """Two studies of one patient, the later one moved on the table: folder of slices by name."""
    folder = tmp_path_factory.mktemp("studies")
    first = phantom_pair[0].volume
    moved = first.ijk_to_ras.copy()
    moved[:3, 3] += SHIFT_RAS
    noise = np.random.default_rng(5).normal(0, 12, first.voxels.shape).round().astype(np.int16)
    write_ct_series(folder / "prior", first, StudyDate="20230110", StudyInstanceUID="1.2.826.1.1")
    write_ct_series(
        folder / "current",
        Volume(first.voxels + noise, moved),
        StudyDate="20240210",
        StudyInstanceUID="1.2.826.1.2",
    )
    few = Volume(first.voxels[:3], moved)  # not a volume: it is left out
    write_ct_series(folder / "few", few, StudyDate="20240210", StudyInstanceUID="1.2.826.1.2")
    return {name: folder / name for name in ("prior", "current", "few")}


@pytest.fixture(scope="module")
def orthanc(studies, tmp_path_factory):
    """A server with both studies."""
    server = Orthanc(tmp_path_factory.mktemp("server") / "orthanc")
    for folder in studies.values():
        Server(server.url).store(sorted(folder.iterdir()))
    yield server
    server.stop()


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("ANATEMB_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.mark.usefixtures("by_maps")
def test_follow_up_reads_two_studies_and_stores_its_proposals(
    anatemb, orthanc, phantom_pair, tmp_path
):
    truth = phantom_pair[0].points_ras
    labels = ("heart_apex", "liver_dome") if "liver_dome" in truth else tuple(sorted(truth))[:2]
    places = np.array([truth[label] for label in labels])
    write_markups(tmp_path / "lesions.mrk.json", PointList(labels, places))
    prior, current = (f"dicomweb:{orthanc.url}/studies/1.2.826.1.{n}" for n in (1, 2))
    words = ("-o", tmp_path / "out", "--store", orthanc.url, "--no-report", "--device", "cpu")
    outcome = anatemb("followup", prior, tmp_path / "lesions.mrk.json", current, *words)
    assert outcome.code == 0, outcome.err
    assert "stored 2 files" in outcome.out
    # another machine reads from the server: the lesions, and the proposals with the same tracking UIDs
    uids = {}
    for study, true in (("1.2.826.1.1", places), ("1.2.826.1.2", places + SHIFT_RAS)):
        (series,) = Server(orthanc.url).series_of_study(study, "SR")
        path = Server(orthanc.url).download(series, tmp_path / "elsewhere")
        assert np.abs(read_any_points(path).points_ras - true).max() < 8
        groups = highdicom.sr.srread(path).content.get_image_measurement_groups()
        uids[study] = {group.tracking_uid for group in groups}
    assert len(uids["1.2.826.1.1"]) == 2
    assert uids["1.2.826.1.1"] == uids["1.2.826.1.2"]
    written = sorted((tmp_path / "out").glob("*.dcm"))
    assert len(written) == 2
    assert [check(path) for path in written] == [[], []]


def test_priors_are_listed_with_the_slice_that_shows_the_place(anatemb, orthanc, studies, cache):
    outcome = anatemb("priors", orthanc.url, "P1", "liver", "--json", "--device", "cpu")
    assert outcome.code == 0, outcome.err
    rows = json.loads(outcome.out)["priors"]
    assert [(row["date"], row["study_uid"]) for row in rows] == [
        ("20240210", "1.2.826.1.2"), ("20230110", "1.2.826.1.1"),
    ]  # fmt: skip
    import pydicom

    for row, name in zip(rows, ("current", "prior"), strict=True):
        slices = {
            each.SOPInstanceUID: each for each in map(pydicom.dcmread, studies[name].iterdir())
        }
        image = slices[row["image_uid"]]
        assert image.InstanceNumber == row["slice"]
        assert abs(image.ImagePositionPatient[2] - row["s"]) <= 2.0 + 1e-3  # half a slice
    assert_refused(anatemb("priors", orthanc.url, "nobody", "liver"), "has no CT of this patient")


def test_a_download_continues_after_the_server_was_stopped(orthanc, studies, tmp_path, monkeypatch):
    (series,) = Server(orthanc.url).series_of_study("1.2.826.1.1", "CT")
    server = Server(orthanc.url)
    count = len(list(studies["prior"].iterdir()))
    retrieve = server._client.retrieve_instance
    asked = []

    def stop_after_ten(*words: object, **named: object):
        asked.append(words)
        if len(asked) == 11:
            orthanc.stop()
        return retrieve(*words, **named)

    monkeypatch.setattr(server._client, "retrieve_instance", stop_after_ten)
    with pytest.raises(
        AnatomicalEmbeddingError,
        match=rf"does not answer; .* 10 of {count} files are kept; to continue",
    ):
        server.download(series, tmp_path)
    assert len(list((tmp_path / series.study_uid / series.uid).glob("*.dcm"))) == 10
    orthanc.start()
    kept = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.dcm")}
    monkeypatch.undo()
    folder = server.download(series, tmp_path)
    assert {path: path.stat().st_mtime_ns for path in kept} == kept
    assert np.array_equal(Volume.read(folder).voxels, Volume.read(studies["prior"]).voxels)


def test_results_are_kept_if_the_server_stops_and_can_be_stored_later(
    anatemb, orthanc, studies, tmp_path
):
    files = sorted(studies["prior"].iterdir())[:2]
    orthanc.stop()
    try:
        outcome = anatemb("store", orthanc.url, *files)
        assert_refused(
            outcome,
            "does not answer",
            f"the files are kept; send them with: anatemb store {orthanc.url}",
            files[1],
        )
        outcome = anatemb(
            "locate", studies["prior"], "-o", tmp_path / "out", "--store", orthanc.url
        )
        assert_refused(outcome, "does not answer")  # before any work
        assert not (tmp_path / "out").exists()
    finally:
        orthanc.start()
    assert anatemb("store", orthanc.url, *files).code == 0


def test_a_wrong_password_is_one_line_without_the_password(anatemb, studies, tmp_path):
    locked = Orthanc(
        tmp_path / "locked", AuthenticationEnabled=True, RegisteredUsers={"ann": "right"}
    )
    try:
        files = sorted(studies["prior"].iterdir())[:1]
        for secret in ("", "ann:wrong@"):
            address = locked.url.replace("//", f"//{secret}")
            outcome = anatemb("store", address, *files)
            assert_refused(outcome, "refused the user name or the password", "~/.netrc")
            outcome = anatemb("locate", f"dicomweb:{address}/studies/1.2.3", "-o", tmp_path / "out")
            assert_refused(outcome, "refused the user name or the password")
            assert "wrong" not in outcome.err
        assert anatemb("store", locked.url.replace("//", "//ann:right@"), *files).code == 0
    finally:
        locked.stop()


def test_a_full_disk_keeps_the_complete_files(anatemb, orthanc, cache, monkeypatch):
    """The disk is full from the sixth file on."""
    from pydicom import Dataset

    save = Dataset.save_as
    saved = []

    def full(dataset: Dataset, path: Path, *words: object, **named: object) -> None:
        saved.append(path)
        if len(saved) > 5:
            path.write_bytes(b"part")
            raise OSError(errno.ENOSPC, "No space left on device", str(path))
        save(dataset, path, *words, **named)

    monkeypatch.setattr(Dataset, "save_as", full)
    outcome = anatemb(
        "levels", f"dicomweb:{orthanc.url}/studies/1.2.826.1.1", "-o", cache.parent / "out"
    )
    assert outcome.code == 2
    assert outcome.err.splitlines()[-1].endswith(
        "the disk is full; delete files, then run the same command again."
    )
    files = list((cache / "dicomweb").rglob("*"))
    assert len([path for path in files if path.is_file()]) == 5  # no file is left half-written


def test_addresses_that_are_incomplete_or_wrong_are_refused(anatemb, orthanc, tmp_path):
    words = ("-o", tmp_path / "out")
    assert_refused(
        anatemb("levels", "dicomweb:http://x/dicom-web", *words),
        "is not complete; write dicomweb:https://",
    )
    missing = f"dicomweb:{orthanc.url}/studies/1.2.3.4"
    assert_refused(anatemb("levels", missing, *words), "has no CT series in the study 1.2.3.4")
    other = f"dicomweb:http://127.0.0.1:{orthanc.port}/nothing/studies/1.2.3"
    assert_refused(anatemb("levels", other, *words), "has nothing at this address")
    with pytest.raises(AnatomicalEmbeddingError, match="is not a UID"):
        Server(orthanc.url).download(Series("../..", "1.2"), tmp_path)
