"""Compute where a place is: by the recipe of the place ("between NAME NAME"), or by a qualifier ("upper part of").

A recipe is one of the words below, with arguments. Numbers are in mm, but the numbers of `part` are fractions, 0 to 1.
A blob is a Gaussian with the standard deviation SD.

    at X Y Z SD                 a blob in the body frame (X to the right; for a left or right place, from the midline
                                outwards)
    fit X Y Z SD MM             like `at`, but measured on outlined scans; an answer is right if its error is at most MM
    box X0 X1 Y0 Y1 Z0 Z1       a box in the body frame
    part NAME X0 X1 Y0 Y1 Z0 Z1 the part of place NAME between fractions of its extent along R, A, S; for a place with a
                                side, X runs from the midline outwards
    end NAME DIRECTION SD       a blob at the end of place NAME in a direction
    shift NAME X Y Z SD         a blob at the offset X Y Z (X as in `at`) from the middle of place NAME
    shell NAME MM               the layer around the surface of place NAME
    between NAME NAME           the space between two places
    union NAME ...              all the places together
"""

from collections.abc import Callable
from math import erf, exp, pi, sqrt

import numpy as np

from ..resources import read_rows
from .grid_weights import NOWHERE, Field, Grid, joined
from .qualifiers import Qualifier

_SOFT_SHARE = 0.06  # fraction of the extent over which a part fades at its ends
# the extent of a field ends where these fractions of its total are reached along an axis
_EXTENT = (0.02, 0.98)
_END_SHARE = 0.06  # of a field's total that its end holds; by hand
_BETWEEN_MM = 7.0  # width of the soft limits of `between`; by hand
# of the layer around a place: its middle and its standard deviation
_AROUND_MM, _AROUND_SOFT_MM = 8.0, 7.0
# width of the soft limits of a relation, along its direction and across it
_BEYOND_MM, _ACROSS_MM = 3.0, 8.0
# direction -> axis (R, A, S), and 1 along or -1 against the axis
ALONG = {
    "left": (0, -1),
    "right": (0, 1),
    "posterior": (1, -1),
    "anterior": (1, 1),
    "inferior": (2, -1),
    "superior": (2, 1),
}
# of qualifiers: axis, and the range along it as fractions of the extent; by hand: thirds that overlap a little
_ZONES = {
    name: ("RAS".index(axis), float(low), float(high))
    for name, _words, axis, low, high in read_rows("Words/zones.csv")
}
_RELATIONS = {"above": "superior", "below": "inferior", "before": "anterior", "behind": "posterior"}

# A person set the points of `at` recipes. This is their error along each axis, measured with 95 points at 10 places
# that were derived from outlines; see RESULTS.
_BY_HAND_MM = 13.0
_RIGHT_MM = 10.0  # an answer for a point is right within this distance

Finder = Callable[[str], Field]


def field_by_recipe(recipe: str, grid: Grid, field_of: Finder, side: str) -> Field:
    """Return the field of a rule: for each cell of the grid, its chance to belong to the place, 0 to 1.

    Args:
        recipe: the rule.
        grid: the grid.
        field_of: returns the field of another place, by name.
        side: "left" or "right" if the place has a side, else "".
    """
    kind, names, values = _parsed(recipe)
    outward = -1.0 if side == "left" else 1.0
    if kind in ("at", "fit"):
        return _body_blob(grid, np.array([values[0] * outward, *values[1:3]]), values[3])
    if kind == "box":
        return _body_box(grid, np.array(values).reshape(3, 2))
    if kind == "union":
        return joined([field_of(name) for name in names])
    first_field = field_of(names[0])
    if kind == "part":
        return part_of(grid, first_field, np.array(values).reshape(3, 2), side)
    if kind == "shell":
        thickness_mm = values[0]
        return _layer(grid, first_field, thickness_mm + 6, thickness_mm / 2, thickness_mm / 2)
    if kind == "between":
        return _between(grid, first_field, field_of(names[1]))
    if kind == "shift":
        return blob(
            grid, grid.mean(first_field) + np.array([values[0] * outward, *values[1:3]]), values[3]
        )
    return blob(grid, _end_of(grid, first_field, *ALONG[names[1]]), values[0])  # "end"


