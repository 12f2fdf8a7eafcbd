"""Test reading of structured reports: those of this program give the same record; those of others are read too."""

from dataclasses import replace

import numpy as np
import pytest
from dicom_series import write_ct_series
from report_checks import assert_same_finding, is_near

from AnatomicalEmbedding.errors import AnatomicalEmbeddingError
from AnatomicalEmbedding.followup.dicom_sr import write_sr
from AnatomicalEmbedding.followup.lesions import PROPOSED
from AnatomicalEmbedding.followup.sr_reading import read_srs

pydicom = pytest.importorskip("pydicom")
highdicom = pytest.importorskip("highdicom")


def test_reports_of_all_studies_make_the_record_again(record, series, tmp_path):
    for key, folder in series.items():
        write_sr(record, key, folder, tmp_path / f"{key}.dcm")
    back = read_srs(sorted(tmp_path.iterdir()))
    assert [(study.name, study.date) for study in back.studies] == [(s.name, s.date) for s in record.studies]
    keys = dict(zip((study.key for study in record.studies), (study.key for study in back.studies), strict=True))
    assert [lesion.tracking_uid for lesion in back.lesions] == [lesion.tracking_uid for lesion in record.lesions]
    for lesion, written in zip(back.lesions, record.lesions, strict=True):
        told = ("id", "name", "site", "target", "nodal", "split_from")
        assert [getattr(lesion, name) for name in told] == [getattr(written, name) for name in told]
        expected = {keys[key]: found for key, found in written.findings.items() if found.state != PROPOSED}
        assert set(lesion.findings) == set(expected)
        for key, found in expected.items():
            assert_same_finding(lesion.findings[key], found)


def test_of_two_reports_on_a_study_the_later_counts(record, series, tmp_path):
    write_sr(record, "current", series["current"], tmp_path / "b.dcm")
    write_sr(record.not_visible("L1", "current"), "current", series["current"], tmp_path / "a.dcm")
    (found,) = read_srs([tmp_path / "a.dcm", tmp_path / "b.dcm"]).lesion("L1").findings.values()
    assert found.state == "not visible"


# -- of other programs -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("graphic", "points"),
    [
        ("POINT", [(10, 20, -300)]),
        ("POLYGON", [(0, 10, -300), (20, 10, -300), (20, 30, -300), (0, 30, -300), (0, 10, -300)]),
    ],
)
def test_regions_of_another_program_are_read(series, tmp_path, graphic, points):
    sr, uid = highdicom.sr, "2.25.77"
    source = pydicom.dcmread(next(series["prior"].iterdir()))
    group = sr.PlanarROIMeasurementsAndQualitativeEvaluations(
        sr.TrackingIdentifier(uid, "Nodule in S6"),
        referenced_region=sr.ImageRegion3D(graphic, np.array(points, float), source.FrameOfReferenceUID),
        finding_type=sr.CodedConcept("27925004", "SCT", "Nodule"),
        finding_sites=[sr.FindingSite(sr.CodedConcept("32849002", "SCT", "Oesophagus"))],
    )
    device = sr.ObserverContext(
        sr.CodedConcept("121007", "DCM", "Device"), sr.DeviceObserverIdentifyingAttributes("1.2.3", "other")
    )
    content = sr.MeasurementReport(
        sr.ObservationContext(observer_device_context=device), sr.CodedConcept("25045-6", "LN", "CT"), [group]
    )
    sr.Comprehensive3DSR([source], content[0], "1.2.4", 1, "1.2.5", 1, manufacturer="other").save_as(tmp_path / "o.dcm")
    (lesion,) = read_srs([tmp_path / "o.dcm"]).lesions
    assert (lesion.tracking_uid, lesion.id, lesion.name, lesion.site) == (uid, "R1", "Nodule in S6", "esophagus")
    (found,) = lesion.findings.values()
    assert found.state == "marked"
    assert is_near(found.point_ras, (-10, -20, -300))


def with_identifiers(path, names):
    """The report with other tracking identifiers; None: without one."""
    report = pydicom.dcmread(path)
    groups = report.ContentSequence[-1].ContentSequence
    for group, name in zip(groups, names, strict=True):
        (item,) = (
            each
            for each in group.ContentSequence
            if "ConceptNameCodeSequence" in each and each.ConceptNameCodeSequence[0].CodeValue == "112039"
        )
        if name is None:
            group.ContentSequence.remove(item)
        else:
            item.TextValue = name
    report.save_as(path)


@pytest.mark.parametrize(
    ("names", "labels"),
    [
        (("Lesion 1", "Lesion 2", "Node 12", "Nodule"), ["R1 Lesion 1", "R2 Lesion 2", "R3 Node 12", "R4 Nodule"]),
        (("R2 liver", "R2 lung", "x", "y"), ["R2 liver", "R3 lung", "R4 x", "R5 y"]),
        (("R1", None, "R2", None), ["R1", "R3", "R2", "R4"]),
        (("x", "R1 liver", "R3", "R4"), ["R2 x", "R1 liver", "R3", "R4"]),
        (("L1", "L1", "L1", "L1 dome"), ["L1", "R2", "R3", "R4 dome"]),
        (("L1 right lobe", "S12\tspine", "1", "LN3x"), ["L1 right lobe", "S12 spine", "R3 1", "R4 LN3x"]),
    ],
)
def test_no_lesion_is_lost_whatever_another_program_calls_it(record, series, tmp_path, names, labels):
    four = replace(record, lesions=record.lesions[:4])
    write_sr(four, "prior", series["prior"], tmp_path / "report.dcm")
    with_identifiers(tmp_path / "report.dcm", names)
    back = read_srs([tmp_path / "report.dcm"])
    assert [lesion.label for lesion in back.lesions] == labels
    assert [lesion.tracking_uid for lesion in back.lesions] == [lesion.tracking_uid for lesion in four.lesions]


# -- what cannot be read -----------------------------------------------------------------------------------------------


def test_files_that_are_no_report_are_named(series, tmp_path, record):
    (tmp_path / "text.dcm").write_text("nothing")
    with pytest.raises(AnatomicalEmbeddingError, match=r"text\.dcm: is not DICOM"):
        read_srs([tmp_path / "text.dcm"])
    with pytest.raises(AnatomicalEmbeddingError, match=r"none\.dcm: no such file"):
        read_srs([tmp_path / "none.dcm"])
    with pytest.raises(AnatomicalEmbeddingError, match="is DICOM, but not a structured report"):
        read_srs([next(series["prior"].iterdir())])
    write_sr(record, "prior", series["prior"], tmp_path / "report.dcm")
    whole = (tmp_path / "report.dcm").read_bytes()
    (tmp_path / "cut.dcm").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(AnatomicalEmbeddingError, match=r"cut\.dcm.*is truncated"):
        read_srs([tmp_path / "cut.dcm"])


def test_reports_of_two_patients_are_not_joined(record, series, volumes, tmp_path):
    write_sr(record, "prior", series["prior"], tmp_path / "a.dcm")
    write_ct_series(tmp_path / "ct", volumes["current"], PatientID="P2")
    write_sr(record, "current", tmp_path / "ct", tmp_path / "b.dcm")
    with pytest.raises(AnatomicalEmbeddingError, match="are reports of different patients"):
        read_srs([tmp_path / "a.dcm", tmp_path / "b.dcm"])
