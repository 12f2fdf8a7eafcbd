"""Test ribs: where they begin at the spine, their course through bone, and pieces that reach no vertebra."""

import numpy as np
import pytest

from AnatomicalEmbedding.anatomy.names import RIBS
from AnatomicalEmbedding.spine.vertebrae import Spine
from AnatomicalEmbedding.words.ribs import _ABOVE_MM, SECTORS, _begun, number_pieces

MIDDLES = {f"T{n}": 400.0 - 24.0 * n for n in range(5, 13)} | {"L1": 84.0, "L2": 56.0}


def spine() -> Spine:
    middles = np.array(list(MIDDLES.values()))
    nothing = np.zeros(len(MIDDLES))
    bounds = np.stack([middles - 11, middles + 11], axis=1)
    course = np.stack([0 * middles, 0 * middles, middles], axis=1)[::-1]
    chances = np.tile([0.0, 1.0, 0.0], (len(middles), 1))
    return Spine(
        tuple(MIDDLES),
        course[::-1],
        bounds,
        nothing == 0,
        chances,
        nothing,
        course,
        0 * course[:, :2],
    )


@pytest.mark.parametrize("off", [-8.0, 0.0, 8.0])
@pytest.mark.parametrize("unseen", [None, 7])
def test_ribs_begin_at_their_vertebrae(off, unseen):
    """All ribs of the patient begin higher or lower than usual, one is not seen, and L1 has long processes."""
    rng = np.random.default_rng(0)
    heights = {
        n: MIDDLES[f"T{n}"] + _ABOVE_MM[f"T{n}"] + off for n in range(5, 13) if n != unseen
    } | {0: MIDDLES["L1"] + off - 4}
    cells = np.concatenate([height + rng.normal(0, 2.0, 30) for height in heights.values()])
    truth = np.repeat(list(heights), 30)
    number = _begun(cells, np.ones(len(cells), dtype=bool), spine())
    assert (number >= 0).mean() > 0.9
    assert (number[number >= 0] == truth[number >= 0]).all()


@pytest.mark.parametrize("coordinate_off", [0.0, 27.0])
def test_pieces_are_numbered_by_coordinates_that_numbered_ribs_correct(coordinate_off):
    """A scan that begins below most ribs' heads: 12 and the beginning of 11 are numbered, the rest hangs in between."""
    cells = []
    truth = []
    numbered = []
    for n in range(7, 13):
        first = max(0, 4 * (11 - n))
        last = {12: 7, 11: 14}.get(n, 30)
        for sector in range(first, last):
            for thick in range(3):
                height = 300.0 - 26.0 * n - 3.0 * sector - 3.0 * thick
                cells.append((sector, thick, 10 * n, height))
                truth.append(n)
                numbered.append(n == 12 or (n == 11 and sector < 3))
    cells = np.array(cells)
    truth = np.array(truth)
    number = np.where(numbered, truth, -1)
    usual = np.array([300.0 - 26.0 * n for n in range(RIBS + 1)])
    error = cells[:, 3, None] + 3.0 * cells[:, :1] + coordinate_off - usual
    error[:, 0] = np.nan
    index = cells[:, :3].astype(int)
    among = np.ones(len(cells), dtype=bool)
    assert (number_pieces(index, number, error, among, (130, 3, SECTORS)) == truth).all()
