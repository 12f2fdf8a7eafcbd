"""Test which part of the body a scan shows, on maps whose body heights are known."""

from dataclasses import replace

import numpy as np
import pytest
from small_models import analytic_map

from AnatomicalEmbedding.embedding.coverage import find_coverage, heights_fall
from AnatomicalEmbedding.errors import MapError

# the analytic map's scan: RAS z 300 to 492, 16 cells of 12 mm


def coverage(shift, noise=0.0, scale=1.0):
    return find_coverage(
        analytic_map(lambda p: (p - (0, 0, 300)) * scale + (0, 0, shift), noise=noise)
    )


@pytest.mark.parametrize(("shift", "noise"), [(-60.0, 0.0), (100.0, 8.0), (378.0, 15.0)])
def test_ends_are_the_body_heights_of_the_scans_ends(shift, noise):
    found = coverage(shift, noise)
    assert found.low_mm == pytest.approx(shift, abs=3)
    assert found.high_mm == pytest.approx(shift + 192, abs=3)


@pytest.mark.parametrize(
    ("shift", "text"),
    [
        (386.0, "from the diaphragm to the lung apices"),
        (-150.0, "from below the symphysis to between the femoral heads and the sacral promontory"),
        (
            330.0,
            "from between the kidneys and the diaphragm to between the carina and the lung apices",
        ),
        (740.0, "from between the skull base and the vertex to above the vertex"),
    ],
)
def test_in_words(shift, text):
    assert coverage(shift).text == text


def test_maps_without_body_or_frame_are_refused():
    made = analytic_map(lambda p: p)
    with pytest.raises(MapError, match="no body coordinates in mm"):
        find_coverage(replace(made, provenance=replace(made.provenance, metric=False)))
    with pytest.raises(MapError, match="shows no body"):
        find_coverage(analytic_map(lambda p: p, body=np.zeros((16, 20, 24), dtype=bool)))


def turned_at(z: float):
    """Heights that begin anew at a world height."""
    return lambda p: p - (0, 0, 300) - (p[..., 2:] > z) * (0, 0, 150)


@pytest.mark.parametrize(
    ("function", "odd"),
    [
        (lambda p: p - (0, 0, 300), False),
        (lambda p: (p - (0, 0, 300)) * 0.5, False),  # a patient twice as large
        (lambda p: (p - (0, 0, 300)) * (1, 1, -1), True),
        (turned_at(465.0), True),
    ],
)
def test_heights_that_fall_on_the_way_up_are_noted(function, odd):
    assert heights_fall(analytic_map(function, noise=15.0)) == odd
