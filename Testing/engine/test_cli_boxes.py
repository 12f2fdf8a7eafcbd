"""Test the commands structures, locate and crop, with a library and with examples of the user."""

import json
import re

import numpy as np
import pytest
import SimpleITK as sitk
from cli_runs import assert_refused, rows_of
from ellipsoid_cases import ORGANS, write_case
from small_models import write_small_weights

from AnatomicalEmbedding.scan.boxes import read_rois, write_rois

SHIFTS = {
    "anna": (0, 0, 0),
    "bert": (8.0, 6.0, 10.0),
    "carl": (-8.0, 3.0, -5.0),
    "dora": (4.0, -6.0, 5.0),
}


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Four labelled scans, weights, and a folder of unlabelled copies of two of them with a broken file."""
    folder = tmp_path_factory.mktemp("boxes")
    (folder / "labelled").mkdir()
    (folder / "scans").mkdir()
    for name, shift in SHIFTS.items():
        write_case(folder / "labelled", name, shift)
    for name in ("carl", "dora"):
        (folder / "scans" / f"{name}.nii.gz").write_bytes(
            (folder / "labelled" / f"{name}.nii.gz").read_bytes()
        )
    (folder / "scans" / "broken.nii.gz").write_bytes(b"nothing")
    write_small_weights(folder, "w", local_channels=8, spacing_mm=(3.0, 3.0, 4.0))
    return folder


@pytest.fixture(scope="module")
def model(place):
    return ("--model", place / "w.safetensors", "--no-cache")


@pytest.fixture(scope="module")
def library(place, model):
    from AnatomicalEmbedding.cli import main

    path = place / "own.structures.safetensors"
    words = ("structures", "build", place / "labelled", "--phantoms", 0, "-o", path, *model)
    assert main([str(word) for word in words]) == 0
    return path


@pytest.mark.parametrize(("last", "is_proven"), [("east_1", False), ("west_4", True)])
def test_margins_of_a_structure_need_scans_of_two_sources(place, model, tmp_path, last, is_proven):
    """A structure of only one source has no margins of its own; scans of a single source judge each other."""
    from AnatomicalEmbedding.cli import main
    from AnatomicalEmbedding.structures.library import StructureLibrary

    data = tmp_path / "data"
    path = tmp_path / "own.structures.safetensors"
    data.mkdir()
    for name, own in zip(SHIFTS, ("west_1", "west_2", "west_3", last), strict=True):
        for suffix in (".nii.gz", ".seg.nii.gz", ".labels.json"):
            (data / f"{own}{suffix}").write_bytes(
                (place / "labelled" / f"{name}{suffix}").read_bytes()
            )
    labels = data / f"{last}.labels.json"
    labels.write_text(
        json.dumps(
            {n: name for n, name in json.loads(labels.read_text()).items() if name != "liver"}
        )
    )
    assert (
        main(
            [
                str(word)
                for word in ("structures", "build", data, "--phantoms", 0, "-o", path, *model)
            ]
        )
        == 0
    )
    library = StructureLibrary.load(path)
    assert ("liver" in library.margins.scales) == is_proven
    assert "kidney_left" in library.margins.scales


def boxes_of(folder, name):
    return read_rois(folder / f"{name}.boxes.mrk.json")


def test_structures_are_listed(anatemb, library, model):
    rows = json.loads(anatemb("structures", "list", "--library", library, "--json", *model).out)
    assert [(row["structure"], row["real"]) for row in rows] == [
        ("kidney_left", 4),
        ("kidney_right", 4),
        ("liver", 4),
    ]
    assert "liver" in anatemb("structures", "list").out  # of the shipped library


def test_a_folder_is_located_and_its_broken_file_named(anatemb, place, library, model, tmp_path):
    words = ("locate", place / "scans", "--library", library, "--recall", 0.5, "-o", tmp_path)
    outcome = anatemb(*words, *model)
    assert outcome.code == 2
    assert "broken.nii.gz" in outcome.err
    assert "scans were skipped" in outcome.err
    rows = rows_of(tmp_path / "boxes.csv")
    assert len(rows) == 2 * 3
    sides = ("low_r", "low_a", "low_s", "high_r", "high_a", "high_s")
    for name in ("carl", "dora"):
        boxes = boxes_of(tmp_path, name)
        for row in rows:
            if name in row["scan"] and row["status"] != "absent":
                corners = [float(row[side]) for side in sides]
                np.testing.assert_allclose(boxes[row["structure"]].ravel(), corners, atol=0.01)
        page = (tmp_path / f"{name}.html").read_text()
        assert page.count("data:image/jpeg") == 3 * len(boxes)
        assert not re.search(r"https?://|<script|<link|@import", page)


def test_each_structure_of_each_scan_is_cropped(anatemb, place, library, model, tmp_path):
    words = ("crop", place / "scans", "--structures", "liver,kidney_left", "--library", library)
    outcome = anatemb(*words, "--recall", 0.3, "--separate", "-o", tmp_path, *model)
    assert outcome.code == 2  # the broken file
    # structures that a scan does not show
    assert outcome.out.splitlines()[0].split()[-1] == "missing"
    rows = rows_of(tmp_path / "crops.csv")
    assert sorted(row["structures"] for row in rows) == ["kidney_left"] * 2 + ["liver"] * 2
    for row in rows:
        whole, crop = (sitk.ReadImage(row[key]) for key in ("scan", "crop"))
        assert list(crop.GetSize()) == [int(row[f"voxels_{axis}"]) for axis in "ijk"]
        ratio = np.prod(whole.GetSize()) / np.prod(crop.GetSize())
        assert float(row["volume_ratio"]) == pytest.approx(ratio, rel=0.01)


def test_boxes_drawn_in_slicer_are_examples(anatemb, place, tmp_path):
    """With the shipped weights, which know margins for a user's own examples: the box of the same scan comes back."""
    (tmp_path / "mine").mkdir()
    scan = tmp_path / "mine" / "anna.nii.gz"
    scan.write_bytes((place / "labelled" / "anna.nii.gz").read_bytes())
    centre, axes = (np.array(value) for value in ORGANS["liver"])
    box = np.stack([centre - axes, centre + axes])
    drawn = tmp_path / "mine" / "anna.My Liver.roi.mrk.json"
    write_rois(drawn, {"R": box})
    document = json.loads(drawn.read_text())
    del document["markups"][0]["name"]  # Slicer writes none: the file's name says what it is
    drawn.write_text(json.dumps(document))
    before = drawn.read_bytes()
    (tmp_path / "mine" / "anna.late").mkdir()  # another scan, whose boxes are not those of anna
    write_rois(tmp_path / "mine" / "anna.late.roi.mrk.json", {"My Liver": box + 99})
    words = ("locate", scan, "--examples", tmp_path / "mine", "--recall", 0.5, "--no-cache")
    assert anatemb(*words, "-o", tmp_path / "mine").code == 0  # beside the drawing, which stays
    assert drawn.read_bytes() == before
    np.testing.assert_allclose(boxes_of(tmp_path / "mine", "anna")["My Liver"], box, atol=8.0)
    assert anatemb(*words, "-o", tmp_path / "out").code == 0  # what was found is no example
    assert list(boxes_of(tmp_path / "out", "anna")) == ["My Liver"]


