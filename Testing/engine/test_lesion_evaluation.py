"""The evaluation of lesion follow-up: full marks for maps that know the truth, few for maps that do not."""

from __future__ import annotations

import json
from types import SimpleNamespace

import numpy as np
import pytest
from small_models import analytic_map

from AnatomicalEmbedding.embedding.inference import load_model
from AnatomicalEmbedding.evaluation import lesions as evaluation
from AnatomicalEmbedding.evaluation.lesions import GONE, RESHAPED, UNCHANGED, FollowUpResult, evaluate_follow_ups
from AnatomicalEmbedding.phantom.followup import PhantomFollowUp, make_follow_up
from AnatomicalEmbedding.scan.volume import Volume

SEEDS = (117007, 117016)  # between them every fate
CELL_MM = (8.0, 8.0, 8.0)


@pytest.fixture(scope="module")
def patients() -> dict[int, PhantomFollowUp]:
    return {seed: make_follow_up(seed, 2) for seed in SEEDS}


def _evaluated(patients: dict[int, PhantomFollowUp], spoil, monkeypatch: pytest.MonkeyPatch) -> FollowUpResult:
    """By maps that hold `spoil` of each cell's true place in the body; every cell of a scan may be an answer."""
    day_of = {id(v): day for p in patients.values() for v, day in zip(p.volumes, p.days, strict=True)}

    def embed(volume: Volume):
        low, high = volume.bounds_ras
        shape = tuple(int(n) for n in np.floor((high - low) / CELL_MM)[::-1])
        return analytic_map(lambda p: spoil(day_of[id(volume)].to_body(p)), shape, CELL_MM, tuple(low))

    monkeypatch.setattr(evaluation, "make_follow_up", lambda seed, studies: patients[seed])
    return evaluate_follow_ups(SimpleNamespace(name="made up", embed=embed), SEEDS)


def test_maps_that_know_the_truth(patients, monkeypatch: pytest.MonkeyPatch) -> None:
    result = _evaluated(patients, lambda body: body, monkeypatch)
    placed = result.placed
    assert set(placed.group) == {UNCHANGED, RESHAPED, GONE}
    errors = placed.points.errors_mm
    # growing lesions drift, by up to a quarter of what they gain; marks are off by 15 % of the radius along each axis
    assert np.median(errors[placed.group == UNCHANGED]) < 3.0
    assert np.percentile(errors[placed.group == UNCHANGED], 90) < 6.0
    assert np.percentile(errors[placed.group == GONE], 90) < 6.0
    assert placed.matched()[placed.group == UNCHANGED].all()
    # the middle of what a large lesion has become may be further off than either allows
    assert result.share_matched > 0.9
    assert result.f1 > 0.95
    # these weights have no calibration: nothing is ever said to be outside
    assert result.outside[0] == 0
    assert result.outside[1] > 0
    known = {key: n for key, n in result.states.items() if key[0] != "outside"}
    right = sum(n for (true, told), n in known.items() if true == told)
    assert right / sum(known.values()) > 0.95
    assert {true for true, _ in result.states} == {"same", "split", "merged", "disappeared", "new", "outside"}


def test_maps_that_know_little(patients, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every 190 mm of the body looks the same."""
    result = _evaluated(patients, lambda body: 30 * np.sin(body / 30), monkeypatch)
    assert result.share_matched < 0.7
    assert result.f1 < 0.8
    assert result.states_right < 0.8


def test_what_is_printed_is_what_was_measured(patients, monkeypatch: pytest.MonkeyPatch) -> None:
    result = _evaluated(patients, lambda body: body, monkeypatch)
    figures = json.loads(result.to_json())
    assert figures["matched"] == pytest.approx(result.share_matched)
    assert figures["links"]["f1"] == pytest.approx(result.f1)
    assert sum(row["lesions"] for row in figures["states"]) == sum(result.states.values())
    for text in (result.table(), result.markdown()):
        for heading in (
            "Places of lesions",
            "CPM@Radius as DLT",
            "CPM@10mm as UAE",
            "Pairing of lesions",
            "Seconds",
        ):
            assert heading in text
        assert f"{result.f1:.3f}" in text


def test_the_shipped_weights_follow_a_patient_up(patients, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluation, "make_follow_up", lambda seed, studies: patients[seed])
    result = evaluate_follow_ups(load_model(device="cpu"), SEEDS[:1])
    assert result.share_matched >= 0.9
    assert result.f1 >= 0.9
    assert result.states_right >= 0.85
