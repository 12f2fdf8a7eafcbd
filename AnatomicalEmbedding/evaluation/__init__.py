"""Published protocols on labelled scans, the engine side by side with its peers."""

from ..structures.labelled_scans import Case, load_cases
from ..structures.scan_pairs import find_pairs
from .few_shot import few_shot
from .peers import PEERS, make_peers
from .protocol import EmbeddingMatcher, Matcher, evaluate_landmarks
from .results import Measured, Result, Summary

__all__ = [
    "PEERS",
    "Case",
    "EmbeddingMatcher",
    "Matcher",
    "Measured",
    "Result",
    "Summary",
    "evaluate_landmarks",
    "few_shot",
    "find_pairs",
    "load_cases",
    "make_peers",
]
