"""Test the transfer of boxes between maps whose coordinates are known functions of the place."""

from dataclasses import replace

import numpy as np
import pytest
from described_maps import described
from small_models import analytic_map

from AnatomicalEmbedding.errors import MapError, PointsError, WeightsError
from AnatomicalEmbedding.structures.box_finder import BoxFinder, open_library
from AnatomicalEmbedding.structures.library import SUFFIX, StructureLibrary
from AnatomicalEmbedding.structures.locating import locate, make_example
from AnatomicalEmbedding.structures.margins import Margins

BOX = np.array([[-30.0, -20.0, 350.0], [35.0, 40.0, 430.0]])
_EVEN = {"": np.ones(6)}  # scales of margins


def itself(points):
    return points


def shifted(by):
    """A target whose body lies `by` mm further."""
    return analytic_map(lambda p: p - np.array(by))


class TestOneExample:
    def test_a_body_that_is_larger(self):
        middle = BOX.mean(axis=0)
        target = analytic_map(lambda p: middle + (p - middle) / 1.2)
        found = locate({"liver": [make_example(analytic_map(itself), BOX)]}, target)["liver"]
        np.testing.assert_allclose(found.box_ras, middle + (BOX - middle) * 1.2, atol=3.0)

    def test_a_structure_that_the_scan_cuts(self):
        """The target ends at 396 mm, in the middle of the box: the box goes on where the scan does not."""
        target = analytic_map(itself, (8, 20, 24))
        found = locate({"liver": [make_example(analytic_map(itself), BOX)]}, target)["liver"]
        assert found.cut == ("superior",)
        assert found.status == "cut"
        np.testing.assert_allclose(found.box_ras[0], BOX[0], atol=3.0)

    def test_examples_of_other_weights_are_refused(self):
        other = analytic_map(itself, weights_hash="cd" * 32)
        with pytest.raises(MapError, match="made with other weights"):
            locate({"liver": [make_example(analytic_map(itself), BOX)]}, other)
        with pytest.raises(PointsError, match="made with different weights"):
            locate(
                {"liver": [make_example(analytic_map(itself), BOX), make_example(other, BOX)]},
                other,
            )

    def test_what_cannot_be_an_example_is_refused(self):
        embedding = analytic_map(itself)
        with pytest.raises(PointsError, match="the box has no volume"):
            make_example(embedding, BOX[::-1])
        with pytest.raises(PointsError, match="most of the box lies outside this scan"):
            make_example(embedding, BOX + 500)
        with pytest.raises(PointsError, match="liver: this structure has no example"):
            locate({"liver": []}, embedding)


class TestSeveralExamples:
    def test_one_that_is_wrong_is_outvoted_and_named(self):
        good = [make_example(shifted((n, 0.0, -n)), BOX + (n, 0.0, -n)) for n in (0.0, 3.0, 6.0)]
        wrong = replace(
            make_example(analytic_map(itself), BOX + (0.0, 0.0, 45.0)), scan="patient 9"
        )
        examples = {"liver": [good[0], wrong, *good[1:]]}
        found = locate(examples, analytic_map(itself), compare_examples=True)["liver"]
        np.testing.assert_allclose(found.box_ras, BOX, atol=2.0)
        assert len(found.remarks) == 1
        assert found.remarks[0].startswith("the box from the example in patient 9 is 4")
        margins = Margins(np.linspace(0.5, 1, 301), 1000, _EVEN)
        own = BoxFinder(examples, margins)
        shipped = BoxFinder.by_library(StructureLibrary("ab" * 32, examples, "standard", margins))
        assert own.find(analytic_map(itself))["liver"].located.remarks == found.remarks
        assert not shipped.find(analytic_map(itself))[
            "liver"
        ].located.remarks  # nobody can correct a library


def test_a_structure_that_is_not_in_the_scan(calibration):
    calibration = replace(calibration, forests={"coordinates": calibration.forests["standard"]})
    target = replace(analytic_map(itself), calibration=calibration)
    away = make_example(analytic_map(lambda p: p + (0, 0, 400.0)), BOX)
    here = make_example(analytic_map(itself), BOX)
    found = locate({"brain": [away], "liver": [here]}, target)
    assert (found["brain"].status, found["brain"].present) == ("absent", 0.0)
    assert found["liver"].present == 1.0


class TestLibrary:
    @pytest.fixture
    def library(self):
        examples = [make_example(described(), BOX, effort="fast")]
        margins = Margins(np.linspace(0.5, 1, 301), 1000, _EVEN)
        return StructureLibrary(
            "ab" * 32,
            {"liver": examples, "spleen": examples},
            "fast",
            margins,
            None,
            {"by": "a test"},
        )

    def test_it_is_read_back_and_answers_the_same(self, library, tmp_path):
        path = tmp_path / f"own{SUFFIX}"
        library.save(path)
        back = StructureLibrary.load(path)
        target = described(moved=(2.0, 1.0, 0.0))
        one, other = (locate(of.examples, target, "fast")["liver"] for of in (library, back))
        np.testing.assert_allclose(other.box_ras, one.box_ras, atol=0.1)
        np.testing.assert_allclose(other.box_ras, BOX + (2.0, 1.0, 0.0), atol=3.0)
        assert back.margins.times_for(0.9) == library.margins.times_for(0.9)
        assert (back.effort, back.example_margins, back.facts) == ("fast", None, {"by": "a test"})

    def test_what_does_not_fit_is_refused(self, library, tmp_path):
        path = tmp_path / f"own{SUFFIX}"
        with pytest.raises(WeightsError, match="no such file"):
            StructureLibrary.load(path)
        library.save(path)
        with pytest.raises(WeightsError, match="built with other weights"):
            open_library("cd" * 32, "others", path)
        path.write_bytes(path.read_bytes()[:-50])
        with pytest.raises(WeightsError, match="damaged"):
            StructureLibrary.load(path)
