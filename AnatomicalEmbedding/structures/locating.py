"""Locates boxes of structures from a few examples (Goncharov 2024, section 2.3).

The paper matches the six extreme points of each example, takes the box around the answers, and averages the boxes of
all examples. But a single extreme point is often ambiguous. So we also match points inside the example's box. An affine
function is fitted robustly to all answers, and moves the six sides into the target. Each side of the result is the
median over the examples. If the network finds a similar organ, the box of this organ is also used (`organ_evidence`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product

import numpy as np

from ..embedding.map import EmbeddingMap
from ..embedding.spine_reading import spine_ends
from ..errors import PointsError
from ..matching.match import Matches, match_query
from ..matching.query import Query, join_queries, read_query
from ..matching.status import ABSENT, NEAR_ERRORS, decide_box
from ..scan.boxes import SIDES
from ..scan.geometry import bounds_of, transform_points
from ..scan.points import as_points
from ..spine.levels import level_sentence
from ..spine.structures import doubtful_levels, level_of
from .organ_evidence import NearOrgan, near_organs, sides_by_organ

# distance of the inner points from the box's middle, as a share of half the box's size
_INNER_SHARE = 0.7
_FEWEST_POINTS = 4  # least number of points with an answer that the fit needs
_ROUNDS = 5  # of the robust fit; by hand, not tuned
# damping of the fit: points that are closer together than this get almost the same shift
_SLOPE_MM = 14.0
_KNEE_MM = 3.0  # least error that halves the weight of a point; by hand, not tuned
# limits of the errors from which weights are computed; by hand, not tuned
_EXPECTED_MM = (2.0, 60.0)
_DISAGREES_MM = 15.0  # least distance of an example that disagrees; by hand, not tuned
# Which of the 18 numbers of six extreme points (6, 3), in the order of SIDES, give the places of the sides: R of the
# first point (left), A of the second, S of the third, R of the fourth (right) ...
_SIDE_COORDINATE = np.arange(6) * 3 + np.arange(6) % 3
# An example disagrees if its box is farther from the median of the other boxes than this multiple of the usual
# distance of these other boxes from their median.
_DISAGREES_TIMES = 3.0


@dataclass(frozen=True, eq=False)
class Example:
    """A structure that was marked in one scan. The scan itself is not stored.

    Args:
        scan: name of the scan.
        box_ras: (2, 3) RAS mm in the scan.
        points_ras: (p, 3) RAS mm, the points to match; the first six are the extreme points, in the order of SIDES.
        query: values of the scan's map at the points.
        organs: organs that the network found in the scan and that overlap with the structure.
    """

    scan: str
    box_ras: np.ndarray
    points_ras: np.ndarray
    query: Query
    organs: tuple[NearOrgan, ...]


@dataclass(frozen=True, eq=False)
class Located:
    """One structure that was located in one target.

    Args:
        box_ras: (2, 3) RAS mm, not clipped to the scan.
        sigma_mm: (6,) likely error of each side of the box, in the order of SIDES.
        present: 0 to 1, share of the structure's points inside the target; if 0, `box_ras` lies outside the scan.
        cut: names of the sides that lie beyond the scan's edge.
        remarks: sentences about an uncertain level, and about examples whose boxes are far from the other boxes.
        near_edge: names of sides inside the scan that are nearer to its edge than NEAR_ERRORS times their likely error.
        scan_ras: (2, 3) RAS mm, the box of the scan.
        levels: for a vertebra, disc or rib of uncertain level, the two possible levels ("L3 or L4"); else "".
    """

    name: str
    box_ras: np.ndarray
    sigma_mm: np.ndarray
    present: float
    cut: tuple[str, ...]
    remarks: tuple[str, ...] = ()
    near_edge: tuple[str, ...] = ()
    scan_ras: np.ndarray = field(default_factory=lambda: np.array([[-np.inf] * 3, [np.inf] * 3]))
    levels: str = ""

    def in_scan(self, box_ras: np.ndarray) -> np.ndarray:
        """Clip a box (2, 3) RAS mm to the scan. The result for a box outside the scan has volume 0."""
        return np.clip(box_ras, *self.scan_ras)

    @property
    def status(self) -> str:
        """ "whole", "cut", "absent" or "uncertain" (perhaps cut, small for its likely error, or of uncertain level)."""
        low, high = self.in_scan(self.box_ras)
        present = self.present if (high > low).all() else 0.0
        error_share = self.sigma_mm.max() / max((self.box_ras[1] - self.box_ras[0]).min(), 1e-6)
        return decide_box(
            present, bool(self.cut), bool(self.near_edge), error_share, bool(self.levels)
        )


def make_example(
    embedding: EmbeddingMap,
    box_ras: np.ndarray,
    extremes_ras: np.ndarray | None = None,
    effort: str = "standard",
) -> Example:
    """Make an example from a box (2, 3) RAS mm.

    Args:
        embedding: map of the scan with the structure.
        box_ras: (2, 3) RAS mm.
        extremes_ras: (6, 3) RAS mm, a point of the structure on each of the SIDES; default: the middle of each side.
        effort: effort of matching for which the example is made.

    Raises:
        PointsError: the box has no volume, or lies mostly outside the scan.
    """
    box_ras = np.asarray(box_ras, np.float64)
    name = embedding.provenance.scan or "the scan"
    if box_ras.shape != (2, 3) or not (box_ras[1] - box_ras[0] > 0).all():
        raise PointsError(
            f"{name}: the box has no volume; give its lowest and its highest corner in RAS mm."
        )
    middle = box_ras.mean(axis=0)
    half = (box_ras[1] - box_ras[0]) / 2
    if extremes_ras is None:
        extremes_ras = middle + np.concatenate([-np.eye(3), np.eye(3)]) * half
    signs = np.array(list(product((-1.0, 1.0), repeat=3)))
    inner = middle + _INNER_SHARE * signs * half
    points = np.concatenate([as_points(extremes_ras), middle[None], inner])
    inside = embedding.contains(points)
    if inside[6:].sum() < _FEWEST_POINTS:
        raise PointsError(
            f"{name}: most of the box lies outside this scan; use the scan in which the box was drawn."
        )
    points = move_inside(embedding, points)
    organs = near_organs(box_ras, embedding.organ_boxes)
    return Example(name, box_ras, points, read_query(embedding, points, effort), organs)


def move_inside(embedding: EmbeddingMap, points_ras: np.ndarray) -> np.ndarray:
    """Move points (n, 3) RAS mm that lie outside the scan to the scan's border."""
    ijk = transform_points(np.linalg.inv(embedding.scan_to_ras), points_ras)
    ijk = np.clip(ijk, -0.49, np.array(embedding.scan_shape[::-1]) - 0.51)
    return transform_points(embedding.scan_to_ras, ijk)


