"""Test margins: boxes of new structures have the recall that was stated."""

import numpy as np
import pytest

from AnatomicalEmbedding.errors import AnatomicalEmbeddingError
from AnatomicalEmbedding.scan.boxes import OUTWARD
from AnatomicalEmbedding.structures.examples import SYNTHETIC
from AnatomicalEmbedding.structures.locating import Located
from AnatomicalEmbedding.structures.margins import KnownBox, Margins, learn_margins

TRUTH = np.array([[0.0, 0.0, 0.0], [60.0, 50.0, 80.0]])
VOXELS = np.stack(
    np.meshgrid(*(np.linspace(2, n - 2, 12) for n in TRUTH[1]), indexing="ij"), -1
).reshape(-1, 3)


def boxes(
    count: int, seed: int, off=(1.0, 1, 1, 1, 1, 1), names=("liver",), real=True
) -> list[KnownBox]:
    """Boxes whose sides are off by a heavy-tailed error, in units of a likely error that differs from box to box."""
    rng = np.random.default_rng(seed)
    known = []
    for n in range(count):
        sigma = rng.uniform(2, 8, 6)
        error = rng.standard_t(4, 6) * sigma * np.array(off)
        box = TRUTH - (OUTWARD * error).reshape(2, 3)
        located = Located(names[n % len(names)], box, sigma, 1.0, ())
        known.append(
            KnownBox(f"p{n // 3}" if real else f"{SYNTHETIC}{n // 3}", located, TRUTH, VOXELS)
        )
    return known


def recall(margins: Margins, known: list[KnownBox], stated: float) -> float:
    grown = [margins.box(box.located, stated) for box in known]
    return float(np.mean([((g[0] <= VOXELS) & (g[1] >= VOXELS)).all(axis=1).mean() for g in grown]))


@pytest.fixture(scope="module")
def learnt() -> list[Margins]:
    return [learn_margins(boxes(300, seed), False) for seed in range(12)]


@pytest.fixture(scope="module")
def new() -> list[KnownBox]:
    return boxes(400, 999)


@pytest.mark.parametrize("stated", [0.8, 0.9, 0.95, 0.99])
def test_new_boxes_have_the_stated_recall(learnt, new, stated):
    """On average over many small calibrations, as the theorem promises; and hardly more, or margins would be wasted."""
    found = [recall(margins, new, stated) for margins in learnt]
    assert np.mean(found) >= stated - 0.003
    assert np.mean(found) <= stated + 0.5 * (1 - stated) + 0.002


def test_structures_that_are_further_off_get_more():
    known = [*boxes(300, 2, names=("liver",)), *boxes(300, 3, off=(4.0,) * 6, names=("bowel",))]
    margins = learn_margins(known, True)
    easy, hard, new = (
        margins.margins_mm(Located(name, TRUTH, np.full(6, 4.0), 1.0, ()), 0.95)
        for name in ("liver", "bowel", "heart")
    )
    assert hard.min() > 2.5 * easy.max()
    assert easy.max() < new.mean() < hard.min()


def test_own_examples_change_the_margins_of_their_structure_alone():
    margins = learn_margins(boxes(300, 8), False)
    adapted = margins.adapted(boxes(5, 9, off=(1, 1, 6, 1, 1, 6), names=("tumour",)))
    one, other = (Located(name, TRUTH, np.full(6, 4.0), 1.0, ()) for name in ("tumour", "liver"))
    assert (adapted.margins_mm(one, 0.9) / margins.margins_mm(one, 0.9))[[2, 5]].min() > 1.5
    np.testing.assert_array_equal(adapted.margins_mm(other, 0.9), margins.margins_mm(other, 0.9))
    assert margins.adapted([]).scales == margins.scales


def test_the_stated_recall_holds_for_real_and_for_synthetic_scans():
    """Two kinds of errors: one is not made up for by the other."""
    hard = boxes(300, 11, off=(3.0,) * 6)
    easy = boxes(300, 12, off=(0.5,) * 6, real=False)
    margins = learn_margins([*hard, *easy], False)
    assert recall(margins, boxes(300, 13, off=(3.0,) * 6), 0.9) >= 0.88
    assert recall(margins, boxes(300, 14, off=(0.5,) * 6, real=False), 0.9) >= 0.97


def test_too_few_boxes_cannot_promise_much():
    margins = learn_margins(boxes(30, 6), False)
    assert margins.times_for(0.9) > 0
    with pytest.raises(AnatomicalEmbeddingError, match="cannot be guaranteed with only 30 boxes"):
        margins.times_for(0.99)
    for recall_ in (0.0, 1.0, 99.0):
        with pytest.raises(AnatomicalEmbeddingError, match="between 0 and 1"):
            margins.times_for(recall_)
    with pytest.raises(AnatomicalEmbeddingError, match="no box was given"):
        learn_margins([], False)
