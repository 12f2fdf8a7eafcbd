"""Test the organ head, its training, and coordinates corrected with the organs, against known truth."""

from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from ellipsoid_cases import ORGANS, write_case
from small_models import small_network
from training_scans import SPACING_MM, make_sampler, tiny_recipe

from AnatomicalEmbedding.embedding.organ_anchors import anchored
from AnatomicalEmbedding.structures.labelled_scans import load_cases
from AnatomicalEmbedding.training.frames import STILL
from AnatomicalEmbedding.training.organs import (
    organ_codes,
    with_organ_knowledge,
)
from AnatomicalEmbedding.training.scans import (
    PreparedScan,
    prepare_volume,
    with_exact_body,
    with_labels,
)

CELL_MM = np.array((12.0, 12.0, 16.0))
NAMES = ("liver", "kidney_left", "kidney_right")


# -- anchoring: the coordinate is the place in the body, in units of 100 mm


def body_coordinate(shape=(24, 30, 30)) -> torch.Tensor:
    k, j, i = torch.meshgrid(*(torch.arange(n) + 0.5 for n in shape), indexing="ij")
    return torch.stack([i * 0.12, j * 0.12, k * 0.16])


def ball(coordinate: torch.Tensor, centre, radius: float) -> torch.Tensor:
    apart = coordinate - torch.tensor(centre)[:, None, None, None]
    return (apart.norm(dim=0) < radius).float()


def place(centre, radius: float) -> list[float]:
    return [*centre, *[radius / 5**0.5] * 3, 4 / 3 * np.pi * radius**3 * 1000]


@pytest.fixture
def displaced():
    """A body in which one ball-shaped organ of radius 0.4 lies 0.5 too low: coordinate, organ, its usual place."""
    coordinate = body_coordinate()
    usual = (1.8, 1.8, 2.0)
    found = (1.8, 1.8, 1.5)
    return coordinate, ball(coordinate, found, 0.4)[None], torch.tensor([place(usual, 0.4)])


def everywhere(coordinate: torch.Tensor) -> torch.Tensor:
    return torch.ones(coordinate.shape[1:], dtype=torch.bool)


def mean_in(coordinate: torch.Tensor, organ: torch.Tensor) -> np.ndarray:
    return ((coordinate * organ).sum((1, 2, 3)) / organ.sum()).numpy()


def test_an_organ_that_lies_low_gets_the_coordinates_of_its_usual_place(displaced):
    coordinate, organ, places = displaced
    moved = anchored(coordinate, organ, places, everywhere(coordinate), CELL_MM)
    np.testing.assert_allclose(mean_in(moved, organ[0]), (1.8, 1.8, 2.0), atol=0.08)
    far = ball(coordinate, (1.8, 1.8, 1.5), 1.2) == 0
    assert (moved - coordinate)[:, far].abs().max() < 1e-3


@pytest.mark.parametrize("fault", ["absent", "small", "cut", "far", "unknown"])
def test_an_organ_that_is_not_seen_whole_moves_nothing(displaced, fault):
    coordinate, organ, places = displaced
    body = everywhere(coordinate)
    if fault == "absent":
        organ = torch.zeros_like(organ)
    elif fault == "small":
        organ = organ * ball(coordinate, (1.8, 1.8, 1.5), 0.2)
    elif fault == "cut":
        body[:9] = False  # the scan begins within the organ
        organ = organ * body
    elif fault == "far":
        places = torch.tensor([place((1.8, 1.8, 2.2), 0.4)])
    else:
        places = torch.zeros_like(places)
    assert torch.equal(anchored(coordinate, organ, places, body, CELL_MM), coordinate)


# -- training


def prepared(folder) -> list[PreparedScan]:
    """The labelled scans of a folder with the place in the world as body coordinates."""
    found = []
    for case in load_cases(folder):
        scan = replace(prepare_volume(case.volume, STILL, SPACING_MM), name=case.id)
        found.append(with_exact_body(with_labels(scan, case.label_map), lambda ras: ras))
    return found


@pytest.fixture(scope="module")
def labelled(tmp_path_factory):
    folder = tmp_path_factory.mktemp("labelled")
    for n in range(5):
        write_case(folder, f"body{n}", shift=(4.0 * n, -3.0 * n, 2.0 * n))
    return folder


def network_of_organs(**spec):
    return small_network(spacing_mm=SPACING_MM, local_channels=4, organs=NAMES, **spec)


@pytest.fixture(scope="module")
def joint():
    """A recipe that learns coordinates, descriptors and organs together."""
    sizes = {"crop_sizes": [[48, 48, 32]], "voxels_per_batch": 0, "pairs": 2, "points_per_pair": 40}
    return tiny_recipe(
        "hybrid",
        network={"widths": [12, 16, 24], "organs": list(NAMES), "organ_channels": 3},
        batch=sizes,
        loss={"organ_weight": 1.0},
    )


def test_labels_follow_the_crop(labelled, joint):
    batch = make_sampler(prepared(labelled), joint, seed=3)[1]
    known = batch.labelled.any(1)
    assert known.all()
    # the tiny recipe maps HU from -1000 to 1000
    hu = F.avg_pool3d(batch.image, 2)[:, 0] * 2000 - 1000
    for number in range(1, 1 + len(NAMES)):
        inside = (batch.labels == number) & (
            F.avg_pool3d((batch.labels == number).float(), 3, 1, 1) == 1
        )
        # liver 100, kidneys 140 and 180 HU (ellipsoid_cases), in the order of the label map
        if inside.any():
            assert abs(float(hu[inside].median()) - (60 + 40 * number)) < 25
    assert (batch.labels > 0).any()


def test_usual_places_are_those_of_the_labels(labelled):
    network = with_organ_knowledge(network_of_organs(organ_channels=3), prepared(labelled))
    places = network.organs.places.numpy()
    for (_, axes), volume in zip(ORGANS.values(), places[:, 6], strict=True):
        assert volume == pytest.approx(4 / 3 * np.pi * np.prod(axes) / 1000, rel=0.1)
    length = network.organs.codes.norm(dim=1)
    torch.testing.assert_close(length, torch.ones_like(length))
    four = with_organ_knowledge(network_of_organs(), prepared(labelled)[:4])
    assert (four.organs.places == 0).all(), "four scans are too few"


# -- codes of organs within descriptors


def test_codes_of_neighbours_differ_where_not_all_can():
    ring = 12  # organs of which each touches two others, everything else about them; three channels
    near = torch.zeros(1 + ring, 1 + ring)
    for organ in range(ring):
        near[1 + organ, 1 + (organ + 1) % ring] = near[1 + (organ + 1) % ring, 1 + organ] = 0.5
    codes = organ_codes(near, 3)
    cosine = codes @ codes.T
    assert torch.allclose(cosine.diagonal(), torch.ones(1 + ring), atol=1e-5)
    assert cosine[near > 0].max() < 0.2
    assert cosine[0, 1:].max() < 0.2
