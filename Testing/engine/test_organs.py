"""The organ head, its training, and coordinates anchored to the organs, against known truth."""

import numpy as np
import pytest
import torch
from ellipsoid_cases import ORGANS, write_case
from hypothesis import given, settings
from hypothesis import strategies as st
from small_models import small_network

from AnatomicalEmbedding.embedding.anchoring import anchored
from AnatomicalEmbedding.embedding.inference import Model
from AnatomicalEmbedding.errors import AnatomicalEmbeddingError
from AnatomicalEmbedding.structures.labelled_scans import load_cases
from AnatomicalEmbedding.training.organ_codes import neighbourhood, organ_codes, with_organ_codes
from AnatomicalEmbedding.training.organ_head import (
    organ_loss,
    read_example,
    share_of_cells,
    train_organ_head,
    usual_places,
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
    usual, found = (1.8, 1.8, 2.0), (1.8, 1.8, 1.5)
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


def test_where_everything_lies_as_usual_nothing_moves(displaced):
    coordinate, organ, _ = displaced
    usual = torch.tensor([place((1.8, 1.8, 1.5), 0.4)])
    moved = anchored(coordinate, organ, usual, everywhere(coordinate), CELL_MM)
    assert (moved - coordinate).abs().max() < 0.06  # half a cell: a ball drawn in cells is not quite round


def test_a_larger_organ_is_scaled_to_its_usual_size(displaced):
    coordinate, _, places = displaced
    large = ball(coordinate, (1.8, 1.8, 2.0), 0.6)
    moved = anchored(coordinate, large[None], places, everywhere(coordinate), CELL_MM)
    spread = [
        float((c * large).sum((0, 1, 2))) for c in (moved - torch.tensor((1.8, 1.8, 2.0))[:, None, None, None]) ** 2
    ]
    np.testing.assert_allclose(np.sqrt(np.array(spread) / float(large.sum())), 0.4 / 5**0.5, rtol=0.15)


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


def literal_loss(logits, share, body, known):
    """organ_loss cell by cell and organ by organ."""
    probability = torch.softmax(logits, 0)
    total, cells = 0.0, 0
    for k, j, i in torch.nonzero(body).tolist():
        cells += 1
        labelled = sum(float(share[c, k, j, i]) for c in known)
        rest = sum(probability[c, k, j, i] for c in range(len(logits)) if c not in known)
        total = total - (1 - labelled) * torch.log(rest)
        for c in known:
            total = total - share[c, k, j, i] * torch.log(probability[c, k, j, i])
    overlaps = []
    for c in known:
        truth, found = share[c] * body, probability[c] * body
        if truth.sum() > 0.5:
            overlaps.append(1 - (2 * (found * truth).sum() + 1) / (found.sum() + truth.sum() + 1))
    return total / max(cells, 1) + (sum(overlaps) / len(overlaps) if overlaps else 0.0)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10**6), st.sets(st.integers(1, 4), min_size=1))
def test_the_loss_and_its_gradient_are_the_literal_ones(seed, known):
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(0, 5, (8, 8, 12), generator=generator)
    share = share_of_cells(labels, 5)
    body = torch.rand(2, 2, 3, generator=generator) > 0.3
    logits = torch.randn(5, 2, 2, 3, generator=generator, dtype=torch.double).requires_grad_()
    values = [loss(logits, share, body, sorted(known)) for loss in (organ_loss, literal_loss)]
    gradients = [torch.autograd.grad(value, logits)[0] for value in values]
    torch.testing.assert_close(values[0], values[1])
    torch.testing.assert_close(gradients[0], gradients[1])


def test_shares_of_cells_count_voxels():
    labels = torch.zeros(4, 4, 8, dtype=torch.uint8)
    labels[:2, :, :4] = 1
    labels[0, 0, 4] = 2
    share = share_of_cells(labels, 3)
    assert share[:, 0, 0, 0].tolist() == [0.5, 0.5, 0.0]
    assert share[:, 0, 0, 1].tolist() == [1 - 1 / 64, 0.0, 1 / 64]


@pytest.fixture(scope="module")
def labelled(tmp_path_factory):
    folder = tmp_path_factory.mktemp("labelled")
    for n in range(5):
        write_case(folder, f"body{n}", shift=(4.0 * n, -3.0 * n, 2.0 * n))
    return load_cases(folder)


@pytest.fixture(scope="module")
def network():
    return small_network(local_channels=4)


