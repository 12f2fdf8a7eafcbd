"""Random follow-ups: actions of persons and of the software, in any order."""

from datetime import date, timedelta

from hypothesis import strategies as st

from AnatomicalEmbedding.errors import AnatomicalEmbeddingError
from AnatomicalEmbedding.followup.lesions import PROPOSED, Finding, Guess, Measurement, Study
from AnatomicalEmbedding.followup.record import FollowUp

KEYS = ("a", "b", "c")
IDS = ("L1", "L2", "L3")
STUDIES = tuple(
    Study(key, f"scan {key}", date(2024, 1, 5) + timedelta(60 * n)) for n, key in enumerate(KEYS)
)

_mm = st.floats(-500, 500, allow_nan=False)
points = st.tuples(_mm, _mm, _mm)
axes = st.none() | st.tuples(points, points)
_guesses = st.builds(
    Guess,
    st.sampled_from(["matched", "uncertain", "absent"]),
    st.sampled_from(KEYS),
    st.none() | st.floats(0, 200),
    st.none() | st.floats(0, 1),
)
_sizes = st.builds(Measurement, axes, axes, st.booleans())
proposals = st.dictionaries(
    st.sampled_from(IDS), st.builds(Finding, st.just(PROPOSED), points, _guesses, _sizes)
)

_ids, _keys = st.sampled_from(IDS), st.sampled_from(KEYS)
steps = st.one_of(
    st.tuples(st.just("mark"), _keys, points),
    st.tuples(st.just("mark"), _keys, points, _ids),
    st.tuples(st.just("propose"), _keys, proposals),
    *(
        st.tuples(st.just(name), _ids, _keys)
        for name in ("confirm", "not_visible", "outside", "forget", "accept_size")
    ),
    st.tuples(st.just("move"), _ids, _keys, points),
    st.tuples(st.just("merge"), _ids, _keys, _ids),
    st.tuples(st.just("measure"), _ids, _keys, axes, axes),
)


def taken(record: FollowUp, step: tuple) -> FollowUp:
    """The record after a step, or as it was where the step is refused."""
    name, *values = step
    try:
        return getattr(record, name)(*values)
    except AnatomicalEmbeddingError:
        return record


def cell_of(step: tuple) -> tuple[str | None, str]:
    """The lesion (None: a new one, or any) and the study that a step is about."""
    name, *values = step
    if name == "mark":
        return (values[2] if len(values) == 3 else None), values[0]
    if name == "propose":
        return None, values[0]
    return values[0], values[1]


@st.composite
def records(draw: st.DrawFn) -> FollowUp:
    """Follow-ups of up to three studies and some lesions, after some steps."""
    record = FollowUp().with_studies(STUDIES[: draw(st.integers(1, 3))])
    for step in draw(st.lists(steps, max_size=14)):
        record = taken(record, step)
    for lesion in record.lesions:
        name = draw(st.text(max_size=6))
        record = record.describe(
            lesion.id, name=name, nodal=draw(st.booleans()), target=draw(st.booleans())
        )
    return record
