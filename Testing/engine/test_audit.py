"""Test the audit of labels on bodies of balls at usual places, in which one thing is made wrong."""

from dataclasses import replace

import numpy as np
import pytest
from labelled_bodies import NAMES, SPINE, STEP_MM, ijk_to_ras, labelled, make_labels, measured

from AnatomicalEmbedding.anatomy.names import other_side
from AnatomicalEmbedding.audit.checks import check_grids, check_labels, check_overlaps, check_tissue
from AnatomicalEmbedding.audit.relations import relate
from AnatomicalEmbedding.audit.usual import load_usual
from AnatomicalEmbedding.scan.volume import Volume


@pytest.fixture(scope="module")
def body() -> np.ndarray:
    return make_labels(1.06, 12.0)


@pytest.fixture(scope="module")
def labels(body):
    return measured(body)


def audited(labels):
    relations = relate(labels, load_usual())
    found = check_labels(relations)
    # balls are no organs
    return [each for each in found if each.score >= 0.5 and each.problem not in ("volume", "cut")]


def named(labels, names):
    return [
        replace(each, name=names.get(each.name, each.name), text=names.get(each.name, each.text))
        for each in labels
    ]


def test_a_right_body_of_another_size_has_no_finding(labels):
    assert {each.name for each in labels} == set(NAMES)
    assert audited(labels) == []


def test_all_sides_exchanged_give_one_finding_of_the_whole_scan(labels):
    (found,) = audited(
        named(
            labels, {each.name: other_side(each.name) for each in labels if other_side(each.name)}
        )
    )
    assert (found.problem, found.label) == ("side", "")


@pytest.mark.parametrize(("axis", "text"), [(0, "left and right"), (2, "head and feet")])
def test_a_mirrored_body_is_found(body, axis, text):
    (found,) = audited(measured(np.flip(body, 2 - axis)))
    assert (found.problem, found.label) == ("mirrored", "")
    assert text in found.detail


def test_exchanged_names_are_found(labels):
    found = audited(named(labels, {"spleen": "heart", "heart": "spleen"}))
    assert [(each.problem, set(each.label.split(", "))) for each in found] == [
        ("exchanged", {"spleen", "heart"})
    ]
    names = {"vertebrae_L1": "vertebrae_L2", "vertebrae_L2": "vertebrae_L1"}
    assert ("exchanged", set(names)) in [
        (each.problem, set(each.label.split(", "))) for each in audited(named(labels, names))
    ]


@pytest.mark.parametrize("step", [-1, 1])
def test_vertebrae_numbered_one_off_are_found(labels, step):
    series = [f"vertebrae_T{n}" for n in range(5, 13)] + [f"vertebrae_L{n}" for n in range(1, 6)]
    kept = [each for each in labels if each.name != "vertebrae_L5"]
    found = audited(named(kept, {name: series[series.index(name) + step] for name in SPINE[:-1]}))
    assert [(each.problem, each.label) for each in found] == [("level", "")]
    assert ("too high" if step < 0 else "too low") in found[0].detail


def test_half_of_the_voxel_size_is_found(body):
    to_ras = ijk_to_ras()
    to_ras[:3, :3] /= 2
    half = measured(body, NAMES, to_ras)
    found = audited(half)
    assert "geometry" in {each.problem for each in found}
    assert "volume" not in {each.problem for each in check_labels(relate(half, load_usual()))}


def test_a_stray_piece_is_found_with_its_place_and_volume(body):
    wrong = body.copy()
    wrong[30:34, 30:34, 80:84] = NAMES.index("liver") + 1
    (found,) = audited(measured(wrong))
    assert (found.problem, found.label) == ("stray", "liver")
    assert f"{64 * STEP_MM**3 / 1000:.1f} ml" in found.detail
    assert np.abs(found.point_ras - (ijk_to_ras() @ [81.5, 31.5, 31.5, 1])[:3]).max() <= STEP_MM


def test_an_organ_that_ends_with_a_large_slice_is_found(body):
    value = NAMES.index("liver") + 1
    wrong = body.copy()
    slices = np.flatnonzero((wrong == value).any(axis=(1, 2)))
    upper = wrong[slices[len(slices) * 3 // 4] :]
    upper[upper == value] = 0
    found = check_labels(relate(measured(wrong), load_usual()))
    scores = [each.score for each in found if (each.label, each.problem) == ("liver", "cut")]
    assert max(scores, default=0) > 0.5


def test_labels_in_air_and_other_grids_are_found(body, labels):
    hu = np.where(body > 0, 40, -1000).astype(np.int16)
    hu[body == NAMES.index("spleen") + 1] = -1000
    volume = Volume(hu, ijk_to_ras())
    given = labelled(body)
    (found,) = check_tissue(volume, given, labels)
    assert (found.label, found.problem) == ("spleen", "outside")
    assert check_grids(volume, given) == []
    moved = ijk_to_ras()
    moved[2, 3] += 10
    (found,) = check_grids(volume, replace(given, ijk_to_ras=moved))
    assert found.problem == "geometry"
    assert "10.0 mm" in found.detail
    assert "voxels" in check_grids(Volume(hu[:-3], ijk_to_ras()), given)[0].detail
    # of square slices with exchanged axes, the first and the last voxel stay in place; other corners do not
    square = Volume(hu[:9, :20, :20], np.eye(4))
    (found,) = check_grids(square, labelled(square.voxels, NAMES, np.eye(4)[[1, 0, 2, 3]]))
    assert "26.9 mm" in found.detail  # the diagonal of 19 mm x 19 mm


def test_only_structures_that_exclude_each_other_may_not_overlap(labels):
    shared = (
        ("liver", "spleen", 300.0),
        ("lung_left", "lung_upper_lobe_left", 300.0),
        ("liver", "tumour", 90.0),
    )
    assert [(each.problem, each.label) for each in check_overlaps(shared, labels)] == [
        ("overlap", "liver, spleen")
    ]


def test_the_shipped_table_says_where_organs_lie():
    usual = load_usual()
    at = {name: usual.places[n] for name, n in usual.index.items()}
    assert at["liver"][0] > 40 > -40 > at["spleen"][0]  # right and left
    assert at["sternum"][1] > at["heart"][1] > at["vertebrae_T8"][1]  # front and back
    heights = [at[name][2] for name in ("brain", "heart", "liver", *SPINE[4:], "urinary_bladder")]
    assert heights == sorted(heights, reverse=True)
    assert np.exp(usual.volume[usual.index["liver"]]) == pytest.approx(1500, rel=0.2)
