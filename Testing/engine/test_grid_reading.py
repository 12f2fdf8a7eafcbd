"""Grids whose cells hold their own place: reading gives back the place asked for."""

import pytest
import torch

from AnatomicalEmbedding.embedding.grid_reading import flat_index, read_linear, read_rows

SHAPE = (4, 5, 6)  # k, j, i


def places(dtype=torch.float32):
    return torch.stack(torch.meshgrid(*(torch.arange(n) for n in SHAPE), indexing="ij")[::-1]).to(dtype)


def rows(grid):
    return grid.movedim(0, -1).reshape(-1, grid.shape[0])


ASKED = torch.tensor([[0.0, 0.0, 0.0], [5.0, 4.0, 3.0], [2.5, 1.25, 0.75], [4.9, 3.1, 2.2]])


def test_places_between_cells_are_read():
    torch.testing.assert_close(read_linear(places()[None], ASKED[None])[0], ASKED)
    torch.testing.assert_close(read_rows(rows(places(torch.float16)), SHAPE, ASKED), ASKED, rtol=0, atol=1e-5)
    torch.testing.assert_close(read_rows(rows(places()), SHAPE, ASKED.view(2, 2, 3)), ASKED.view(2, 2, 3))


@pytest.mark.parametrize("outside", [(-3.0, 2.0, 1.0), (9.0, 9.0, 9.0), (2.2, -0.4, 3.4)])
def test_beyond_the_border_the_border_is_read(outside):
    asked = torch.tensor([outside])
    nearest = torch.minimum(asked.clamp(min=0), torch.tensor(SHAPE[::-1]) - 1.0)
    torch.testing.assert_close(read_linear(places()[None], asked[None])[0], nearest)
    torch.testing.assert_close(read_rows(rows(places()), SHAPE, asked), nearest)


def test_rows_are_numbered_as_they_lie():
    whole = torch.tensor([[3, 2, 1], [-1, 2, 1], [3, 2, 9]])
    index, inside = flat_index(whole, torch.Size(SHAPE))
    assert inside.tolist() == [True, False, False]
    torch.testing.assert_close(rows(places(torch.long))[index], torch.tensor([[3, 2, 1], [0, 2, 1], [3, 2, 3]]))
