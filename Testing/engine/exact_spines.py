"""Make spines whose levels and heights are given."""

import numpy as np

from AnatomicalEmbedding.spine.vertebrae import Spine


def spine_of(names: tuple[str, ...], chances: float = 0.99) -> Spine:
    """Vertebrae 30 mm high, the lowest from S = 300 mm on, in the middle of the body. chances: that each is right."""
    bottoms = 300.0 + 30.0 * np.arange(len(names))[::-1]
    zeros = np.zeros(len(names))
    centres = np.column_stack([zeros, zeros, bottoms + 15])
    right = np.full(len(names), chances)
    course = centres[::-1]
    return Spine(
        names, centres, np.column_stack([bottoms, bottoms + 30]), zeros == 0,
        np.column_stack([(1 - right) / 2, right, (1 - right) / 2]), zeros, course, 0 * course[:, :2], ("sacrum",),
    )  # fmt: skip
