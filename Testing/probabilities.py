"""What must hold for the probabilities of any matches."""

from AnatomicalEmbedding.matching.match import Matches
from AnatomicalEmbedding.matching.status import ABSENT


def check_probabilities(matches: Matches) -> None:
    """A point that is found within 10 mm is found within 20 mm, and is shown; an absent point is probably not shown."""
    assert (matches.probability >= 0).all()
    assert (matches.probability <= matches.probability_20).all()
    assert (matches.probability_20 <= matches.present).all()
    assert (matches.present[matches.status == ABSENT] < 0.5).all()
