"""Test which lesions of two studies are the same, on lists with an obvious answer."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from AnatomicalEmbedding.followup.assignment import Listed, assign_lesions
from AnatomicalEmbedding.followup.lesions import OUTSIDE
from AnatomicalEmbedding.followup.status import DISAPPEARED, NEW

SHIFT = np.array([40.0, -15.0, 200.0])  # the later scan lies elsewhere in the room


def _earlier(
    *lesions: tuple[float, float],
    error_mm: float = 3.0,
    absent: tuple[int, ...] = (),
    off: float = 0.0,
) -> Listed:
    """Lesions along one line, (place, radius) in mm; matching is `off` mm off, along that line."""
    return _listed("e", lesions, np.zeros(3), SHIFT, error_mm, absent, off)


def _later(
    *lesions: tuple[float, float],
    error_mm: float = 3.0,
    absent: tuple[int, ...] = (),
    off: float = 0.0,
) -> Listed:
    return _listed("l", lesions, SHIFT, -SHIFT, error_mm, absent, off)


def _listed(
    letter: str,
    lesions,
    start: np.ndarray,
    step: np.ndarray,
    error_mm: float,
    absent: tuple[int, ...],
    off: float,
) -> Listed:
    points = start + np.array([[place, 0.0, 0.0] for place, _ in lesions]).reshape(-1, 3)
    gone = np.isin(np.arange(len(lesions)), absent)
    carried = points + step + [off, 0, 0]
    names = [f"{letter}{n}" for n in range(len(lesions))]
    radii = np.array([r for _, r in lesions])
    return Listed(names, points, radii, carried, np.full(len(lesions), error_mm), gone)


def test_lesions_that_stay_in_whatever_order() -> None:
    found = assign_lesions(_earlier((0, 5), (60, 8), (100, 4)), _later((101, 5), (2, 6), (57, 12)))
    assert found.same == (("e0", "l1"), ("e1", "l2"), ("e2", "l0"))
    assert found.earlier == found.later == {}


def test_what_comes_and_goes_and_what_a_scan_does_not_show() -> None:
    found = assign_lesions(
        _earlier((0, 5), (60, 8), (300, 5), absent=(2,)),
        _later((0, 5), (120, 5), (-200, 6), absent=(2,)),
    )
    assert found.same == (("e0", "l0"),)
    assert (found.earlier, found.later) == (
        {"e1": DISAPPEARED, "e2": OUTSIDE},
        {"l1": NEW, "l2": OUTSIDE},
    )


def test_a_part_of_a_lesion_is_new_and_no_verdict_on_a_split() -> None:
    found = assign_lesions(_earlier((0, 14), (80, 6)), _later((-9, 6), (9, 7), (80, 6)))
    ((whole, part), rest) = found.same
    assert (whole, rest, found.earlier) == ("e0", ("e1", "l2"), {})
    assert found.later == dict.fromkeys({"l0", "l1"} - {part}, NEW)


_lesions = st.lists(
    st.tuples(st.floats(-150, 150), st.floats(3, 20)), max_size=6, unique_by=lambda each: each[0]
)


@settings(max_examples=80, deadline=None)
@given(_lesions, _lesions, st.floats(-6, 6))
def test_turned_about_the_answer_is_the_same(first, second, off) -> None:
    one = _listed("e", first, np.zeros(3), SHIFT, 4.0, (), off)
    other = _listed("l", second, SHIFT, -SHIFT, 4.0, (), -off)
    forth = assign_lesions(one, other)
    back = assign_lesions(other, one)
    # of equally cheap answers either may be given: the price is the same
    assert len(forth.same) == len(back.same)
    related = {each for pair in forth.same for each in pair}
    assert related | forth.earlier.keys() | forth.later.keys() == {*one.ids, *other.ids}
    assert related.isdisjoint(forth.earlier.keys() | forth.later.keys())