def surety(recipe: str) -> float | None:
    """Return the chance that the point of an `at`, `fit` or `shift` recipe is correct; None for other recipes.

    The point is correct if its error is at most `right_mm`. The errors are normal, with the standard deviation `sd`
    along each axis, so their length in units of `sd` has the chi distribution with three degrees of freedom.
    """
    kind, _, values = _parsed(recipe)
    if kind not in ("at", "fit", "shift"):
        return None
    sd = values[3]
    right_mm = _RIGHT_MM
    if kind == "at":
        right_mm = max(_RIGHT_MM, sd)
        sd = _BY_HAND_MM
    elif kind == "fit":
        right_mm = values[4]
    x = right_mm / sd
    return erf(x / sqrt(2)) - sqrt(2 / pi) * x * exp(-(x**2) / 2)


def qualify(grid: Grid, field: Field, qualifier: Qualifier, side: str) -> Field:
    """Return, as a field, a part of a place ("upper part of"), or the space next to the place ("above").

    Args:
        grid, field: the place.
        qualifier: the part or the relation.
        side: "left" or "right" if the place has a side, else "".
    """
    if qualifier.kind == "zone":
        shares = np.tile([0.0, 1.0], (3, 1))
        for word in qualifier.detail.split():
            axis, low, high = _ZONES[word]
            shares[axis] = low, high
        return part_of(grid, field, shares, side)
    surroundings = _layer(grid, field, 3 * _AROUND_MM, _AROUND_MM, _AROUND_SOFT_MM)
    if qualifier.kind == "around":
        return surroundings
    direction = _RELATIONS.get(qualifier.kind, qualifier.kind)
    if direction in ("lateral", "medial"):
        is_left = side == "left" if side else grid.mean(field)[0] < 0
        outward, inward = ("left", "right") if is_left else ("right", "left")
        direction = outward if direction == "lateral" else inward
    return _side_of(grid, surroundings, grid.span(field, 0.1, 0.9), direction)


def _side_of(grid: Grid, surroundings: Field, span: np.ndarray, direction: str) -> Field:
    """Return the part of a place's surroundings that lies beyond the place in one direction, and not beside it.

    Args:
        grid: the grid.
        surroundings: the tissue around the place.
        span: (2, 3) mm, the lowest and the highest R, A, S of the place.
        direction: one of `ALONG`.
    """
    axis, sign = ALONG[direction]
    low, high = span
    border = high[axis] if sign > 0 else low[axis]
    beyond_mm = sign * (grid.position(surroundings, axis) - border)
    values = surroundings.values / (1 + np.exp(-beyond_mm / _BEYOND_MM))
    for across_axis in {0, 1, 2} - {axis}:
        position = grid.position(surroundings, across_axis)
        beside_mm = np.maximum(low[across_axis] - position, position - high[across_axis])
        values = values * np.exp(-((np.maximum(beside_mm, 0) / _ACROSS_MM) ** 2) / 2)
    return surroundings.with_values(values)


def part_of(grid: Grid, field: Field, shares: np.ndarray, side: str) -> Field:
    """Return a part of a field.

    Args:
        grid, field: the place.
        shares: (3, 2), begin and end of the part along R, A, S, as fractions of the field.
        side: if "left" or "right", the fractions along R run from the midline outwards.
    """
    low, high = grid.span(field, *_EXTENT)
    values = field.values
    for axis in range(3):
        a, b = shares[axis]
        if axis == 0 and side == "left":
            a, b = 1 - b, 1 - a
        position = (grid.position(field, axis) - low[axis]) / max(high[axis] - low[axis], 1.0)
        # logistic steps, so that the part fades at its ends
        if a > 0:
            values = values / (1 + np.exp(-(position - a) / (_SOFT_SHARE / 2)))
        if b < 1:
            values = values / (1 + np.exp((position - b) / (_SOFT_SHARE / 2)))
    return field.with_values(values)


