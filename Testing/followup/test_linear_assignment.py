"""The cheapest pairs, against every way of pairing and against scipy."""

from itertools import permutations

import numpy as np
import pytest

from AnatomicalEmbedding.followup.linear_assignment import cheapest_pairs


def _total(cost: np.ndarray, pairs: list[tuple[int, int]]) -> float:
    return sum(cost[row, column] for row, column in pairs)


@pytest.mark.parametrize("shape", [(1, 1), (2, 2), (3, 5), (5, 3), (4, 4), (1, 6)])
def test_no_pairing_is_cheaper(shape: tuple[int, int]) -> None:
    rng = np.random.default_rng(0)
    for _ in range(40):
        cost = np.round(rng.normal(0, 3, shape), 1)  # with ties and negative costs
        pairs = cheapest_pairs(cost)
        assert len({row for row, _ in pairs}) == len({column for _, column in pairs}) == len(pairs) == min(shape)
        wide = cost if shape[0] <= shape[1] else cost.T
        cheapest = min(
            sum(wide[row, column] for row, column in enumerate(way))
            for way in permutations(range(wide.shape[1]), wide.shape[0])
        )
        assert _total(cost, pairs) == pytest.approx(cheapest)


@pytest.mark.parametrize("shape", [(30, 30), (25, 60), (60, 25)])
def test_large_tables_as_scipy_pairs_them(shape: tuple[int, int]) -> None:
    optimize = pytest.importorskip("scipy.optimize")
    cost = np.random.default_rng(1).uniform(0, 10, shape)
    assert _total(cost, cheapest_pairs(cost)) == pytest.approx(cost[optimize.linear_sum_assignment(cost)].sum())


@pytest.mark.parametrize("shape", [(0, 0), (0, 3), (3, 0)])
def test_nothing_to_pair(shape: tuple[int, int]) -> None:
    assert cheapest_pairs(np.empty(shape)) == []
