"""Test the command weights: which licences are open, what an index gives, the model card, and a whole small build."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest
import SimpleITK as sitk
from cli_runs import rows_of
from training_scans import tiny_recipe, write_recipe

from AnatomicalEmbedding.cli.main import main
from AnatomicalEmbedding.embedding.models.registry import find_weights, read_weights
from AnatomicalEmbedding.errors import AnatomicalEmbeddingError, CancelledError
from AnatomicalEmbedding.phantom import Phantom, make_phantom
from AnatomicalEmbedding.resources import default_weights, terms_of
from AnatomicalEmbedding.structures.library import StructureLibrary
from AnatomicalEmbedding.training.recipes import load_recipe
from AnatomicalEmbedding.weights.building import WeightsBuild
from AnatomicalEmbedding.weights.data_index import (
    DataEntry,
    is_open,
    read_data,
)
from AnatomicalEmbedding.weights.model_card import Facts, card_text
from AnatomicalEmbedding.weights.stages import run_build
from AnatomicalEmbedding.words.atlas import Atlas

COLUMNS = ("file", "patient", "licence", "collection", "source")
GRID_MM = [8.0, 8.0, 8.0]


# -- licences and the index


@pytest.mark.parametrize(
    "licence",
    [
        "CC BY 4.0",
        "CC0",
        "NLM Visible Human (public domain since 2019)",
        "repo BSD-3-Clause (LICENSE.md); data CC0 (from memory, not checked)",
    ],
)
def test_open_licences(licence):
    assert is_open(licence)


@pytest.mark.parametrize(
    "licence",
    [
        "CC BY-NC 4.0",
        "CC BY-NC-SA 4.0: measure and train, do not ship",
        "MIT repository, TCIA data: research only",
        "none stated in the repository; a collection with CC BY 4.0",
        "mixed, see source",
        "CC BY 4.0, do not redistribute",
        "unknown",
        "",
    ],
)
def test_closed_and_unknown_licences(licence):
    assert not is_open(licence)


def write_index(path: Path, rows: list[dict[str, str]]) -> None:
    with path.open("w", newline="") as file:
        table = csv.DictWriter(file, COLUMNS)
        table.writeheader()
        table.writerows({"collection": "some", "source": "here"} | row for row in rows)


@pytest.fixture
def listed(tmp_path):
    """A folder with files of no content and an index."""
    rows = [
        {"file": "train/b.nii.gz", "patient": "B", "licence": "CC BY 4.0"},
        {"file": "train/a.nii.gz", "patient": "A", "licence": "CC0"},
        {"file": "train/c.nii.gz", "patient": "C", "licence": "CC BY-NC 4.0"},
        {"file": "train/d_later.nii.gz", "patient": "D", "licence": "CC0"},
        {"file": "dev/d.nii.gz", "patient": "D", "licence": "CC0"},
    ]
    for row in rows:
        (tmp_path / row["file"]).parent.mkdir(exist_ok=True)
        (tmp_path / row["file"]).touch()
    write_index(tmp_path / "index.csv", rows)
    (tmp_path / "labelmaps").mkdir()
    for suffix in (".seg.nii.gz", ".labels.json"):
        (tmp_path / "labelmaps" / f"m{suffix}").touch()
    write_index(
        tmp_path / "labelmaps" / "index.csv",
        [{"file": "m.seg.nii.gz", "licence": "mixed, see source"}],
    )
    return tmp_path


def names(data: Path, terms: str) -> list[list[str]]:
    return [[each.name for each in entries] for entries in read_data(data, terms)]


def test_the_terms_choose_the_data_and_patients_of_dev_are_left_out(listed):
    assert names(listed, "open") == [["a", "b"], []]
    assert names(listed, "all") == [["a", "b", "c"], ["m"]]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda data: (data / "index.csv").unlink(), "index.csv: is missing"),
        (
            lambda data: (data / "train" / "a.nii.gz").unlink(),
            "lists train/a.nii.gz, which does not exist",
        ),
        (
            lambda data: write_index(data / "index.csv", [{"file": "x", "licence": ""}]),
            "a row has no licence",
        ),
    ],
)
def test_a_wrong_index_is_refused(listed, change, message):
    change(listed)
    with pytest.raises(AnatomicalEmbeddingError, match=message):
        read_data(listed, "open")


# -- the card and the terms


def test_the_card_is_written_from_the_index():
    one = DataEntry(Path("a.nii.gz"), "CC BY 3.0", "First | collection", "here")
    other = DataEntry(Path("b.nii.gz"), "CC0", "Second collection", "there")
    facts = Facts(
        "ct-open", "open", "joint", {"A": 30, "B": 60}, 7, 2.46, {"centre": 6.04}, "cpu", "2.9"
    )
    text = card_text(facts, [one, one, other], [other])
    assert text.startswith("# Model card: ct-open\n")
    assert "| First / collection | 2 | CC BY 3.0 | here |" in text
    assert text.count("| Second collection | 1 | CC0 | there |") == 2
    assert "| steps of each round | A: 30, B: 60 |" in text
    assert "| core-hours of all stages | 2.5, on cpu with PyTorch 2.9 |" in text
    assert "3 scans, 1 label maps, 7 synthetic patients" in text
    assert "centre 6.0" in text
    assert "for any purpose" in text
    assert "results that you compute with these weights are yours" in text
    assert "for research only" in card_text(
        Facts(*{**vars(facts), "terms": "all"}.values()), [one], []
    )


def test_shipped_weights_state_their_terms(capsys):
    assert main(["doctor", "--json"]) == 0
    (facts,) = json.loads(capsys.readouterr().out)
    assert "for research only" in facts["weights ct-research"]
    assert "for any purpose" in facts["weights ct-open"]


@pytest.mark.parametrize(
    ("installed", "chosen"),
    [
        (["ct-research", "mine"], "ct-research"),
        (["ct-open", "ct-research"], "ct-open"),
    ],
)
def test_the_default_weights_are_the_preferred_ones_that_are_installed(
    installed, chosen, tmp_path, monkeypatch
):
    for name in installed:
        (tmp_path / f"{name}.safetensors").touch()
    monkeypatch.setattr("AnatomicalEmbedding.resources.resource", lambda folder: tmp_path)
    assert default_weights() == chosen


# -- a whole build


def write_patient(phantom: Phantom, folder: Path, name: str, *, labels: bool) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    phantom.volume.write(folder / f"{name}.nii.gz")
    if labels:
        write_labels(phantom, folder, name)


def write_labels(phantom: Phantom, folder: Path, name: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    image = sitk.GetImageFromArray(phantom.labels.astype(np.uint8))
    image.CopyInformation(phantom.volume.to_sitk())
    sitk.WriteImage(image, str(folder / f"{name}.seg.nii.gz"))
    values = {
        value: of
        for value, of in phantom.label_names.items()
        if value and "fat" not in of and "body" not in of
    }
    (folder / f"{name}.labels.json").write_text(json.dumps(values))


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Four synthetic patients as scans (two with labels and level readings), two in dev, two as label maps."""
    folder = tmp_path_factory.mktemp("data")
    patients = [
        make_phantom(seed, (4.0, 4.0, 4.0), coverage_mm=(150.0, 480.0)) for seed in range(81, 89)
    ]
    rows = []
    readings = {}
    for number, phantom in enumerate(patients[:6]):
        name = f"patient{number}"
        group = "dev" if number >= 4 else "train"
        write_patient(phantom, folder / group, name, labels=number in (0, 1, 4, 5))
        licence = "CC BY-NC 4.0" if number == 3 else "CC BY 4.0"
        rows.append({"file": f"{group}/{name}.nii.gz", "patient": name, "licence": licence})
        readings[name] = {"carina": float(phantom.points_ras["carina"][2])} if number < 2 else {}
    write_index(folder / "index.csv", rows)
    levels = {"body_height_mm": {"carina": 469}, "scans": readings}
    (folder / "train_levels.json").write_text(json.dumps(levels))
    for number, phantom in enumerate(patients[6:]):
        write_labels(phantom, folder / "labelmaps", f"map{number}")
    rows = [{"file": f"map{number}.seg.nii.gz", "licence": "CC0"} for number in range(2)]
    write_index(folder / "labelmaps" / "index.csv", rows)
    return folder


