"""Test the steps of segmentation from a few examples, on known shapes and known files."""

import json
from pathlib import Path

import numpy as np
import pytest
import SimpleITK as sitk
import torch

from AnatomicalEmbedding.errors import PointsError
from AnatomicalEmbedding.scan.geometry import to_image
from AnatomicalEmbedding.scan.label_map import LabelMap
from AnatomicalEmbedding.segmentation.examples import (
    common_values,
    label_differences,
    read_examples,
)
from AnatomicalEmbedding.segmentation.grids import Group, GroupCrop
from AnatomicalEmbedding.segmentation.outlining import choose_answer, clean
from AnatomicalEmbedding.segmentation.patches import TrainingCrop
from AnatomicalEmbedding.structures.label_files import write_nifti
from AnatomicalEmbedding.structures.segments import colour, read_segments, write_segments

OBLIQUE = np.array([[-0.9, 0.1, 0, 20], [0.1, 0.9, 0, -30], [0, 0, 2.5, 100], [0, 0, 0, 1.0]])


def ball(
    shape: tuple[int, int, int], centre: tuple[float, float, float], radius: float
) -> np.ndarray:
    place = np.stack(np.meshgrid(*(np.arange(n) for n in shape), indexing="ij"), axis=-1)
    return np.linalg.norm(place - np.array(centre), axis=-1) <= radius


def crop_with(labels: np.ndarray, spacing_mm: float = 3.0) -> TrainingCrop:
    """A crop whose labelled voxels are 200 HU brighter; coordinates are places, about the middle."""
    rng = np.random.default_rng(0)
    shape = labels.shape[1:]
    hu = -50.0 + 200.0 * labels.any(0) + rng.normal(0, 10, shape)
    axes = [(np.arange(n) - n / 2) * spacing_mm / 100 for n in shape]
    k, j, i = np.meshgrid(*axes, indexing="ij")
    crop = GroupCrop(
        torch.from_numpy(hu).float(), torch.from_numpy(np.stack([i, j, k])).float(),
        torch.ones(shape, dtype=torch.bool), spacing_mm, np.zeros(3),
    )  # fmt: skip
    return TrainingCrop(
        crop, torch.from_numpy(labels).half(), torch.ones(len(labels), dtype=torch.bool)
    )


def test_cleaning_keeps_both_of_a_pair_and_drops_crumbs_and_what_lies_elsewhere():
    shape = (30, 30, 40)
    pair = ball(shape, (15, 15, 10), 5) | ball(shape, (15, 15, 30), 5)
    crop = crop_with(pair[None]).crop
    group = Group(("lungs",), 3.0, np.full((1, 3), -40.0), np.full((1, 3), 40.0))
    crumb = pair.copy()
    crumb[2, 2, 2] = True
    kept, remark = clean(torch.from_numpy(crumb).float(), crop, group, 0)
    assert remark == ""
    assert np.array_equal(kept.numpy() > 0.5, pair)
    away = Group(("lungs",), 3.0, np.full((1, 3), 400.0), np.full((1, 3), 480.0))
    object.__setattr__(crop, "coordinate", crop.coordinate - torch.tensor(4.4)[None, None, None])
    _, remark = clean(torch.from_numpy(crumb).float(), crop, away, 0)
    assert "other parts of the body" in remark


def test_carried_labels_are_kept_where_the_network_leaves_next_to_nothing_of_them():
    labels = ball((24, 24, 24), (12, 12, 12), 6)[None]
    crop = crop_with(labels).crop
    guess = torch.from_numpy(labels[0]).float()
    group = Group(("liver",), 3.0, np.full((1, 3), -50.0), np.full((1, 3), 50.0))
    small = torch.from_numpy(ball((24, 24, 24), (12, 12, 12), 3)).float()
    half = torch.from_numpy(ball((24, 24, 24), (12, 12, 12), 5)).float()
    kept, why = choose_answer(half, guess, crop, group, 0)
    assert not why
    assert torch.equal(kept > 0.5, half > 0.5)
    for failed in (small, torch.zeros_like(small)):
        kept, why = choose_answer(failed, guess, crop, group, 0)
        assert "by registration alone" in why
        assert torch.equal(kept > 0.5, guess > 0.5)
    kept, why = choose_answer(small * 0, guess * 0, crop, group, 0)
    assert why
    assert not kept.any()


def test_slicer_file_has_names_colours_and_extents_and_is_read_back(tmp_path):
    labels = np.zeros((6, 7, 8), np.uint8)
    labels[1:3, 2:5, 3:8] = 1
    labels[4:, 0:2, 0:3] = 2
    path = tmp_path / "scan.seg.nrrd"
    write_segments(path, LabelMap(labels, OBLIQUE, {"liver": 1, "kidney_left": 2, "spleen": 3}))
    image = sitk.ReadImage(str(path))
    about = {key: image.GetMetaData(key) for key in image.GetMetaDataKeys()}
    assert [about[f"Segment{n}_Name"] for n in range(3)] == ["liver", "kidney_left", "spleen"]
    assert [about[f"Segment{n}_LabelValue"] for n in range(3)] == ["1", "2", "3"]
    assert about["Segment0_Extent"] == "3 7 2 4 1 2"
    assert about["Segment0_Layer"] == "0"
    assert [float(x) for x in about["Segment1_Color"].split()] == pytest.approx(colour(1), abs=1e-4)
    assert len({about[f"Segment{n}_ID"] for n in range(3)}) == 3
    again = read_segments(path)
    assert again.values == {"liver": 1, "kidney_left": 2, "spleen": 3}
    assert np.array_equal(again.voxels, labels)
    assert again.ijk_to_ras == pytest.approx(OBLIQUE)


