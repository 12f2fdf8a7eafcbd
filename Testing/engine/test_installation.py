"""Test what `anatemb doctor` reports about packages and weights, and the wheel that `anatemb bundle` writes."""

import json
import os
import subprocess
import sys
import zipfile
from importlib.metadata import distribution, requires, version
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from small_models import write_small_weights

from AnatomicalEmbedding import __version__, errors
from AnatomicalEmbedding.embedding.models.registry import find_weights
from AnatomicalEmbedding.files import file_sha256
from AnatomicalEmbedding.installation.bundle import make_bundle, pack_wheel
from AnatomicalEmbedding.installation.packages import (
    EXTRAS,
    list_requirements,
    numpy_is_too_new,
    release_of,
)


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """A function that makes a version of a package appear installed, as pip does."""
    monkeypatch.syspath_prepend(str(tmp_path / "site"))

    def install(name: str, version: str) -> None:
        folder = tmp_path / "site" / f"{name}-{version}.dist-info"
        folder.mkdir(parents=True)
        (folder / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
        )

    return install


def test_requirements_are_those_that_pip_reads():
    read = {(each.name, each.extra): each for each in list_requirements()}
    for text in requires("AnatomicalEmbedding"):
        truth = Requirement(text)
        extras = [
            name for name in EXTRAS if truth.marker and truth.marker.evaluate({"extra": name})
        ]
        if truth.marker and not extras:
            continue
        mine = read.pop((truth.name, extras[0] if extras else ""))
        assert Requirement(mine.text).specifier == truth.specifier
        assert truth.specifier.contains(".".join(map(str, mine.least)))
        older = f"{mine.least[0] - 1}.9" if mine.least[0] else "0"
        assert not truth.specifier.contains(older)
    assert read == {}


@pytest.mark.parametrize(
    ("torch", "numpy", "too_new"),
    [
        ("2.2.2", "2.0.1", True),
        ("2.2.2", "1.26.4", False),
        ("2.3.0", "2.0.0", False),
        ("2.13.0+cpu", "2.4.6", False),
    ],
)
def test_numpy_2_is_too_new_for_a_torch_that_was_compiled_for_numpy_1(
    torch, numpy, too_new, installed
):
    installed("torch", torch)
    installed("numpy", numpy)
    assert numpy_is_too_new() is too_new


def test_a_version_is_read_up_to_its_first_text(installed):
    installed("madeup", "2.13.0a1+cpu")
    assert release_of("madeup") == (2, 13, 0)
    assert release_of("no-such-package") is None


class TestDoctor:
    def test_a_complete_installation(self, anatemb):
        outcome = anatemb("doctor", "--json")
        (facts,) = json.loads(outcome.out)
        assert outcome.code == 0
        assert facts["problems"] == []
        assert facts["anatemb"] == __version__
        # of some builds, torch.__version__ also names CUDA
        assert facts["torch"] == version("torch")
        assert facts["device"].startswith(("cpu", "cuda", "mps"))
        assert "embedded in" in facts["speed"]
        assert facts["weights ct-open"].startswith("installed")
        assert "any purpose" in facts["weights ct-open"]

    def test_for_an_old_package_the_line_to_type_is_shown(self, anatemb, installed):
        installed("pillow", "9.5.0")
        outcome = anatemb("doctor")
        assert outcome.code == 2
        assert 'type: pip install "pillow>=10"' in outcome.err
        assert "speed" not in outcome.out

    def test_numpy_for_an_old_torch(self, anatemb, installed):
        installed("torch", "2.2.2")
        installed("numpy", "2.0.1")
        assert anatemb("doctor").err.endswith('"numpy<2".\n')

    def test_optional_packages_do_not_stop_the_program(self, anatemb, installed):
        installed("distributed", "2020.1")
        outcome = anatemb("doctor")
        assert outcome.code == 0
        assert (
            'distributed is missing; type: pip install "AnatomicalEmbedding[cohort]"' in outcome.out
        )

    def test_changed_and_absent_weights(self, anatemb, tmp_path, monkeypatch):
        for name in ("first", "second", "third"):
            path = write_small_weights(tmp_path, name)
            path.with_suffix(".json").write_text(
                json.dumps({"sha256": file_sha256(path), "terms": f"As {name}."})
            )
        with (tmp_path / "second.safetensors").open("ab") as file:
            file.write(b"0")
        (tmp_path / "third.safetensors").unlink()
        monkeypatch.setattr("AnatomicalEmbedding.resources.resource", lambda folder: tmp_path)
        lines = anatemb("doctor", "--model", "first").out.splitlines()
        said = {line.split()[1]: line for line in lines if line.startswith("weights")}
        assert "installed. As first." in said["first"]
        assert "damaged" in said["second"]
        assert "download the files third.*" in said["third"]
        with pytest.raises(
            errors.WeightsError, match=r"^third: these weights are not part of the pip package"
        ):
            find_weights("third")