def test_crops_never_overwrite_scans(anatemb, place, library, model, tmp_path):
    scans = [tmp_path / f"{name}.nii.gz" for name in ("a", "a_liver")]
    for path in scans:
        path.write_bytes((place / "scans" / "carl.nii.gz").read_bytes())
    before = scans[1].read_bytes()
    words = ("crop", *scans, "--structures", "liver", "--separate", "--library", library)
    outcome = anatemb(*words, "--recall", 0.3, "-o", tmp_path, *model)
    assert outcome.code == 2
    assert "a_liver.nii.gz: would be overwritten by results" in outcome.err
    assert scans[1].read_bytes() == before


def test_wrong_options_are_refused_with_a_remedy(anatemb, place, library, model, tmp_path):
    scan = place / "scans" / "carl.nii.gz"
    out = ("-o", tmp_path / "out")
    own = ("--library", library, *out)
    for words, says in (
        (("locate", scan, *out, *model), "w: no structure library ships for these weights"),
        (("locate", scan, *own), "was built with other weights"),
        (("locate", scan, *own, *model, "--structures", "heart"), "has no structure of this name"),
        (("locate", scan, *own, *model, "--recall", 0.999), "cannot be guaranteed"),
        (("locate", scan, "--examples", tmp_path, *out), "holds no example"),
        (("crop", scan, *out), "no structure was named; add --structures"),
        (
            ("structures", "build", place / "labelled", "-o", tmp_path / "x.bin"),
            "x.bin: is not a name for a library or atlas",
        ),
    ):
        assert_refused(anatemb(*words), says)
    for option in ("--spacing=1,2", "--spacing=0.01,1,1", "--margin-mm=-5"):
        with pytest.raises(SystemExit):
            anatemb("crop", scan, *own, option, *model)
