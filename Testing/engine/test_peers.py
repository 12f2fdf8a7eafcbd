"""Registration programs as peers: those that are missing are said, those that are there carry points the right way."""

from __future__ import annotations

from importlib import metadata

import numpy as np
import pytest
from comparison import peers
from ellipsoid_cases import FLIPPED, write_case

from AnatomicalEmbedding.structures.labelled_scans import load_cases


def test_missing_peers_are_reported_not_raised(monkeypatch):
    def not_installed(name):
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(peers.metadata, "version", not_installed)
    found, notes = peers.make_peers()
    assert list(found) == [peers.BODY_CENTRE]
    assert [note.split(":")[0] for note in notes] == [peers.ELASTIX_AFFINE, peers.ELASTIX_BSPLINE, peers.ANTS_SYN]
    assert ["pip install itk-elastix" in note for note in notes] == [True, True, False]
    assert "pip install antspyx" in notes[2]


# The first stage of elastix finds the shift; the B-spline costs seconds an iteration and only has to keep it.
_REGISTRATIONS = {
    "affine": lambda: peers.Elastix(iterations=40),
    "B-spline": lambda: peers.Elastix(deformable=True, iterations=5, grid_mm=60.0),
    "SyN": peers.AntsSyN,
}


@pytest.mark.parametrize("make", _REGISTRATIONS.values(), ids=_REGISTRATIONS)
def test_registration_maps_template_points_into_the_target(tmp_path, make):
    """A shift in one direction, and a target stored with other axes: a wrong direction or frame would double it."""
    try:
        registration = make()
    except metadata.PackageNotFoundError as error:
        pytest.skip(f"{error.name} is not installed")
    write_case(tmp_path, "anna")
    write_case(tmp_path, "bert", (12.0, -9.0, 10.0), directions=FLIPPED)
    template, target = load_cases(tmp_path)
    points = np.concatenate([structure.points_ras for structure in template.structures.values()])
    moved = registration(template, points, target)
    errors = np.linalg.norm(moved - points - (12.0, -9.0, 10.0), axis=1)
    assert np.median(errors) < 3.0  # the shift is 18 mm
