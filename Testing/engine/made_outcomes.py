"""Made-up results of matching, whose probabilities are known."""

import numpy as np

from AnatomicalEmbedding.matching.confidence import EVIDENCE
from AnatomicalEmbedding.training.calibrate import Outcomes

GAP, SPREAD = EVIDENCE.index("gap"), EVIDENCE.index("spread")


def outcomes(count: int, seed: int) -> Outcomes:
    """Absent above a gap of 30 mm; else the error is drawn with a mean that grows with the spread."""
    rng = np.random.default_rng(seed)
    evidence = rng.uniform(0, 1, (count, len(EVIDENCE))).astype(np.float32)
    evidence[:, GAP] = rng.uniform(0, 40, count)
    evidence[:, SPREAD] = rng.uniform(1, 20, count)
    errors = rng.gamma(4.0, evidence[:, SPREAD] / 4)
    return Outcomes(evidence, np.where(evidence[:, GAP] > 30, np.inf, errors))
