"""Test which scans are found in folders, and which names distinguish them."""

import json
import shutil
from pathlib import Path

import pytest
from cli_runs import assert_refused
from cohort_scans import torso
from scan_files import stack_positions, write_linear_series

from AnatomicalEmbedding.scan.sources import distinct_names, find_scans


@pytest.mark.parametrize(
    ("scans", "names"),
    [
        (["a/ct.nii.gz", "b/ct.nii.gz"], ["a_ct", "b_ct"]),
        (["one.nii", "a/ct.nrrd", "b/ct.nii.gz"], ["one", "a_ct", "b_ct"]),
        (["p1/20/CT/c.nii", "p1/21/CT/c.nii", "p2/20/CT/c.nii"], ["p1_20_c", "p1_21_c", "p2_20_c"]),
        (["p1/first/ct.nii", "p2/second/ct.nii"], ["p1_ct", "p2_ct"]),  # one part suffices
        (["ct.nii.gz", "later/ct.nii.gz"], ["ct", "later_ct"]),
        (["a/ct.nii.gz", "a/ct.nrrd"], ["ct", "ct_2"]),
        (["a/CT.nii.gz", "b/ct.nii.gz"], ["a_CT", "b_ct"]),  # files of both may lie in one folder
        (["a/ct.nii.gz", "b/ct.nii.gz", "a_ct.nii.gz"], ["a_ct", "b_ct", "a_ct_2"]),
        (["study#1.2.840.1.7", "study#1.2.840.2.7"], ["study_1", "study_2"]),
        (["p1/s#1.2", "p1/s#1.3", "p2/s"], ["p1_s_2", "p1_s_3", "p2_s"]),
        (["Kopf Hals/Müller ü.nii.gz"], ["Müller ü"]),
        ([], []),
    ],
)  # fmt: skip
def test_scans_are_told_apart_by_what_differs(scans, names):
    assert distinct_names(scans) == names
    assert distinct_names([Path(scan).absolute() for scan in scans]) == names


@pytest.fixture
def tree(tmp_path):
    """Two patients with a ct.nii.gz each, one with a study of two CTs, a scout and an MR, and what is no scan."""
    for folder in ("anna/2020", "bert Müller/2021"):
        (tmp_path / folder).mkdir(parents=True)
        torso(0).volume.write(tmp_path / folder / "ct.nii.gz")
    shutil.copy(tmp_path / "anna/2020/ct.nii.gz", tmp_path / "anna/2020/ct.seg.nii.gz")
    (tmp_path / "anna" / "notes.txt").write_text("nothing")
    slices = stack_positions((0, 0, 0), (0, 0, 4.0), range(20))
    series = [(slices, "CT"), (slices, "CT"), (slices[:2], "CT"), (slices, "MR")]
    for number, (positions, modality) in enumerate(series):
        made = tmp_path / "made"
        write_linear_series(made, positions, SeriesInstanceUID=f"1.2.{number}", Modality=modality)
        (tmp_path / "carl").mkdir(exist_ok=True)
        for file in made.iterdir():
            shutil.move(file, tmp_path / "carl" / f"{number}_{file.name}")
        made.rmdir()
    return tmp_path


def test_every_scan_of_a_tree_is_found_and_read(tree):
    said = []
    scans = find_scans([tree], said.append)
    assert list(scans) == ["anna_ct", "bert Müller_ct", "carl_0", "carl_1"]
    assert said == [
        f"left out: {tree}/carl#1.2.2: 2 slices with a position, fewer than 16.",
        f"left out: {tree}/carl#1.2.3: 20 MR images, not a CT.",
    ]
    assert [source.read().shape[0] for source in scans.values()] == [
        torso(0).volume.shape[0]
    ] * 2 + [20] * 2


@pytest.mark.parametrize("command", ["info"])
def test_commands_name_what_cannot_be_used_and_go_on(tree, anatemb, tmp_path, command):
    thin = torso(0).volume
    type(thin)(thin.voxels[:10], thin.ijk_to_ras).write(tree / "anna" / "thin.nii.gz")
    output = () if command == "info" else ("-o", tmp_path / "maps")
    outcome = anatemb(command, tree, *output, "--json")
    assert outcome.code == 2
    assert "thin.nii.gz: has 10 axial slices" in outcome.err
    said = [each.get("scan") or each["path"] for each in json.loads(outcome.out)]
    assert said == [
        str(tree / f) for f in ("anna/2020/ct.nii.gz", "bert Müller/2021/ct.nii.gz")
    ] + [f"{tree}/carl#1.2.{n}" for n in (0, 1)]


def test_labels_of_crops_go_back_to_scans_whose_names_have_spaces(tree, anatemb):
    scan = tree / "bert Müller" / "2021" / "ct.nii.gz"
    (tree / "results").mkdir()
    volume = torso(0).volume
    type(volume)(volume.voxels * 0 + 1, volume.ijk_to_ras).write(
        tree / "results" / "bert_Müller_ct_crop_seg.nii.gz"
    )
    words = (scan, tree / "anna", "--paste-back", tree / "results", "-o", tree / "whole")
    assert "bert_Müller_ct_crop_seg.nii.gz" in anatemb("crop", *words).out


def test_a_series_is_chosen_in_the_folders_that_hold_it(tree, anatemb):
    assert list(find_scans([tree], print, ["1.2.1"])) == ["anna_ct", "bert Müller_ct", "carl"]
    outcome = anatemb("levels", tree / "anna", "--series", "9.9", "-o", tree / "maps")
    assert_refused(outcome, "--series 9.9: none of the folders contains")


def test_a_scan_given_twice_is_one(tree, monkeypatch):
    monkeypatch.chdir(tree)
    given = ["anna/2020/ct.nii.gz", tree / "anna", "bert Müller/../anna/2020"]
    assert [source.path for source in find_scans(given, pytest.fail).values()] == [
        str(Path("anna/2020/ct.nii.gz"))
    ]


def test_a_study_without_a_ct_says_why(tree):
    for file in (tree / "carl").glob("[012]_*"):
        file.unlink()
    ((name, source),) = find_scans([tree / "carl"], pytest.fail).items()
    assert (name, source.unfit) == ("carl", "20 MR images, not a CT")
