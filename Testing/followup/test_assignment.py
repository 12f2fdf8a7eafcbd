"""Which lesion is which, on lists whose answer is plain."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from AnatomicalEmbedding.followup.assignment import SAME, Listed, assign_lesions
from AnatomicalEmbedding.followup.lesions import MERGED, OUTSIDE
from AnatomicalEmbedding.followup.status import DISAPPEARED, NEW, SPLIT

SHIFT = np.array([40.0, -15.0, 200.0])  # the later scan lies elsewhere in the room


def _earlier(
    *lesions: tuple[float, float], error_mm: float = 3.0, absent: tuple[int, ...] = (), off: float = 0.0
) -> Listed:
    """Lesions along one line, (place, radius) in mm; matching is `off` mm off, along that line."""
    return _listed(lesions, np.zeros(3), SHIFT, error_mm, absent, off)


def _later(
    *lesions: tuple[float, float], error_mm: float = 3.0, absent: tuple[int, ...] = (), off: float = 0.0
) -> Listed:
    return _listed(lesions, SHIFT, -SHIFT, error_mm, absent, off)


def _listed(
    lesions, start: np.ndarray, step: np.ndarray, error_mm: float, absent: tuple[int, ...], off: float
) -> Listed:
    points = start + np.array([[place, 0.0, 0.0] for place, _ in lesions]).reshape(-1, 3)
    gone = np.isin(np.arange(len(lesions)), absent)
    carried = points + step + [off, 0, 0]
    return Listed(points, np.array([r for _, r in lesions]), carried, np.full(len(lesions), error_mm), gone)


def test_lesions_that_stay_in_whatever_order() -> None:
    found = assign_lesions(_earlier((0, 5), (60, 8), (100, 4)), _later((101, 5), (2, 6), (57, 12)))
    assert found.pairs == found.links == ((0, 1), (1, 2), (2, 0))
    assert found.earlier == found.later == (SAME,) * 3


def test_what_comes_and_goes_and_what_a_scan_does_not_show() -> None:
    found = assign_lesions(
        _earlier((0, 5), (60, 8), (300, 5), absent=(2,)), _later((0, 5), (120, 5), (-200, 6), absent=(2,))
    )
    assert found.links == ((0, 0),)
    assert found.earlier == (SAME, DISAPPEARED, OUTSIDE)
    assert found.later == (SAME, NEW, OUTSIDE)


def test_a_lesion_that_splits_in_two() -> None:
    found = assign_lesions(_earlier((0, 14), (80, 6)), _later((-9, 6), (9, 7), (80, 6)))
    assert set(found.links) == {(0, 0), (0, 1), (1, 2)}
    assert found.earlier == (SPLIT, SAME)
    assert found.later == (SPLIT, SPLIT, SAME)
    assert len(found.pairs) == 2


def test_lesions_that_become_one() -> None:
    found = assign_lesions(_earlier((-9, 6), (9, 7), (80, 6)), _later((0, 18), (80, 6)))
    assert set(found.links) == {(0, 0), (1, 0), (2, 1)}
    assert found.earlier == (MERGED, MERGED, SAME)
    assert found.later == (MERGED, SAME)


_lesions = st.lists(st.tuples(st.floats(-150, 150), st.floats(3, 20)), max_size=6, unique_by=lambda each: each[0])


@settings(max_examples=80, deadline=None)
@given(_lesions, _lesions, st.floats(-6, 6))
def test_turned_about_the_answer_is_the_same(first, second, off) -> None:
    def listed(lesions, start, step, bias):
        return _listed(lesions, start, step, 4.0, (), bias)

    forth = assign_lesions(listed(first, np.zeros(3), SHIFT, off), listed(second, SHIFT, -SHIFT, -off))
    back = assign_lesions(listed(second, SHIFT, -SHIFT, -off), listed(first, np.zeros(3), SHIFT, off))
    # of equally cheap answers either may be given: the price is the same
    assert len(forth.pairs) == len(back.pairs)
    assert len(forth.earlier) == len(back.later) == len(first)
    for words, size, alone in ((forth.earlier, len(first), DISAPPEARED), (forth.later, len(second), NEW)):
        assert len(words) == size
        assert set(words) <= {SAME, SPLIT, MERGED, alone}
    for i, j in forth.pairs:
        assert (i, j) in forth.links