def locate(
    structures: Mapping[str, Sequence[Example]],
    target: EmbeddingMap,
    effort: str = "standard",
    compare_examples: bool = False,
) -> dict[str, Located]:
    """Locate structures in one target; all points are matched together.

    Args:
        structures: name of structure -> examples.
        target: map of the target.
        effort: effort of matching.
        compare_examples: add a remark about each example whose box is far from the boxes of the other examples.

    Raises PointsError for a structure without examples, MapError for a target that is no scan of a patient, and the
    errors of `matching.match.match_query`.
    """
    target.check_patient()
    for name, examples in structures.items():
        if not examples:
            raise PointsError(
                f"{name}: this structure has no example; mark the structure in at least one scan."
            )
    all_examples = [example for examples in structures.values() for example in examples]
    if not all_examples:
        return {}
    query = join_queries([example.query for example in all_examples])
    answers = match_query(query, [target], effort)[0]
    # for each example: places (p, 3), trust (p, 2), sides (6,)
    ends = np.cumsum([len(example.points_ras) for example in all_examples])[:-1]
    places = np.split(answers.points_ras, ends)
    trusts = np.split(_trust(answers), ends)
    guesses = list(map(_sides, all_examples, places, trusts))
    located = {}
    first = 0
    for name, examples in structures.items():
        rows = slice(first, first + len(examples))
        sides = np.array(guesses[rows])
        remarks = _disagreements(examples, sides) if compare_examples else ()
        located[name] = _combined(name, examples, sides, trusts[rows], target, remarks)
        first += len(examples)
    return located


def _trust(answers: Matches) -> np.ndarray:
    """Return (n, 2): the weight of each answer, 0 for an absent point, and the expected error of each answer, mm."""
    if answers.status is None:  # weights without calibration
        expected = np.full(len(answers.score), 10.0)
        return np.stack([np.ones(len(expected)), expected], axis=1)
    expected = np.clip(answers.expected_error_mm, *_EXPECTED_MM)
    weight = np.where(answers.status == ABSENT, 0.0, 1 / expected**2)
    return np.stack([weight, expected], axis=1)