def _between(grid: Grid, first: Field, second: Field) -> Field:
    """Return the space between two places: highest halfway on the shortest way from one place to the other. Returns
    NOWHERE if a place is missing."""
    if first.total < 0.5 or second.total < 0.5:
        return NOWHERE
    box = grid.grown(joined([first, second]), 4.0)
    distances = []
    for field in (first, second):
        # distances inside of a place are negative
        distances.append(np.maximum(grid.distance(box.with_values(field.over(box))), 0))
    first_mm, second_mm = distances
    way_mm = first_mm + second_mm
    halfway = np.exp(-(((first_mm - second_mm) / _BETWEEN_MM) ** 2) / 2)
    on_shortest_way = np.exp(-((way_mm - float(way_mm.min())) / _BETWEEN_MM))
    return grid.in_tissue(box, halfway * on_shortest_way).trimmed()


def _layer(grid: Grid, field: Field, reach_mm: float, middle_mm: float, sd_mm: float) -> Field:
    """Return a layer of tissue around a place: a Gaussian of the distance from the border of the place.

    Args:
        grid, field: the place.
        reach_mm: the result reaches so far beyond the box of the place.
        middle_mm: distance from the border at which the layer is highest.
        sd_mm: standard deviation of the Gaussian.
    """
    wide = grid.grown(field, reach_mm)
    distance_mm = grid.distance(wide)
    return grid.in_tissue(wide, np.exp(-(((distance_mm - middle_mm) / sd_mm) ** 2) / 2))


def _body_blob(grid: Grid, centre: np.ndarray, sd: float) -> Field:
    """Return a Gaussian around a point (3,) of the body frame, on the grid of a scan or of the body frame."""
    if grid.body is None:
        return blob(grid, centre, sd)
    square = sum(np.square(grid.body[axis] - np.float32(centre[axis])) for axis in range(3))
    return grid.in_tissue(grid.zeros(), np.exp(-square / np.float32(2 * sd**2))).trimmed()


def _body_box(grid: Grid, limits: np.ndarray) -> Field:
    """Return a box of the body frame that fades at its sides. limits: (3, 2) mm, its begin and end along R, A, S."""
    whole = grid.zeros()
    values = grid.tissue.astype(np.float32)
    for axis in range(3):
        position = grid.position(whole, axis) if grid.body is None else grid.body[axis]
        low, high = limits[axis]
        middle = (low + high) / 2
        half = (high - low) / 2
        values = values / (1 + np.exp(np.clip((np.abs(position - middle) - half) / 4.0, -30, 30)))
    return whole.with_values(np.where(values < 0.02, 0, values)).trimmed()


def blob(grid: Grid, centre: np.ndarray, sd: float) -> Field:
    """Return a Gaussian field around a point.

    Args:
        grid: the grid of the field.
        centre: (3,), mm.
        sd: standard deviation, mm.
    """
    box = grid.around(centre - 3 * sd, centre + 3 * sd)
    square = sum(np.square(grid.position(box, axis) - centre[axis]) for axis in range(3))
    return grid.in_tissue(box, np.exp(-square / (2 * sd**2)))


def _end_of(grid: Grid, field: Field, axis: int, sign: int) -> np.ndarray:
    """Return the mean position (3,), mm, of the outermost cells of `field` in the direction of `axis` (0, 1 or 2) if
    `sign` is 1, or against this direction if `sign` is -1."""
    low, high = grid.span(field, _END_SHARE, 1 - _END_SHARE)
    position = grid.position(field, axis)
    outer = field.values * (position >= high[axis] if sign > 0 else position <= low[axis])
    return grid.mean(field.with_values(outer) if outer.sum() > 0 else field)


def _parsed(recipe: str) -> tuple[str, list[str], list[float]]:
    """Return the first word of a recipe, its other words that are no numbers, and its numbers."""
    kind, *words = recipe.split()
    names = []
    values = []
    for word in words:
        if word.lstrip("-").replace(".", "", 1).isdigit():
            values.append(float(word))
        else:
            names.append(word)
    return kind, names, values
