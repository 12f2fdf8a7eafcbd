"""Test label maps without images: their place in the body frame, and the images that are made of them."""

import json

import numpy as np
import pytest
import SimpleITK as sitk

from AnatomicalEmbedding.phantom import make_phantom
from AnatomicalEmbedding.scan.geometry import transform_points
from AnatomicalEmbedding.scan.label_map import LabelMap
from AnatomicalEmbedding.structures.label_names import find_structures
from AnatomicalEmbedding.training.label_frames import place
from AnatomicalEmbedding.training.label_images import (
    LabelledBody,
    make_label_image,
    prepare_label_image,
    prepare_label_images,
)

ORGANS = (
    "liver",
    "spleen",
    "kidney_left",
    "kidney_right",
    "pancreas",
    "gallbladder",
    "stomach",
    "adrenal_gland_left",
)
SPACING = (4.0, 4.0, 4.0)
WORKING = (6.0, 6.0, 8.0)


def write_map(folder, seed):
    """The organs of a synthetic patient as a label map without an image; the patient."""
    phantom = make_phantom(seed, spacing=SPACING, coverage_mm=(150.0, 420.0))
    labels = np.zeros_like(phantom.labels)
    for number, organ in enumerate(ORGANS, 1):
        theirs = next(value for value, name in phantom.label_names.items() if name == organ)
        labels[phantom.labels == theirs] = number
    image = sitk.GetImageFromArray(labels)
    image.SetSpacing(SPACING)
    image.SetOrigin((phantom.volume.ijk_to_ras[:3, 3] * (-1, -1, 1)).tolist())
    sitk.WriteImage(image, str(folder / f"p{seed}.seg.nii.gz"))
    names = {str(number): organ for number, organ in enumerate(ORGANS, 1)}
    (folder / f"p{seed}.labels.json").write_text(json.dumps(names))
    return phantom


@pytest.fixture(scope="module")
def maps(tmp_path_factory):
    """A folder with the label maps of three patients."""
    folder = tmp_path_factory.mktemp("labelmaps")
    patients = {f"p{seed}": write_map(folder, seed) for seed in range(3)}
    return folder, patients


@pytest.fixture(scope="module")
def bodies(maps):
    return {name: LabelledBody.read(maps[0] / f"{name}.seg.nii.gz") for name in maps[1]}


@pytest.fixture(scope="module")
def placement(bodies):
    return place({name: body.points for name, body in bodies.items()})


def test_a_label_map_keeps_its_places_in_mm(maps, bodies):
    for name, phantom in maps[1].items():
        values = {
            structure: value
            for value, structure in phantom.label_names.items()
            if structure in ORGANS
        }
        theirs, _ = find_structures(LabelMap(phantom.labels, phantom.volume.ijk_to_ras, values))
        assert bodies[name].points.keys() == theirs.keys()
        for structure, found in theirs.items():
            np.testing.assert_allclose(bodies[name].points[structure], found, atol=1e-3)


def distances_from_mean_mm(bodies, placement, count):
    """How far each organ of each label map lies from its mean place, mm, if `count` patients are behind the means."""
    counted = place(
        {name: body.points for name, body in bodies.items()}, dict.fromkeys(placement.mean, count)
    )
    return {
        (name, structure): np.linalg.norm(
            counted.maps[name].to_body(points[:1]) - counted.mean[structure][:1]
        )
        for name, body in bodies.items()
        for structure, points in body.points.items()
    }


def test_organ_centres_land_where_organs_are_on_average(bodies, placement):
    assert max(distances_from_mean_mm(bodies, placement, count=1000).values()) < 6


def test_prepared_images_know_their_organs_places(bodies, placement):
    body = bodies["p2"]
    image = make_label_image(body, placement, seed=0)
    scan = prepare_label_image(body, image, "labels_p2_0", WORKING)
    nodes = scan.field_nodes_ras().reshape(-1, 3)
    field = scan.body_field.numpy().reshape(3, -1).T
    np.testing.assert_allclose(field, image.to_body(nodes), atol=1e-2)
    centre = body.points["kidney_left"][:1]
    # fat may move it a little
    assert np.linalg.norm(image.to_body(centre) - placement.mean["kidney_left"][:1]) < 8
    assert scan.origin == "label map"
    kidney = transform_points(np.linalg.inv(scan.grid_to_ras), centre)[0].round().astype(int)[::-1]
    assert scan.label_names[int(scan.labels[tuple(kidney)]) - 1] == "kidney_left"
    assert bool(scan.body.any())


def test_a_folder_is_prepared_once(maps, tmp_path):
    lines = []
    paths = prepare_label_images(maps[0], 1, WORKING, tmp_path, lines.append)
    assert [path.stem for path in paths] == [f"labels_p{seed}_0" for seed in range(3)]
    assert len(lines) == 3
    prepare_label_images(maps[0], 1, WORKING, tmp_path, lines.append)
    assert len(lines) == 3
