"""A patient with three studies and nothing in them."""

import pytest
from record_steps import STUDIES

from AnatomicalEmbedding.followup.record import FollowUp


@pytest.fixture
def empty() -> FollowUp:
    return FollowUp().with_studies(STUDIES)