def pip(*words: str, folder: Path, **environment: str) -> str:
    """Run pip, without network."""
    alone = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(folder), "PIP_CONFIG_FILE": os.devnull}
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", *words]
    done = subprocess.run(
        command, env=os.environ | alone | environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_wheel_of_an_installed_package_installs_the_same_files(tmp_path):
    jinja2 = distribution("jinja2")
    wheel = pack_wheel(jinja2, tmp_path)
    pip(
        "install",
        "--no-deps",
        "--no-compile",
        "--target",
        str(tmp_path / "site"),
        str(wheel),
        folder=tmp_path,
    )
    files = {
        file for file in jinja2.files if file.suffix in (".py", ".txt") and file.parts[0] != ".."
    }
    assert len(files) > 20
    for file in files:
        assert (tmp_path / "site" / file).read_bytes() == file.read_binary()


@pytest.mark.parametrize("extras", [[], ["made"]])
def test_a_bundle_holds_what_pip_needs_and_the_hashes_of_all(extras, tmp_path, monkeypatch):
    """The program and its packages are made up; pip, the copied weights and the hashes are real."""
    source = tmp_path / "wheels"
    folder = tmp_path / "bundle"
    source.mkdir()
    folder.mkdir()
    write_wheel(source, "needed")
    write_wheel(source, "optional")
    own = write_wheel(folder, "program", "needed>=1", 'optional>=1; extra == "made"')
    write_small_weights(tmp_path / "Resources/Models", "mine")
    monkeypatch.setattr(
        "AnatomicalEmbedding.installation.bundle._write_own_wheel", lambda _folder: own
    )
    for module in ("resources", "installation.bundle"):
        monkeypatch.setattr(
            f"AnatomicalEmbedding.{module}.resource", lambda name: tmp_path / "Resources" / name
        )
    for name, value in {
        "NO_INDEX": "1",
        "FIND_LINKS": str(source),
        "CONFIG_FILE": os.devnull,
    }.items():
        monkeypatch.setenv(f"PIP_{name}", value)
    written = make_bundle(folder, extras)
    names = {"program", "needed", *(["optional"] if extras else [])}
    assert {path.name.split("-")[0] for path in written if path.suffix == ".whl"} == names
    assert (folder / "weights/mine.safetensors") in written
    hashes = dict(reversed(line.split("  ")) for line in written[-1].read_text().splitlines())
    assert hashes == {
        path.relative_to(folder).as_posix(): file_sha256(path) for path in written[:-1]
    }
    wanted = "program[made]" if extras else "program"
    pip("install", "--target", str(tmp_path / "site"), wanted, folder=folder)
    assert {path.name.split("-")[0] for path in (tmp_path / "site").glob("*.dist-info")} == names


def test_a_package_that_pip_does_not_find_is_named(tmp_path, monkeypatch):
    own = write_wheel(tmp_path, "program", "nowhere>=1")
    monkeypatch.setattr(
        "AnatomicalEmbedding.installation.bundle._write_own_wheel", lambda _folder: own
    )
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    with pytest.raises(
        errors.AnatomicalEmbeddingError,
        match=r"pip download failed: .*nowhere>=1.*run the same command",
    ):
        make_bundle(tmp_path, [])
    assert not (tmp_path / "SHA256SUMS").exists()


def write_wheel(folder: Path, name: str, *needs: str) -> Path:
    """A wheel of version 1.0 without code."""
    path = folder / f"{name}-1.0-py3-none-any.whl"
    info = f"{name}-1.0.dist-info"
    lines = ["Metadata-Version: 2.1", f"Name: {name}", "Version: 1.0", "Provides-Extra: made"]
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(
            f"{info}/METADATA",
            "\n".join([*lines, *(f"Requires-Dist: {each}" for each in needs), ""]),
        )
        archive.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        archive.writestr(f"{info}/RECORD", "")
    return path
