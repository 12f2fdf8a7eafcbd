"""Learn a calibration: for each effort of matching, a random forest predicts the error of a match from its evidence.

The forests are fitted to matches whose true error is known.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np

from ..embedding.calibration import OUTCOMES, Calibration, Forest
from ..embedding.inference import Model
from ..embedding.map import EmbeddingMap
from ..errors import AnatomicalEmbeddingError, PointsError, ProgressCallback, VolumeError, require
from ..files import require_folder
from ..matching import EFFORTS
from ..matching.confidence import EVIDENCE
from ..matching.match import Matches, match
from ..scan.sources import find_scans
from ..scan.volume import Volume
from ..structures.labelled_scans import load_case, refuse_twins
from .known_matches import CLICKED, Trial, bent_trials, labelled_trials, phantom_trials

LABELLED = "pairs of labelled scans"
BENT = "bent scans"
PHANTOMS = "synthetic patients"
REGISTERED = "pairs of scans, registered directly"  # for scans of any kind, which have no labels
# Total weight of all matches of each source. Synthetic patients have a low weight, because matching is easier in them.
WEIGHTS = {LABELLED: 1.0, REGISTERED: 1.0, BENT: 1.0, PHANTOMS: 0.1}

# seed of the first synthetic patient for calibrations; training uses other seeds
PHANTOM_SEED = 70_000
_TREES = 48  # 300 trees were not better (LOG, Confidence)
_LEAF = 100  # least number of matches in a leaf; with smaller leaves, a forest fits new kinds of scans less well
_LEAVES = 20  # if there are few matches, leaves are smaller, so that a tree can still have this number of leaves
_FEATURE_SHARE = 0.5  # of the evidence that is tried at a split; by hand
_FARTHEST_MM = 100.0  # larger errors are set to this value
_ERROR_SCALE = 1000.0  # the error is divided by this number, so that the error hardly influences where the trees split
_FEWEST = 200  # matches; by hand, not tuned


@dataclass(frozen=True, eq=False)
class Outcomes:
    """Results of n matches. evidence: (n, values). errors_mm: (n,), in the unit of the maps; infinite if the target
    lacks the point."""

    evidence: np.ndarray
    errors_mm: np.ndarray

    @classmethod
    def joined(cls, parts: Iterable[Self]) -> Self:
        """Join the matches of several Outcomes into one Outcomes."""
        parts = list(parts) or [cls(np.empty((0, len(EVIDENCE)), np.float32), np.empty(0))]
        return cls(
            np.concatenate([p.evidence for p in parts]),
            np.concatenate([p.errors_mm for p in parts]),
        )


# finds points, as `matching.match.match`
Find = Callable[[EmbeddingMap, np.ndarray, EmbeddingMap, str], Matches]


def try_matching(trial: Trial, effort: str, find: Find = match) -> Outcomes:
    """Match points whose true places are known. Returns the evidence and the errors of the matches.

    Args:
        trial: the points.
        effort: effort of matching.
        find: finds the points.
    """
    if not len(trial.template_ras):
        return Outcomes.joined([])
    matches = find(trial.template, trial.template_ras, trial.target, effort)
    if matches.evidence is None:
        raise AnatomicalEmbeddingError(
            f"{trial.template.provenance.model}: these weights give no body coordinates; choose other weights."
        )
    return Outcomes(matches.evidence, trial.errors_mm(matches) / trial.template.unit_mm)


def grow_forest(sources: Mapping[str, Outcomes], weights: Mapping[str, float]) -> Forest:
    """Fit a forest to the matches of all sources.

    Args:
        sources: name of the source -> its matches.
        weights: name of the source -> total weight of all its matches.

    Raises AnatomicalEmbeddingError if there are too few matches, or if scikit-learn is not installed.
    """
    used = {name: matches for name, matches in sources.items() if len(matches.errors_mm)}
    every = Outcomes.joined(used.values())
    if len(every.errors_mm) < _FEWEST:
        raise AnatomicalEmbeddingError(
            f"calibration needs at least {_FEWEST} matches with known truth, but there are {len(every.errors_mm)}; "
            "add scans."
        )
    shares = []
    for name, matches in used.items():
        count = len(matches.errors_mm)
        shares.append(np.full(count, weights[name] / count))
    share = np.concatenate(shares)
    forest = _forest_class()(
        _TREES,
        min_samples_leaf=min(_LEAF, len(share) // _LEAVES),
        max_features=_FEATURE_SHARE,
        random_state=0,
        n_jobs=-1,
    )
    forest.fit(every.evidence, _targets(every.errors_mm), sample_weight=share * len(share))
    return _in_one_table([tree.tree_ for tree in forest.estimators_])


def _in_one_table(trees: Sequence[Any]) -> Forest:
    """Join the trees of scikit-learn: a row of the tables is a node, and `roots` are the rows where the trees begin.

    scikit-learn puts the left child of a node into the next row, so only the right child (`otherwise`) is stored.
    """
    sizes = [len(tree.feature) for tree in trees]
    roots = np.cumsum([0, *sizes[:-1]])
    leaf = np.concatenate([tree.children_left < 0 for tree in trees])
    feature = np.concatenate([tree.feature for tree in trees])
    threshold = np.concatenate([tree.threshold for tree in trees])
    otherwise = np.concatenate([tree.children_right for tree in trees]) + np.repeat(roots, sizes)
    values = np.concatenate([tree.value for tree in trees])[leaf]
    outcomes = values[:, : len(OUTCOMES), 0] * (1, 1, 1, _ERROR_SCALE)
    return Forest(
        roots.astype(np.int32),
        np.where(leaf, -1, feature).astype(np.int8),
        np.where(leaf, 0, threshold).astype(np.float32),
        np.where(leaf, 0, otherwise).astype(np.int32),
        outcomes.astype(np.float16),
    )


def _targets(errors_mm: np.ndarray) -> np.ndarray:
    """Return what the forest learns to predict (n, 6): the four OUTCOMES, and two values that only guide its splits."""
    present = np.isfinite(errors_mm)
    error = np.minimum(errors_mm, _FARTHEST_MM)
    log_error = np.log(np.maximum(error, 0.5)) / 3
    columns = (
        present,
        errors_mm < 10,
        errors_mm < 20,
        present * error / _ERROR_SCALE,
        errors_mm < 5,
        log_error,
    )
    return np.stack(columns, axis=1).astype(np.float64)


def _forest_class() -> type:
    return require(
        "sklearn.ensemble", "scikit-learn", "calibrating needs", "train"
    ).RandomForestRegressor


def collect(
    model: Model,
    folders: Sequence[Path],
    phantom_seeds: Sequence[int],
    progress: ProgressCallback = lambda share, stage: None,
) -> Calibration:
    """Learn the calibration of a model from the scans in folders, labelled or not, and from synthetic patients.

    Args:
        folders: folders of CT scans; label maps and landmarks lie next to their scans.
        phantom_seeds: seeds of the synthetic patients.
        progress: called with the share of the work that is done, 0 to 1, and the stage of the work.

    Raises PointsError if a folder does not exist or the folders contain no scan, and AnatomicalEmbeddingError in the
    same cases as `grow_forest`.
    """
    for folder in folders:
        require_folder(folder, "CT scans")
    _forest_class()  # if scikit-learn is missing, this raises before the long work
    skipped: list[str] = []
    scans = find_scans(folders, skipped.append)
    files = [Path(source.path) for source in scans.values() if not source.series]
    if len(scans) == len(files) and not any(path.is_file() for path in files):
        raise PointsError(f"{folders[0]}: contains no scan; give folders of CT scans.")
    cases = [case for case in map(load_case, filter(Path.is_file, files)) if case is not None]
    refuse_twins([case.id for case in cases])

    def readable() -> Iterator[Volume]:
        for source in scans.values():
            try:
                yield source.read()
            except VolumeError as error:
                skipped.append(str(error))

    trials = {
        LABELLED: labelled_trials(cases, model.embed, CLICKED, skipped.append),
        BENT: bent_trials(readable(), model.embed, skipped.append),
        PHANTOMS: phantom_trials(phantom_seeds, model.embed, CLICKED),
    }
    expected = 3 * len(cases) * max(len(cases) - 1, 0) + 2 * len(scans) + 3 * len(phantom_seeds)
    return learn(model, trials, expected, {"scans": list(scans), "skipped": skipped}, progress)


def learn(
    model: Model,
    trials: Mapping[str, Iterable[Trial]],
    expected: int,
    facts: dict,
    progress: ProgressCallback,
    find: Find = match,
) -> Calibration:
    """Learn the calibration of a model from trials.

    Args:
        trials: source, one of WEIGHTS -> its trials.
        expected: number of trials.
        facts: stored with the calibration.
        progress: called with the share of the work that is done, 0 to 1, and the stage of the work.
        find: finds the points of a trial.

    Raises AnatomicalEmbeddingError in the same cases as `grow_forest`.
    """
    tried: dict[str, dict[str, list[Outcomes]]] = {}
    done = 0
    for source, source_trials in trials.items():
        for trial in source_trials:
            progress(min(done / max(expected, 1), 0.99), source)
            done += 1
            efforts = EFFORTS[:1] if trial.template.local is None else EFFORTS[1:]
            for effort in efforts:
                parts = tried.setdefault(effort, {}).setdefault(source, [])
                parts.append(try_matching(trial, effort, find))
    progress(0.99, "fitting the random forests")
    if not tried:
        grow_forest({}, WEIGHTS)  # raises that there are too few matches
    forests = {}
    counts = {}
    for effort, sources in tried.items():
        outcomes = {source: Outcomes.joined(parts) for source, parts in sources.items()}
        forests[effort] = grow_forest(outcomes, WEIGHTS)
        counts = {source: len(matches.errors_mm) for source, matches in outcomes.items()}
    return Calibration(
        model.weights_hash, EVIDENCE, forests, {"weights": model.name, **facts, "matches": counts}
    )
