"""Ribs against known truth: their beginnings by the spine, their way through bone, pieces that reach no vertebra."""

from dataclasses import replace

import numpy as np
import pytest

from AnatomicalEmbedding.anatomy.names import SIDES
from AnatomicalEmbedding.words.grid_weights import Field, Grid
from AnatomicalEmbedding.words.rib_pieces import RIBS, SECTORS, BoneOfHalf, number_pieces
from AnatomicalEmbedding.words.ribs import _ABOVE_MM, Ribs, _begun, _followed
from AnatomicalEmbedding.words.spine import Spine

LEFT = SIDES.index("left")
MIDDLES = {f"T{n}": 400.0 - 24.0 * n for n in range(5, 13)} | {"L1": 84.0, "L2": 56.0}


def spine() -> Spine:
    middles, nothing = np.array(list(MIDDLES.values())), np.zeros(len(MIDDLES))
    bounds = np.stack([middles - 11, middles + 11], axis=1)
    course = np.stack([0 * middles, 0 * middles, middles], axis=1)[::-1]
    return Spine(tuple(MIDDLES), course[::-1], bounds, nothing == 0, nothing + 1, nothing, course)


@pytest.mark.parametrize("off", [-8.0, 0.0, 8.0])
@pytest.mark.parametrize("unseen", [None, 7])
def test_ribs_begin_at_their_vertebrae(off, unseen):
    """All ribs of the patient begin higher or lower than usual, one is not seen, and L1 has long processes."""
    rng = np.random.default_rng(0)
    heights = {n: MIDDLES[f"T{n}"] + _ABOVE_MM[f"T{n}"] + off for n in range(5, 13) if n != unseen} | {
        0: MIDDLES["L1"] + off - 4
    }
    cells = np.concatenate([height + rng.normal(0, 2.0, 30) for height in heights.values()])
    truth = np.repeat(list(heights), 30)
    number = _begun(cells, np.ones(len(cells), dtype=bool), spine())
    assert (number >= 0).mean() > 0.9
    assert (number[number >= 0] == truth[number >= 0]).all()


def test_a_number_does_not_pass_to_a_rib_that_is_touched():
    along, number = np.arange(40), np.full(80, -1)
    index = np.concatenate([np.stack([along, 0 * along, 0 * along + k], axis=1) for k in (2, 3)])  # side by side
    number[[0, 40]] = 4, 5
    error = np.full((80, RIBS + 1), np.nan)
    for n in (4, 5):  # off by up to 16 mm, more and more, and 24 mm from each other
        error[:40, n], error[40:, n] = 0.4 * along + 24 * (n - 4), 0.4 * along + 24 * (n - 5)
    # the second rib is cut off from its beginning for some cells
    kept = np.r_[0:45, 48:80]
    found = _followed(index[kept], number[kept], error[kept], (6, 1, 40))
    assert (found[:40] == 4).all()
    assert (found[40:45] == 5).all()
    assert not (found[45:] == 4).any()


@pytest.mark.parametrize("coordinate_off", [0.0, 27.0])
def test_pieces_are_numbered_by_the_ribs_above_and_below(coordinate_off):
    """A scan that begins below most ribs' heads: 12 and the beginning of 11 are numbered, the rest hangs in between."""
    cells, truth, numbered = [], [], []
    for n in range(7, 13):
        first, last = max(0, 4 * (11 - n)), {12: 7, 11: 14}.get(n, 30)
        for sector in range(first, last):
            for thick in range(3):
                height = 300.0 - 26.0 * n - 3.0 * sector - 3.0 * thick
                cells.append((sector, thick, 10 * n, height))
                truth.append(n)
                numbered.append(n == 12 or (n == 11 and sector < 3))
    cells, truth = np.array(cells), np.array(truth)
    number = np.where(numbered, truth, -1)
    usual = np.array([300.0 - 26.0 * n for n in range(RIBS + 1)])
    error = cells[:, 3, None] + 3.0 * cells[:, :1] + coordinate_off - usual
    error[:, 0] = np.nan
    bone = BoneOfHalf(cells[:, :3].astype(int), cells[:, 3], cells[:, 0].astype(int), error, np.ones(len(cells), bool))
    assert (number_pieces(bone, number, (130, 3, SECTORS)) == truth).all()


def test_the_prior_of_a_rib_is_its_own_bone_and_never_that_of_others():
    shape = (8, 10, 30)
    grid = Grid(np.array([-60.0, 20.0, 300.0]), np.array([4.0, 4.0, 4.0]), shape, np.ones(shape, dtype=bool))
    along = np.arange(5, 25)
    cells = [np.stack([along, 0 * along + 4, 0 * along + k], axis=1) for k in (2, 3, 6)]
    number = np.repeat([7, 8, 8], 20)
    ribs = Ribs(np.concatenate(cells), np.full(60, LEFT), number)
    usual = Field((0, 0, 0), np.full(shape, 0.5, dtype=np.float32))
    whole = Field((0, 0, 0), np.zeros(shape, dtype=np.float32))
    prior = grid.values_over(ribs.prior(grid, "rib_left_8", usual), whole)
    own, others = (tuple(np.concatenate(of)[:, ::-1].T) for of in (cells[1:], cells[:1]))
    assert (prior[others] == 0).all()
    assert prior[own].min() > 0.9
    nearby = np.ones(shape, dtype=bool)
    nearby[own] = False
    assert 0 < prior[nearby].max() < 0.5
    assert ribs.prior(grid, "rib_right_8", usual) is None
    assert replace(ribs, number=np.where(number == 8, 0, 7)).prior(grid, "rib_left_8", usual) is None
    # half as likely where the atlas has the rib never
    usual.values[6] = 0
    less = grid.values_over(ribs.prior(grid, "rib_left_8", usual), whole)
    assert less[6][less[6] > 0].max() < prior[own].min() <= less[own].max()
