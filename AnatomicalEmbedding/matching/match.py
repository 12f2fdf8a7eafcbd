"""Finds the anatomical points of one scan in other scans, with the expected error of each answer.

Body coordinates give a first answer (module `coordinates`). If the maps have descriptors, the descriptors of the tissue
around the point improve the first answer (`blocks`). The effort "fast" uses the descriptor of the point alone
(`descriptors`). Then the images are compared (`image_step`). `confidence` estimates the error of each answer.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from ..embedding.calibration import Calibration
from ..embedding.map import EmbeddingMap
from ..embedding.spine_reading import spine_ends
from ..errors import AnatomicalEmbeddingError, MapError
from ..scan.geometry import LPS_FROM_RAS, transform_points
from ..scan.points import as_points
from ..spine.average import near_spine
from ..spine.comparison import PointLevels, read_candidates, read_levels
from . import EFFORTS, descriptors
from .blocks import match_blocks
from .confidence import PLACE, evidence_table, judge
from .coordinates import find_coordinates, into_body
from .image_step import read_windows, sharpen
from .query import Query, read_query
from .slack import read_window, slack
from .status import ABSENT, at_most_uncertain
from .target_batch import TargetRows

_SCORE_MM = 10.0  # a first answer whose coordinate is this far off has the score 1 / e; by hand
# at the spine, 70 % of the matches within a patient reach this similarity, and 3 % between patients
SAME_TISSUE = 0.845
_BATCH_POINTS = 2000  # points x targets in memory at a time; each needs 13 kB


COLUMNS = ("r", "a", "s", "status", "expected_error_mm", "probability", "score", "levels")


@dataclass(frozen=True, eq=False, repr=False)
class Matches:
    """Answers for N points in one target scan.

    Args:
        points_ras: (N, 3) RAS mm in the target.
        score: (N,) 0 to 1, similarity of the answer and the template's point. It compares the descriptors, or
            the coordinates if the effort is "coordinates".
        status: (N,) "matched", "uncertain" or "absent" (not in this scan), see `matching.status`.
        expected_error_mm: (N,) mean error of answers with similar evidence whose point is in the scan.
        probability, probability_20: (N,) probability that the point is in the scan and the answer is within 10 mm, or
            20 mm, of the true place.
        present: (N,) probability that the scan shows the point.
        evidence: (N, len(confidence.EVIDENCE)) numbers from which status, error and probabilities are derived.
        levels: (N,) the two possible levels, "L3 or L4", of an answer at the spine that may be one vertebra off, else
            "". The status of an answer with two possible levels is never "matched".

    Without a calibration, status, error and probabilities are None. If N is 0, evidence and levels are None, too.
    """

    points_ras: np.ndarray
    score: np.ndarray
    status: np.ndarray | None = None
    expected_error_mm: np.ndarray | None = None
    probability: np.ndarray | None = None
    probability_20: np.ndarray | None = None
    present: np.ndarray | None = None
    evidence: np.ndarray | None = None
    levels: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.points_ras)

    def __getitem__(self, index: Any) -> Any:
        """Return a row of `table` if `index` is a number; return Matches for a slice, a mask or a list of numbers."""
        if isinstance(index, int | np.integer):
            return self[[range(len(self))[index]]].table()[0]
        return Matches(
            **{
                name: None if column is None else np.asarray(column)[index]
                for name, column in vars(self).items()
            }
        )

    def __repr__(self) -> str:
        statuses = np.empty(0) if self.status is None else self.status
        names_and_counts = zip(*np.unique(statuses, return_counts=True), strict=True)
        counts = "".join(f", {count} {name}" for name, count in names_and_counts)
        return f"Matches({len(self)} points{counts})"

    @property
    def points_lps(self) -> np.ndarray:
        """The answers in LPS mm, (N, 3)."""
        return transform_points(LPS_FROM_RAS, self.points_ras)

    def table(self) -> list[dict[str, Any]]:
        """Return one dict for each point, with the keys COLUMNS. An unknown value is None.

        The expected error of an absent point is also None.
        """
        columns = dict(zip("ras", self.points_ras.T, strict=True)) | vars(self)
        rows: list[dict[str, Any]] = [{} for _ in range(len(self))]
        for name in COLUMNS:
            column = columns[name]
            values = [None] * len(self) if column is None else column.tolist()
            for row, value in zip(rows, values, strict=True):
                row[name] = value
        for row in rows:
            if row["status"] == ABSENT:
                row["expected_error_mm"] = None
        return rows


def match(
    template: EmbeddingMap, points_ras: np.ndarray, target: EmbeddingMap, effort: str = "standard"
) -> Matches:
    """Find points of one scan in another scan.

    Args:
        template, points_ras, effort: see `match_all`.
        target: map of the other scan.
    """
    return match_all(template, points_ras, [target], effort)[0]


def match_all(
    template: EmbeddingMap,
    points_ras: np.ndarray,
    targets: Sequence[EmbeddingMap],
    effort: str = "standard",
) -> list[Matches]:
    """Find points of one scan in several targets. One call is much faster than one call for each target.

    Every answer lies in its target scan and in a body cell, even if the target does not show the point.

    Args:
        points_ras: (N, 3) RAS mm in the template; continuous, not rounded to voxels.
        effort: "standard" is the default. "fast" compares the descriptor of each point only, without the tissue around
            the point. It is five times faster and less exact, for crosshairs that follow the mouse and for tens of
            thousands of points. "coordinates" compares no descriptors. Weights without descriptors always use
            "coordinates".

    Raises:
        PointsError: a point lies outside the template.
        MapError: the maps were made with different weights, or a target has no body cells.
        AnatomicalEmbeddingError: the effort is unknown.
    """
    _check(effort, targets, template.provenance.weights_hash)
    points_ras = as_points(points_ras)
    # memory limits points x targets of a batch
    points_at_once = max(1, min(len(points_ras), _BATCH_POINTS))
    targets_at_once = max(1, _BATCH_POINTS // points_at_once)
    batches = np.split(points_ras, range(points_at_once, len(points_ras), points_at_once))
    matches = []
    for first in range(0, len(targets), targets_at_once):
        group = targets[first : first + targets_at_once]
        parts = [_match(template, batch, group, effort) for batch in batches]
        matches += [join_matches(target_parts) for target_parts in zip(*parts, strict=True)]
    return matches


def _match(
    template: EmbeddingMap, points_ras: np.ndarray, targets: Sequence[EmbeddingMap], effort: str
) -> list[Matches]:
    """Match one batch of points. Returns the Matches of each target."""
    if not len(points_ras):
        return [Matches(np.empty((0, 3)), np.empty(0)) for _ in targets]
    if template.local is None or any(target.local is None for target in targets):
        effort = "coordinates"
    query = read_query(template, points_ras, effort)
    windows = None
    has_images = not template.is_film and all(
        embedding.image is not None for embedding in (template, *targets)
    )
    if has_images and effort == "standard":
        windows = read_windows(template, template.cells_at(points_ras))
    return _answers(query, targets, effort, template.calibration, windows)


def match_query(
    query: Query, targets: Sequence[EmbeddingMap], effort: str = "standard"
) -> list[Matches]:
    """Find the points of a query as `match_all` does, but without the template and without `image_step`.

    Args:
        effort: see `match_all`. If the query lacks values that the effort needs, a lower effort is used.

    Raises:
        MapError: a target was embedded with other weights, or has no body cells.
        AnatomicalEmbeddingError: the effort is unknown.
    """
    _check(effort, targets, query.weights_hash)
    if not targets or not len(query.coordinates):
        return [Matches(np.empty((0, 3)), np.empty(0)) for _ in targets]
    if any(target.local is None for target in targets):
        effort = "coordinates"
    if effort == "standard" and query.blocks is None:
        effort = "fast"
    if effort == "fast" and query.descriptors is None:
        effort = "coordinates"
    return _answers(query, targets, effort, targets[0].calibration)


def _answers(
    query: Query,
    targets: Sequence[EmbeddingMap],
    effort: str,
    calibration: Calibration | None,
    windows: torch.Tensor | None = None,
) -> list[Matches]:
    """Return the Matches of each target.

    Args:
        query: values of the template at its n points, at least one.
        calibration: of the weights; None leaves out status, errors and probabilities.
        windows: (n, m), from `read_windows`; None if no images are compared.
    """
    count = len(query.coordinates)
    rows = TargetRows.each(targets, count)
    # the evidence is that of the answers before the images are compared
    cells, similarity, evidence = _find(query, rows, effort)
    if windows is not None:
        cells = rows.apply(into_body, sharpen(windows.repeat(len(targets), 1), rows, cells))
    points_ras = np.concatenate(
        [
            transform_points(target.cell_to_ras, part.numpy())
            for target, part in zip(targets, cells.split(count), strict=True)
        ]
    )
    score = similarity.clamp(0, 1).double().numpy()
    levels = _levels(query, points_ras, score, evidence[:, PLACE], targets, effort)
    judged = judge(evidence, calibration, effort, targets[0].unit_mm)
    if judged:
        judged["status"] = at_most_uncertain(judged["status"], levels != "")
    matches = Matches(points_ras, score, evidence=evidence, levels=levels, **judged)
    return [matches[n : n + count] for n in range(0, len(matches), count)]


def _find(
    query: Query, rows: TargetRows, effort: str
) -> tuple[torch.Tensor, torch.Tensor, np.ndarray]:
    """Find the n answers, one for each point in each target; the rows are those of one target after the other.

    Returns the places (n, 3), in cells of the target and in its body; the scores (n,); and the table of evidence, from
    which the errors of the answers are estimated.
    """
    times = len(rows.maps)
    first = find_coordinates(query.coordinates.repeat(times, 1), rows)
    similarity = spread_mm = torch.zeros(len(first.cells))
    if effort == "coordinates":
        if query.windows is not None:
            others = rows.apply(read_window, first.cells)
            spread_mm = slack(query.windows.repeat(times, 1), others)
        metric = rows.maps[0].provenance.metric
        scale = _SCORE_MM if metric else 0.1 * float(rows.maps[0].body_cells[1].std())
        cells = first.cells
        score = torch.exp(-first.residual / scale)
    elif effort == "fast":
        points = query.descriptors.repeat(times, 1)
        cells, similarity = descriptors.refine(points, rows, first.cells)
        cells = rows.apply(into_body, cells)
        score = similarity
    else:
        answers = match_blocks(query.blocks.repeat(times), rows, first.cells)
        cells = rows.apply(into_body, answers.cells)
        score = similarity = answers.similarity
        spread_mm = answers.spread_mm
    return cells, score, evidence_table(cells, rows, first, query, similarity, spread_mm)


def _levels(
    query: Query,
    points_ras: np.ndarray,
    score: np.ndarray,
    coordinates: np.ndarray,
    targets: Sequence[EmbeddingMap],
    effort: str,
) -> np.ndarray:
    """Return (n,) texts: the two possible levels of an answer near the spine if its level is uncertain, else "".

    The tissue of both places tells the level if it is very similar, as in two scans of one patient. Otherwise the
    levels must agree as `PointLevels.agree` says.

    Args:
        points_ras: (n, 3) the answers, RAS mm, of one target after the other.
        score: (n,) their similarities.
        coordinates: (n, 3) their body coordinates.
    """
    no_levels = np.full(len(score), "", "<U10")
    if not targets[0].provenance.metric:
        return no_levels
    is_doubtful = near_spine(coordinates)
    if effort == "standard":
        is_doubtful &= score < SAME_TISSUE
    if not is_doubtful.any():
        return no_levels
    points_of_target = np.split(points_ras, len(targets))
    if query.levels is not None:
        levels = [
            read_levels(target.spine, spine_ends(target), points)
            for target, points in zip(targets, points_of_target, strict=True)
        ]
        template_levels = PointLevels.join([query.levels] * len(targets))
        is_doubtful &= ~template_levels.agree(PointLevels.join(levels))
        if not is_doubtful.any():
            return no_levels
    candidates = []
    coordinates_of_target = np.split(coordinates, len(targets))
    for target, points, body in zip(targets, points_of_target, coordinates_of_target, strict=True):
        candidates.append(read_candidates(target.spine, points, body))
    return np.where(is_doubtful, np.concatenate(candidates), no_levels)


def _check(effort: str, targets: Sequence[EmbeddingMap], weights_hash: str) -> None:
    """Raise the errors of `match_all`, except PointsError. weights_hash: of the template's map."""
    if effort not in EFFORTS:
        raise AnatomicalEmbeddingError(
            f"effort {effort!r} is unknown; choose one of {', '.join(EFFORTS)}."
        )
    for target in targets:
        provenance = target.provenance
        if provenance.weights_hash != weights_hash:
            raise MapError(
                f"{provenance.scan or 'target'}: the map of this scan was made with other weights "
                f"({provenance.model}) than the template's map; embed both scans with the same weights."
            )
        target.check_body()


def join_matches(parts: Sequence[Matches]) -> Matches:
    """Join matches in one target. A column that is None must be None in all parts."""
    columns = {name: [vars(part)[name] for part in parts] for name in vars(parts[0])}
    return Matches(
        **{
            name: None if values[0] is None else np.concatenate(values)
            for name, values in columns.items()
        }
    )