@pytest.fixture(scope="module")
def recipe(tmp_path_factory):
    """A recipe like `joint` that trains a tiny network."""
    recipe = tiny_recipe(
        "hybrid",
        network={
            "spacing_mm": GRID_MM,
            "organs": ["liver", "kidney_left", "kidney_right"],
            "organ_channels": 3,
        },
        batch={"phantom_share": 0.2, "label_image_share": 0.4},
        loss={"organ_weight": 0.2},
    )
    return write_recipe(recipe, tmp_path_factory.mktemp("recipe"))


def build(data: Path, output: Path, recipe: Path, *options: object) -> int:
    words = [
        "weights",
        data,
        "-o",
        output,
        "--recipe",
        recipe,
        "--workers",
        0,
        "--jobs",
        1,
        *options,
    ]
    return main(list(map(str, words)))


def test_a_cancelled_build_makes_nothing(listed, tmp_path):
    stopped = WeightsBuild(
        listed, tmp_path / "made", "open", load_recipe("joint"), cancelled=lambda: True
    )
    with pytest.raises(
        CancelledError, match=r"stopped in the stage scans; give the same command to continue\.$"
    ):
        run_build(stopped)
    assert [path.name for path in (tmp_path / "made").iterdir()] == ["plan.json"]


@pytest.mark.long
def test_a_build_makes_files_that_the_commands_use(data, recipe, tmp_path, capsys):
    made = tmp_path / "made"
    log = made / "build" / "round_A" / "loss.csv"
    # stopped after the first step
    quick = {"workers": 0, "report": lambda line: None, "cancelled": log.is_file}
    with pytest.raises(CancelledError, match="stopped at step 1;"):
        run_build(WeightsBuild(data, made, "open", load_recipe(recipe), 0.004, **quick))
    assert not list(made.glob("*.safetensors"))
    assert build(data, made, recipe, "--terms", "open", "--hours", 0.004, "--json") == 0
    out = capsys.readouterr()
    files = [Path(file) for file in json.loads(out.out)["files"]]
    assert all(file.is_file() for file in files)
    assert {file.name for file in files} == {
        "ct-open.safetensors", "ct-open.calibration.safetensors", "ct-open.structures.safetensors",
        "ct-open.atlas.npz", "ct-open.json", "ct-open.md", "ct.orientation.safetensors",
    }  # fmt: skip
    assert "expected end of the build" in out.err
    weights = made / "ct-open.safetensors"
    found = read_weights(weights)
    # not of closed terms, and not of dev
    assert found.card["scans"] == ["patient0", "patient1", "patient2"]
    assert found.calibration.weights_hash == found.sha256
    assert (
        StructureLibrary.load(made / "ct-open.structures.safetensors").weights_hash == found.sha256
    )
    assert Atlas.load(made / "ct-open.atlas.npz").weights_hash == found.sha256
    assert "for any purpose" in terms_of(weights)
    assert {"centre", "extreme", "phantom"} == set(
        json.loads((made / "ct-open.json").read_text())["errors_mm"]
    )
    steps = json.loads((made / "build" / "steps.json").read_text())
    assert set(steps) == {"A", "B"}
    assert found.card["steps"] == sum(steps.values())
    assert [int(row["step"]) for row in rows_of(log)] == list(range(1, steps["A"] + 1))

    before = {path: path.stat().st_mtime_ns for path in made.rglob("*") if path.is_file()}
    # nothing is left to do
    assert build(data, made, recipe, "--terms", "open", "--hours", 0.004) == 0
    assert {path: path.stat().st_mtime_ns for path in made.rglob("*") if path.is_file()} == before
    assert capsys.readouterr().err == ""
    assert build(data, made, recipe, "--terms", "all", "--hours", 0.004) == 2
    assert "another plan" in capsys.readouterr().err

    scan = data / "train" / "patient0.nii.gz"
    used = ["--model", str(weights), "--no-cache"]
    assert main(["locate", str(scan), "-o", str(tmp_path / "boxes"), "--no-report", *used]) == 0
    assert (
        main(["find", "liver", str(scan), "-o", str(tmp_path / "places"), "--no-report", *used])
        == 0
    )
    assert find_weights(str(weights)).calibration is not None
    assert (tmp_path / "boxes" / "boxes.csv").is_file()
    assert (tmp_path / "places" / "places.csv").is_file()
