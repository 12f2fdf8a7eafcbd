"""Test that the rows of the tables of the canonical body are drawn as docs/architecture.md explains."""

import numpy as np
import pytest

from AnatomicalEmbedding.phantom import parts
from AnatomicalEmbedding.phantom.canvas import Canvas
from AnatomicalEmbedding.phantom.tissues import LABEL_ID, TISSUE_ID

HEADER = "side,structure,tissue,over,shape,points,radii,detail,step,grow"


@pytest.fixture
def draw(monkeypatch):
    """Draw rows on a small canvas. Returns functions from a place to the tissue and to the structure there."""

    def drawn(*rows: str):
        values = [dict(zip(HEADER.split(","), row.split(","), strict=True)) for row in rows]
        monkeypatch.setitem(parts._ROWS, "test", values)
        canvas = Canvas((-40, -20, -20), (40, 20, 20), 1.0)
        parts.draw_part(canvas, "test")

        def value(grid: np.ndarray, numbers, place: tuple[int, int, int]) -> str:
            x, y, z = place
            return list(numbers)[grid[z + 20, y + 20, x + 40]]

        return (
            lambda *place: value(canvas.tissue, TISSUE_ID, place),
            lambda *place: value(canvas.label, LABEL_ID, place),
        )

    return drawn


def test_a_row_without_tissue_is_drawn_with_the_next_and_both_again_where_no_shape_is_given(draw):
    tissue, structure = draw(
        ",,,,ellipsoid,-10 0 0,6 6 6,,,",
        ",hip_left,cortical_bone,,ellipsoid,10 0 0,6 6 6,,,",
        ",hip_left,marrow,,,,,,,-3",
    )
    for x in (-10, 10):
        assert [tissue(x + off, 0, 0) for off in (0, 2, 4, 7)] == [
            "marrow",
            "marrow",
            "cortical_bone",
            "air",
        ]
        assert structure(x, 0, 0) == "hip_left"


def test_rows_of_each_side_are_all_drawn_on_the_right_first(draw):
    tissue, structure = draw(
        "each,kidney_{},fat,,ellipsoid,3 0 0,6 6 6,,,",
        "each,kidney_{},liver,,ellipsoid,3 0 0,2 2 2,,,",
    )
    assert structure(8, 0, 0) == "kidney_right"
    assert structure(-8, 0, 0) == structure(2, 0, 0) == "kidney_left"
    assert tissue(4, 0, 0) == "liver"
    assert tissue(2, 0, 0) == "fat"  # the fat of the left side covers the right side


def test_shapes_stand_where_their_columns_say(draw):
    tissue, _ = draw(
        "mirrored,,bile,,tube,20 0 -10; 20 0 10,4,2 1 1,,",
        ",,csf,,sheet,-4 -10 0; 4 -10 0 | -4 10 0; 4 10 0,2,,,",
        ",,soft,csf,ellipsoid,0 0 0,2 2 15,0 1 0,,1",
    )
    for side in (-1, 1):
        assert tissue(side * 27, 0, 0) == "bile"
        assert tissue(side * 20, 5, 0) == "air"
    assert tissue(0, 9, 0) == "soft"
    assert tissue(3, 9, 0) == "csf"
    assert tissue(0, 14, 0) == "air"  # over csf alone
