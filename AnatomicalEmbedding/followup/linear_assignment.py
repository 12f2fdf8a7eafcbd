"""The cheapest way to pair rows with columns (linear assignment), without scipy, which the engine does not require."""

from __future__ import annotations

import numpy as np


def cheapest_pairs(cost: np.ndarray) -> list[tuple[int, int]]:
    """Pairs (row, column) of an (n, m) table of finite costs that together cost least; min(n, m) of them, by row.

    Kuhn 1955 by shortest augmenting paths with prices (Jonker and Volgenant 1987), O(n^2 m).
    """
    cost = np.asarray(cost, dtype=np.float64)
    if not cost.size:
        return []
    if cost.shape[0] > cost.shape[1]:
        return sorted((row, column) for column, row in cheapest_pairs(cost.T))
    rows, columns = cost.shape
    row_price, column_price = np.zeros(rows), np.zeros(columns)
    row_of = np.full(columns, -1)
    for start in range(rows):
        reach = np.full(columns, np.inf)  # cost of the cheapest path to each column
        came_from = np.full(columns, -1)  # the column before it on that path, -1: the row that starts
        done = np.zeros(columns, bool)
        row, last, so_far = start, -1, 0.0
        while True:
            step = so_far + cost[row] - row_price[row] - column_price
            nearer = ~done & (step < reach)
            reach[nearer], came_from[nearer] = step[nearer], last
            last = int(np.where(done, np.inf, reach).argmin())
            so_far = reach[last]
            if row_of[last] < 0:
                break
            done[last] = True
            row = row_of[last]
        column_price[done] += reach[done] - so_far
        row_price[row_of[done]] += so_far - reach[done]
        row_price[start] += so_far
        while last >= 0:
            before = came_from[last]
            row_of[last] = start if before < 0 else row_of[before]
            last = before
    return sorted((int(row), column) for column, row in enumerate(row_of) if row >= 0)