@pytest.fixture(scope="module")
def examples(labelled, network):
    return [read_example(network, case, NAMES) for case in labelled]


@pytest.fixture(scope="module")
def trained(examples, network):
    """A network whose organ head has learnt from all but the first scan, and its losses."""
    losses = []
    joined = train_organ_head(network, examples[1:], NAMES, steps=45, report=lambda step, loss: losses.append(loss))
    return joined, losses


@pytest.mark.long
def test_a_trained_head_finds_the_organs_and_leaves_the_rest_of_the_network_alone(labelled, examples, network, trained):
    joined, losses = trained
    assert np.mean(losses[-5:]) < 0.5 * np.mean(losses[:5])
    for name, value in network.state_dict().items():
        assert torch.equal(value, joined.state_dict()[name])
    with torch.no_grad():
        found = joined.organs.logits(*examples[0].inputs())[0].argmax(0)
    truth = share_of_cells(examples[0].labels, 4).argmax(0)
    overlap = 2 * float(((found == 1) & (truth == 1)).sum()) / float((found == 1).sum() + (truth == 1).sum())
    assert overlap > 0.7
    assert Model(joined, "joined", "0" * 64).embed(labelled[0].volume).coordinate.isfinite().all()


def test_usual_places_are_those_of_the_labels(examples):
    places = usual_places(examples, NAMES).numpy()
    for (_, axes), volume in zip(ORGANS.values(), places[:, 6], strict=True):
        assert volume == pytest.approx(4 / 3 * np.pi * np.prod(axes) / 1000, rel=0.1)
    assert (usual_places(examples[:4], NAMES) == 0).all(), "four scans are too few"


def test_one_kidney_without_a_place_takes_it_from_the_other(labelled, network, tmp_path):
    for n in range(5):  # the left kidney lies anywhere
        (centre, axes), kidney = ORGANS["left_kidney"], dict(ORGANS)
        kidney["left_kidney"] = (tuple(np.add(centre, (0, 0, 20.0 * n))), axes)
        write_case(tmp_path, f"body{n}", organs=kidney)
    examples = [read_example(network, case, NAMES) for case in load_cases(tmp_path)]
    for example in examples:  # an untrained network knows no places: the place in the grid instead
        k, j, i = torch.meshgrid(*(torch.arange(n) for n in example.body.shape), indexing="ij")
        example.coordinate.copy_(torch.stack([i, j, k]) * 0.12)
    places = usual_places(examples, NAMES)
    assert places.any(1).tolist() == [True, False, False]


def test_an_organ_that_is_not_labelled_is_not_known(labelled, network, tmp_path):
    write_case(tmp_path, "liver", organs={"liver": ORGANS["liver"]})
    (case,) = load_cases(tmp_path)
    example = read_example(network, case, NAMES)
    assert example.known == (1,)
    assert set(example.labels.unique().tolist()) == {0, 1}
    assert read_example(network, case, ("spleen",)) is None
    assert read_example(network, case, NAMES, without=("liver",)) is None
    with pytest.raises(AnatomicalEmbeddingError, match="give labelled scans"):
        train_organ_head(network, [], NAMES, 1)


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


def test_neighbourhood_is_the_share_of_cells_near_the_other(examples):
    near = neighbourhood(examples, len(NAMES))
    torch.testing.assert_close(near, near.T)
    assert (near >= 0).all()
    assert (near <= 1).all()
    assert near[2, 3] == 0, "the kidneys lie on either side of the body"
    assert near[1, 1] == 1


@pytest.mark.long
def test_descriptors_of_one_organ_are_alike_and_those_of_another_are_not(labelled, examples, trained):
    coded = with_organ_codes(trained[0], examples, channels=3)
    one, two = (Model(coded, "coded", "0" * 64).embed(case.volume) for case in labelled[:2])
    assert one.local.shape[0] == 4 + 3
    length = one.local.float().norm(dim=0)[one.local_body]
    torch.testing.assert_close(length, torch.ones_like(length), atol=2e-3, rtol=0)
    points = {
        name: [case.structures[structure].points_ras[:1] for case in labelled[:2]]
        for name, structure in (("liver", "liver"), ("kidney", "kidney_left"))
    }
    codes = {
        name: [each.describe(place)[0][0, 4:] for each, place in zip((one, two), places, strict=True)]
        for name, places in points.items()
    }
    same = min(float(a @ b) for a, b in codes.values())
    other = float(codes["liver"][0] @ codes["kidney"][1])
    assert same > 0.3
    assert other < 0.2
