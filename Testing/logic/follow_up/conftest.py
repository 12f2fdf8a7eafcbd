"""Fixtures of the tests of follow-up in the scene."""

import pytest
from follow_up_bench import FollowUpBench


@pytest.fixture
def bench(scene):
    """No studies yet; nothing can be embedded."""
    made = FollowUpBench(scene)
    yield made
    made.close()


@pytest.fixture
def pair(bench):
    """Keys of a patient's two studies, in order."""
    bench.study("20240101")
    bench.study("20230101")
    return bench.open()
