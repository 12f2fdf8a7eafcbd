"""Test what `anatemb doctor` reports about packages and weights."""

import json
from importlib.metadata import requires, version

import pytest
from packaging.requirements import Requirement
from small_models import write_small_weights

from AnatomicalEmbedding import __version__, errors
from AnatomicalEmbedding.embedding.models.registry import find_weights
from AnatomicalEmbedding.files import file_sha256
from AnatomicalEmbedding.installation.packages import (
    EXTRAS,
    list_requirements,
    numpy_is_too_new,
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