NESTED = {"parotid_right": 3, "My Lesion": 300, "outer": 4}


@pytest.fixture
def nested() -> LabelMap:
    """The structures NESTED: "outer" holds the lesion and a part of the parotid gland."""
    masks = {name: np.zeros((6, 7, 8), bool) for name in NESTED}
    masks["parotid_right"][1:3, 2:5, 3:8] = True
    masks["My Lesion"][4:, 0:2, 0:3] = True
    masks["outer"][2:, 0:5, 0:6] = True
    return LabelMap.from_masks(masks.items(), (6, 7, 8), OBLIQUE).renumbered(NESTED)


def test_files_keep_names_and_labels_to_the_letter_and_nested_structures_whole(tmp_path, nested):
    write_segments(tmp_path / "scan.seg.nrrd", nested)
    read = read_segments(tmp_path / "scan.seg.nrrd")
    again = read.renamed(read.texts)
    assert again.values == NESTED
    for name in NESTED:
        assert np.array_equal(again.mask(name), nested.mask(name))
    write_nifti(tmp_path, "scan", nested)
    assert json.loads((tmp_path / "scan.labels.json").read_text()) == {
        str(n): name for name, n in NESTED.items()
    }
    flat = sitk.GetArrayFromImage(sitk.ReadImage(str(tmp_path / "scan.seg.nii.gz")))
    assert np.array_equal(flat == 300, nested.mask("My Lesion"))  # the smallest is on top
    assert np.array_equal(flat == 3, nested.mask("parotid_right"))
    assert np.array_equal(flat > 0, np.any([nested.mask(name) for name in NESTED], axis=0))


def example(
    folder: Path, name: str, labels: dict[str, int], slicer: bool = False, kind: type = np.uint16
) -> None:
    """An outlined scan of noise; every label is a slab."""
    voxels = np.zeros((len(labels) + 1, 8, 8), kind)
    for k, label in enumerate(labels.values()):
        voxels[k] = label
    noise = np.random.default_rng(0).normal(0, 100, voxels.shape)
    sitk.WriteImage(to_image(noise.astype(np.int16), OBLIQUE), str(folder / f"{name}.nii.gz"))
    if slicer:
        write_segments(folder / f"{name}.seg.nrrd", LabelMap(voxels, OBLIQUE, labels))
        return
    sitk.WriteImage(to_image(voxels, OBLIQUE), str(folder / f"{name}.seg.nii.gz"))
    (folder / f"{name}.labels.json").write_text(
        json.dumps({str(n): text for text, n in labels.items()})
    )


@pytest.mark.parametrize("kind", [np.uint16, np.float32, np.int32])
def test_examples_have_the_names_and_labels_of_their_files(tmp_path, kind):
    example(tmp_path, "a", {"parotid_right": 3, "My Lesion": 300, "Gland": 65535}, kind=kind)
    example(tmp_path, "b", {"PAROTID GLAND, right": 3, "My Lesion": 300}, kind=kind)
    examples = read_examples(tmp_path)
    assert examples[0].values == {"parotid_right": 3, "My Lesion": 300, "Gland": 65535}
    # the spelling of the first example
    assert examples[1].values == {"parotid_right": 3, "My Lesion": 300}
    for one in examples:
        assert [int(one.labels.mask(name).sum()) for name in one.outlined] == [64] * len(
            one.outlined
        )
    values = common_values(examples)
    assert values == {"parotid_right": 3, "My Lesion": 300, "Gland": 65535}
    assert label_differences(examples, values) == []


def test_a_label_that_cannot_be_kept_is_refused(tmp_path):
    example(tmp_path, "a", {"liver": 70_000}, kind=np.int32)
    with pytest.raises(
        PointsError, match=r"a\.nii\.gz: its label map has labels below 0 or above 65535"
    ):
        read_examples(tmp_path)


def test_one_label_with_two_names_goes_to_the_first_and_it_is_said(tmp_path):
    example(tmp_path, "a", {"parotid_right": 3})
    example(tmp_path, "b", {"My Lesion": 3})
    examples = read_examples(tmp_path)
    values = common_values(examples)
    (sentence,) = label_differences(examples, values)
    assert values == {"parotid_right": 3, "My Lesion": 4}
    assert "b.nii.gz" in sentence
    assert "My Lesion (3, not 4)" in sentence
    assert common_values(read_examples(tmp_path, ["My Lesion"])) == {"My Lesion": 3}
