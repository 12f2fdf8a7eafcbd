"""Test that no output, file or message of a command contains the patient's identity, unless the user asks."""

from __future__ import annotations

from pathlib import Path

import pytest
from dicom_series import write_ct_series

from AnatomicalEmbedding.cli import main
from AnatomicalEmbedding.scan.points import PointList, write_markups

pytest.importorskip("pydicom")

NAME, NUMBER, BORN, ACCESSION, DOCTOR = "Quonsett^Zyxwva", "QX-81-77-PT", "19470613", "ACC5550199", "Vrrmst^Hjalmar"
SECRETS = [text.encode() for text in ("Quonsett", "Zyxwva", NUMBER, BORN, ACCESSION, "Vrrmst", "Hjalmar")]


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


def test_no_command_names_the_patient(folders, phantom_pair, tmp_path, monkeypatch, capfd, caplog):
    monkeypatch.setenv("ANATEMB_CACHE", str(tmp_path / "cache"))
    label, point = next(iter(phantom_pair[0].points_ras.items()))
    write_markups(tmp_path / "points.mrk.json", PointList((label,), [point]))
    first, second = map(str, folders)
    out = tmp_path / "out"
    commands = [
        ["info", first, "--check"],
        ["match", first, str(tmp_path / "points.mrk.json"), second, "-o", str(out / "match")],
        ["find", "liver", first, "-o", str(out / "find")],
        ["cohort", "run", str(out / "cohort"), first, second, "--workers", "1"],
        ["cohort", "status", str(out / "cohort")],
    ]
    said = []
    for words in commands:
        code = main([*words, *(["--device", "cpu"] if words[0] in ("match", "find") else [])])
        printed = capfd.readouterr()
        said.append(printed.out + printed.err)
        assert code == 0, (words, said[-1])
    text = "".join([*said, caplog.text]).encode()
    written = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert {path.suffix for path in written} >= {".safetensors", ".html", ".json", ".sqlite"}
    for secret in SECRETS:
        assert secret not in text
        assert [path for path in written if secret in path.read_bytes()] == []
