"""Test that no output, file or message of a command contains the patient's identity.

The exception are DICOM objects: the standard asks for the patient and the study of the source images in them.
"""

import gzip
from pathlib import Path

import pytest
from dicom_series import write_ct_series

from AnatomicalEmbedding.cli import main
from AnatomicalEmbedding.scan.points import PointList, write_markups

pytest.importorskip("pydicom")

NAME = "Quonsett^Zyxwva"
NUMBER = "QX-81-77-PT"
BORN = "19470613"
ACCESSION = "ACC5550199"
DOCTOR = "Vrrmst^Hjalmar"
SECRETS = [
    text.encode() for text in ("Quonsett", "Zyxwva", NUMBER, BORN, ACCESSION, "Vrrmst", "Hjalmar")
]


@pytest.fixture(scope="module")
def folders(tmp_path_factory, phantom_pair) -> list[Path]:
    """Two studies of a made-up person."""
    made = []
    for number, phantom in enumerate(phantom_pair):
        made.append(tmp_path_factory.mktemp("in") / f"study{number}")
        write_ct_series(
            made[-1], phantom.volume, PatientName=NAME, PatientID=NUMBER, PatientBirthDate=BORN,
            AccessionNumber=ACCESSION, ReferringPhysicianName=DOCTOR,
        )  # fmt: skip
    return made


@pytest.fixture
def run_all(phantom_pair, tmp_path, monkeypatch, capfd, caplog):
    """A function that runs commands, fails if a message or a file names the patient, and returns the files.

    Only DICOM files may name the patient.
    """
    monkeypatch.setenv("ANATEMB_CACHE", str(tmp_path / "cache"))
    label, point = next(iter(phantom_pair[0].points_ras.items()))
    write_markups(tmp_path / "points.mrk.json", PointList((label,), [point]))

    def run(commands: list[list[str]]) -> list[Path]:
        said = []
        for words in commands:
            code = main(
                [*words, *(["--device", "cpu"] if words[0] not in ("info", "cohort") else [])]
            )
            printed = capfd.readouterr()
            said.append(printed.out + printed.err)
            assert code == 0, (words, said[-1])
        text = "".join([*said, caplog.text]).encode()
        written = [path for path in tmp_path.rglob("*") if path.is_file()]
        for secret in SECRETS:
            assert secret not in text
            assert [
                path for path in written if path.suffix != ".dcm" and secret in _content(path)
            ] == []
            assert [path for path in written if secret in path.name.encode()] == []
        return written

    return run


def _content(path: Path) -> bytes:
    data = path.read_bytes()
    return gzip.decompress(data) if path.suffix == ".gz" else data


def test_no_command_names_the_patient(folders, run_all, tmp_path):
    first, second = map(str, folders)
    out = tmp_path / "out"
    written = run_all(
        [
            ["info", first, "--check"],
            ["match", first, str(tmp_path / "points.mrk.json"), second, "-o", str(out / "match")],
            ["find", "liver", first, "-o", str(out / "find")],
            ["cohort", "run", str(out / "cohort"), first, second, "--workers", "1"],
            ["cohort", "status", str(out / "cohort")],
        ]
    )
    assert {path.suffix for path in written} >= {".safetensors", ".html", ".json", ".sqlite"}


@pytest.mark.long
def test_only_dicom_objects_name_the_patient(folders, run_all, tmp_path):
    pytest.importorskip("highdicom")
    first, second = map(str, folders)
    out = tmp_path / "out"
    written = run_all(
        [
            ["locate", first, second, "-o", str(out / "locate")],
            ["crop", first, "--structures", "liver", "-o", str(out / "crop")],
            ["register", first, second, "--kind", "affine", "-o", str(out / "register")],
            [
                "followup",
                first,
                str(tmp_path / "points.mrk.json"),
                second,
                "-o",
                str(out / "followup"),
                "--sr",
            ],
        ]
    )
    assert {path.suffix for path in written} >= {
        ".safetensors",
        ".html",
        ".json",
        ".gz",
        ".h5",
        ".csv",
    }
    reports = [path for path in written if path.suffix == ".dcm"]
    assert any(SECRETS[0] in path.read_bytes() for path in reports), (
        "a report names the patient, as the standard asks"
    )
