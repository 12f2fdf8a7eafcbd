"""Calibration of weights: predicts the error of a match from the evidence of the match, by decision trees.

Each leaf of a tree holds the mean outcome of matches with known truth and similar evidence. A forest is a set of such
trees (Breiman 2001). `anatemb calibrate` makes a calibration, which ships next to its weights as
NAME.calibration.safetensors.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import cache, cached_property
from pathlib import Path

import numpy as np

from ..errors import WeightsError
from ..resources import resource

SUFFIX = ".calibration.safetensors"
# Columns of `Forest.outcomes`. The error of a point that the target does not show counts as 0.
OUTCOMES = ("present", "within 10 mm", "within 20 mm", "error mm")
_METADATA_KEY = "anatomical_embedding_calibration"
_CHUNK = 2000  # matches at a time; only limits memory


@dataclass(frozen=True, eq=False)
class Forest:
    """t decision trees over rows of evidence. The m nodes of all trees are stored in one list.

    Args:
        roots: (t,) index of the first node of each tree.
        feature: (m,) index of the evidence value that each node tests; -1 for a leaf, which tests nothing.
        threshold: (m,) limit of this value. If the value is at most the limit, the node with the next index follows.
        otherwise: (m,) index of the node that follows if the value is larger than the limit.
        outcomes: (leaves, len(OUTCOMES)) mean outcomes of the matches in each leaf; leaves in the order of the nodes.
    """

    roots: np.ndarray
    feature: np.ndarray
    threshold: np.ndarray
    otherwise: np.ndarray
    outcomes: np.ndarray

    @cached_property
    def _tables(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return three arrays about the m nodes of all trees: (m,) index of the feature that the node compares; (2 m,)
        indices of both children, first the child for features up to the threshold; and (m,) row in `outcomes`, valid
        only for leaves. Both children of a leaf are the leaf itself."""
        is_leaf = self.feature < 0
        node = np.arange(len(self.feature))
        up_to_threshold = np.where(is_leaf, node, node + 1)
        above = np.where(is_leaf, node, self.otherwise)
        children = np.stack([up_to_threshold, above], axis=1).ravel()
        return np.maximum(self.feature, 0).astype(np.int64), children, np.cumsum(is_leaf) - 1

    def check(self, width: int) -> None:
        """Raise ValueError unless every path through the trees ends in a leaf. width: length of a row of evidence."""
        nodes = len(self.feature)
        leaf = self.feature < 0
        inner = np.flatnonzero(~leaf)
        fits = (
            all(part.dtype.kind == "i" for part in (self.roots, self.feature, self.otherwise))
            and self.roots.ndim == self.feature.ndim == 1
            and self.threshold.shape == self.otherwise.shape == (nodes,)
            and self.outcomes.shape == (np.count_nonzero(leaf), len(OUTCOMES))
            and len(self.roots) > 0
            and self.roots.min() >= 0 > self.roots.max() - nodes
            and self.feature.max(initial=-1) < width
            # both children have higher indices than their parent, so no path is circular
            and ((self.otherwise[inner] > inner) & (self.otherwise[inner] < nodes)).all()
            and inner.max(initial=-1) < nodes - 1
        )
        if not fits:
            raise ValueError("a forest whose trees do not end")

    def predict(self, evidence: np.ndarray) -> np.ndarray:
        """Predict outcomes (n, len(OUTCOMES)) for rows of evidence (n, f): the mean over all trees."""
        evidence = np.asarray(evidence, np.float32)
        chunks = np.split(evidence, range(_CHUNK, len(evidence), _CHUNK))
        return np.concatenate([self._predict_chunk(rows) for rows in chunks])

    def _predict_chunk(self, rows: np.ndarray) -> np.ndarray:
        """Predict outcomes for some rows of evidence, see `predict`: each row goes down each tree, step by step."""
        feature, children, leaf = self._tables
        values = rows.ravel()
        first_value = np.arange(len(rows))[:, None] * rows.shape[1]  # index in `values`, by row
        # (rows, trees): the node that each row has reached in each tree
        node = np.repeat(self.roots[None], len(rows), axis=0)
        while True:
            is_above = values[first_value + feature[node]] > self.threshold[node]
            child = children[2 * node + is_above]
            # all rows are at leaves, whose children are the leaves themselves
            if np.array_equal(child, node):
                return self.outcomes[leaf[node]].mean(axis=1, dtype=np.float64)
            node = child


@dataclass(frozen=True, eq=False)
class Calibration:
    """Predicts the outcomes of matches that were made with one set of weights.

    Args:
        weights_hash: SHA-256 of the weights.
        evidence: names of the values in a row of evidence, in order. Matches with other evidence cannot be judged.
        forests: effort of matching -> forest.
        metadata: how the calibration was made.
    """

    weights_hash: str
    evidence: tuple[str, ...]
    forests: Mapping[str, Forest]
    metadata: dict = field(default_factory=dict)

    def save(self, path: str | Path) -> None:
        """Write one file, complete or not at all. Raises WeightsError if the file cannot be written."""
        import torch

        from .tensor_files import write_tensor_file

        tensors = {}
        for effort, forest in self.forests.items():
            for part in fields(forest):
                values = np.ascontiguousarray(getattr(forest, part.name))
                tensors[f"{effort}/{part.name}"] = torch.from_numpy(values)
        text = json.dumps(
            {"weights_sha256": self.weights_hash, "evidence": self.evidence, **self.metadata}
        )
        write_tensor_file(path, tensors, {_METADATA_KEY: text}, WeightsError)

    @classmethod
    def load(cls, path: str | Path) -> Calibration:
        """Read a file written by `save`. Raises WeightsError if the file is damaged or not a calibration."""
        # loads torch, which the command line's help does not need
        from .tensor_files import DAMAGED, read_tensor_file

        try:
            metadata, tensors = read_tensor_file(path, _METADATA_KEY)
            weights_hash = str(metadata.pop("weights_sha256"))
            evidence = tuple(map(str, metadata.pop("evidence")))
            parts: dict[str, dict[str, np.ndarray]] = {}
            for key, values in tensors.items():
                effort, name = key.split("/")
                parts.setdefault(effort, {})[name] = values.numpy()
            forests = {effort: Forest(**arrays) for effort, arrays in parts.items()}
            for forest in forests.values():
                forest.check(len(evidence))
            return cls(weights_hash, evidence, forests, metadata)
        except DAMAGED:
            raise WeightsError(
                f"{path}: is damaged, or is not a calibration; download the calibration again, or delete this file."
            ) from None


def calibration_file(weights: Path) -> Path:
    """Return the path of the calibration that belongs to a weights file."""
    return weights.with_name(weights.stem + SUFFIX)


@cache
def find_calibration(weights_hash: str) -> Calibration | None:
    """Read the shipped calibration of the weights with this SHA-256. Returns None if no such calibration ships."""
    for path in sorted(resource("Models").glob("*" + SUFFIX)):
        calibration = Calibration.load(path)
        if calibration.weights_hash == weights_hash:
            return calibration
    return None