def _sides(example: Example, places: np.ndarray, trust: np.ndarray) -> np.ndarray:
    """Return the lowest and the highest x, y, z (6,), RAS mm, of a structure's box in the target.

    places: (p, 3) RAS mm, answers in the target to the p points of `example`. trust: (p, 2), weight and expected error
    (mm) of each answer.
    """
    points = example.points_ras
    middle = points.mean(axis=0)
    weight, expected = trust.T
    if (weight > 0).sum() < _FEWEST_POINTS:  # then absent points count, too
        weight = 1 / expected**2
    weight = weight / weight.sum()
    moved = places - points  # (p, 3)
    # the shift of a point is an affine function of its place: [point - middle, 1] @ fit
    design = np.column_stack([points - middle, np.ones(len(points))])
    damping = np.diag([_SLOPE_MM**2] * 3 + [0.0])
    robust = weight
    for _ in range(_ROUNDS):
        normal = design.T @ (design * robust[:, None]) + damping * robust.sum()
        fit = np.linalg.solve(normal, design.T @ (moved * robust[:, None]))
        residual_mm = np.linalg.norm(moved - design @ fit, axis=1)
        knee_mm = max(np.median(residual_mm), _KNEE_MM)
        robust = weight / (1 + (residual_mm / knee_mm) ** 2)
    moved_extremes = points[:6] + design[:6] @ fit
    # (6,): how far the sides of the example's box lie beyond its extreme points
    beyond = example.box_ras.ravel() - points[:6].ravel()[_SIDE_COORDINATE]
    return moved_extremes.ravel()[_SIDE_COORDINATE] + beyond


def _combined(
    name: str,
    examples: Sequence[Example],
    sides: np.ndarray,
    trusts: list[np.ndarray],
    target: EmbeddingMap,
    remarks: tuple[str, ...],
) -> Located:
    """Combine the boxes of a structure from its examples, and the box by an organ, if there is one.

    Args:
        name: name of the structure.
        examples: the examples.
        sides: (n, 6), for each of n examples the result of `_sides`.
        trusts: for each example, weight and expected error (p, 2) of its answers.
        target: map of the target.
        remarks: about the examples.
    """
    middle = np.median(sides, axis=0)
    # medians over the examples: of the share of points with an answer, and of the expected error, mm
    present = float(np.median([(trust[:, 0] > 0).mean() for trust in trusts]))
    expected = np.median([np.median(trust[:, 1]) for trust in trusts])
    spread = np.zeros(6)
    if len(sides) > 2:
        # the median deviation of normal errors, times 1.48, is their standard deviation
        spread = 1.48 * np.median(np.abs(sides - middle), axis=0)
    # a third of the squared error of a point lies along each axis
    sigma = np.sqrt(expected**2 / 3 / np.sqrt(len(sides)) + spread**2)
    scan = bounds_of(target.scan_to_ras, target.scan_shape)
    low, high = scan
    organs = [example.organs for example in examples]
    by_organ = sides_by_organ(organs, target.organ_boxes, scan, target.cell_mm)
    if by_organ is not None:
        organ_sides, weight = by_organ
        middle = (middle / sigma**2 + organ_sides * weight) / (1 / sigma**2 + weight)
    box = np.sort(middle.reshape(2, 3), axis=0)
    inside_mm = np.concatenate([box[0] - low, high - box[1]])  # in the order of SIDES
    is_cut = inside_mm < 0
    is_near = ~is_cut & (inside_mm < NEAR_ERRORS * sigma)
    cut = tuple(np.array(SIDES)[is_cut].tolist())
    near_edge = tuple(np.array(SIDES)[is_near].tolist())
    if present * len(trusts[0]) < 2:  # a single point may be an error
        present = 0.0
    levels = _doubtful_levels(name, box.mean(axis=0), target)
    if levels:
        remarks = (level_sentence(levels), *remarks)
    return Located(name, box, sigma, present, cut, remarks, near_edge, scan, levels)


def _doubtful_levels(name: str, centre_ras: np.ndarray, target: EmbeddingMap) -> str:
    """Return the two possible levels, such as "L3 or L4", of a structure with this centre (3,); "" if it is certain."""
    if not target.provenance.metric or not level_of(name):
        return ""
    body_height = float(target.sample(move_inside(target, centre_ras[None]))[0, 2])
    return doubtful_levels(name, centre_ras[2], body_height, spine_ends(target))


def _disagreements(examples: Sequence[Example], sides: np.ndarray) -> tuple[str, ...]:
    """Return a sentence for each of n boxes that lies unusually far from the middle of the other boxes.

    sides: (n, 6) RAS mm, the boxes from the n examples.
    """
    if len(sides) < 3:
        return ()
    middles = sides.reshape(-1, 2, 3).mean(axis=1)
    remarks = []
    for n, example in enumerate(examples):
        other_middles = np.delete(middles, n, axis=0)
        centre = np.median(other_middles, axis=0)
        usual = np.median(np.linalg.norm(other_middles - centre, axis=1))
        off = np.linalg.norm(middles[n] - centre)
        if off > max(_DISAGREES_MM, _DISAGREES_TIMES * usual):
            remarks.append(
                f"the box from the example in {example.scan} is {off:.0f} mm from the other boxes"
            )
    return tuple(remarks)
