"""Test the package: the files that CMake stages, the same bytes each time, and the layout that Slicer needs."""

import shutil
import subprocess
import sys
import zipfile
from datetime import UTC, datetime
from pathlib import Path

import make_zip
import pytest
from make_zip import Commit, Target
from stage_install import ROOT, Staged

ENTRY = {
    "scm_url": "https://example.org/sample.git",
    "build_subdirectory": ".",
    "category": "Registration",
    "tier": 1,
}
COMMIT = Commit(
    "0123456789abcdef0123456789abcdef01234567", datetime(2026, 11, 21, 12, 30, 10, tzinfo=UTC)
)
MACOS = Target("34627", "5.12", "macosx", "arm64")


def install_as_slicer_does(archive: Path, folder: Path, target: Target) -> tuple[str, Path]:
    """Name and folder of the extension, by the steps of qSlicerExtensionsManagerModel::installExtension: the name is
    that of the first .s4ext file; all is extracted below a folder of that name; the top folder of the first file
    extracted, on macOS the application's folder of extensions in it, becomes the extension's folder.
    """
    with zipfile.ZipFile(archive) as package:
        names = package.namelist()
        name = next(Path(file).stem for file in names if file.endswith(".s4ext"))
        package.extractall(folder / name)
    top = folder / name / names[0].split("/")[0]
    source = top
    if target.os == "macosx":
        source = top / f"Slicer.app/Contents/Extensions-{target.revision}/{name}"
    shutil.copytree(source, folder / f"{name}-XXXXXX")
    shutil.rmtree(folder / name)
    (folder / f"{name}-XXXXXX").rename(folder / name)
    return name, folder / name


def test_slicer_finds_modules_and_description(staged: Staged, tmp_path: Path) -> None:
    package = make_zip.write_zip(staged, ENTRY, MACOS, COMMIT, tmp_path)
    name, installed = install_as_slicer_does(package, tmp_path / "Extensions", MACOS)
    assert name == "AnatomicalEmbedding"
    modules = installed / "lib/Slicer-5.12/qt-scripted-modules"
    files = {
        path.relative_to(modules).as_posix(): path.read_bytes()
        for path in modules.rglob("*")
        if path.is_file()
    }
    assert files == {file: (staged.flat / file).read_bytes() for file in staged.files}
    lines = (installed / f"share/Slicer-5.12/{name}.s4ext").read_text().splitlines()
    said = dict(line.split(" ", 1) for line in lines if " " in line)
    assert said["depends"] == "PyTorch"
    assert said["category"] == "Registration"
    assert said["scmrevision"] == COMMIT.hash
    assert said["enabled"] == "1"
    assert said["description"] == staged.metadata["description"]
    assert {path.name for path in installed.iterdir()} == {"lib", "share"}


def test_the_script_makes_a_package(with_cmake: None, tmp_path: Path) -> None:
    script = ROOT / "tools/make_zip.py"
    command = [sys.executable, script, "-o", tmp_path / "out", "--os", "win", "--arch", "amd64"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    (package,) = (tmp_path / "out").iterdir()
    assert package.name.startswith("34627-win-amd64-AnatomicalEmbedding-")
    assert str(package) in done.stdout
    name, installed = install_as_slicer_does(
        package, tmp_path / "Extensions", Target("34627", "5.12", "win", "amd64")
    )
    assert (installed / f"share/Slicer-5.12/{name}.s4ext").is_file()


def test_mistakes_end_in_a_sentence(
    with_cmake: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    assert make_zip.main(["-o", str(tmp_path / "file")]) == 2
    assert "No package was made:" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        make_zip.main(["-o", str(tmp_path), "--slicer-version", "5.12.3"])
    assert "5.12.3 is not of the form MAJOR.MINOR" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        make_zip.main(["-o", str(tmp_path), "--slicer-revision", "9034c71"])
    assert "9034c71 is not a whole number" in capsys.readouterr().err
