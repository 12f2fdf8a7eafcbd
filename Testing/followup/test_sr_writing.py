"""Test written structured reports: a DICOM checker accepts them, and unconfirmed entries are left out."""

from dataclasses import replace

import numpy as np
import pytest
from dicom_series import write_ct_series
from report_checks import check
from reported_patient import CURRENT, PRIOR

from AnatomicalEmbedding.dicom.sr import read_any_points
from AnatomicalEmbedding.dicom.sr_items import (
    IDENTIFIER,
    center_in,
    children,
    measurement_groups,
    named,
    open_report,
    points_in,
)
from AnatomicalEmbedding.errors import AnatomicalEmbeddingError
from AnatomicalEmbedding.followup.dicom_sr import write_sr
from AnatomicalEmbedding.followup.sr_codes import (
    AXES,
    MERGED_WITH,
    ROLE,
    ROLE_CODES,
    STATE,
    STATE_CODES,
)

pydicom = pytest.importorskip("pydicom")
highdicom = pytest.importorskip("highdicom")


@pytest.mark.parametrize("key", ["prior", "current"])
def test_dciodvfy_finds_no_error(record, series, tmp_path, key):
    path = tmp_path / "report.dcm"
    write_sr(record, key, series[key], path)
    assert check(path) == []


def test_highdicom_reads_it_as_its_own(record, series, tmp_path):
    write_sr(record, "current", series["current"], tmp_path / "report.dcm")
    content = highdicom.sr.srread(tmp_path / "report.dcm").content
    lesion = record.lesion("L1")
    (group,) = content.get_image_measurement_groups(tracking_uid=lesion.tracking_uid)
    assert group.finding_type.value == "52988006"
    assert group.finding_sites[0].value.value == "10200004"  # liver
    sizes = {each.name.value: (each.value, each.unit.value) for each in group.get_measurements()}
    assert sizes == {"103339001": (15.5, "mm"), "103340004": (9.25, "mm")}


def _groups(path) -> dict[str, list]:
    """Return the items of each lesion, by its Tracking Unique Identifier."""
    groups = [list(children(group)) for group in measurement_groups(open_report(path))]
    return {str(named(items, ("112040", "DCM", ""))[0].UID): items for items in groups}


def _is_near(points, expected) -> bool:
    return np.abs(np.array(points) - np.array(expected)).max() < 1e-3


@pytest.mark.parametrize("key", ["prior", "current"])
def test_every_finding_that_a_person_reviewed_is_in_it(record, series, tmp_path, key):
    write_sr(record, key, series[key], tmp_path / "report.dcm")
    groups = _groups(tmp_path / "report.dcm")
    reviewed = [lesion for lesion in record.lesions if lesion.findings[key].reviewed]
    assert list(groups) == [lesion.tracking_uid for lesion in reviewed]
    for lesion in reviewed:
        finding = lesion.findings[key]
        items = groups[lesion.tracking_uid]
        assert named(items, IDENTIFIER)[0].TextValue == lesion.label
        codes = [named(items, name)[0].ConceptCodeSequence[0].CodeValue for name in (STATE, ROLE)]
        assert codes == [STATE_CODES[finding.state][0], ROLE_CODES[lesion.target, lesion.nodal][0]]
        merged = [str(item.UID) for item in named(items, MERGED_WITH)]
        assert merged == ([record.lesion(finding.into).tracking_uid] if finding.into else [])
        place = center_in(items)
        assert (place is None) == (finding.point_ras is None)
        assert place is None or _is_near(place, finding.point_ras)
        for kind, code in AXES.items():
            drawn = [
                points_in(end)
                for item in named(items, code)
                for end in children(item)
                if "GraphicData" in end
            ]
            axes = finding.size.axes if finding.visible else {}
            assert len(drawn) == (kind in axes)
            assert not drawn or _is_near(drawn[0], axes[kind])


def test_unconfirmed_places_are_left_out_and_reported(record, series, tmp_path):
    said = write_sr(record, "current", series["current"], tmp_path / "report.dcm")
    assert said == ("L4: was not reviewed in 2024-04-02, so it is not in the report.",)
    assert record.lesion("L4").tracking_uid not in _groups(tmp_path / "report.dcm")
    report = pydicom.dcmread(tmp_path / "report.dcm")
    assert (report.CompletionFlag, report.VerificationFlag) == ("PARTIAL", "UNVERIFIED")
    assert "UNCONFIRMED" not in str(report)


@pytest.mark.parametrize("name", ["Müller^Jürgen", "山田^太郎"])
def test_names_in_any_language(record, tmp_path, volumes, name):
    charset = "ISO_IR 100" if name.startswith("M") else "ISO_IR 192"
    write_ct_series(
        tmp_path / "ct", volumes["prior"], PatientName=name, SpecificCharacterSet=charset
    )
    named = record.describe("L1", name="Läsion 腫瘤")
    write_sr(named, "prior", tmp_path / "ct", tmp_path / "report.dcm")
    assert pydicom.dcmread(tmp_path / "report.dcm").PatientName == name
    assert read_any_points(tmp_path / "report.dcm").labels[0] == "L1 Läsion 腫瘤"
    assert check(tmp_path / "report.dcm") == []


# -- what cannot be written --------------------------------------------------------------------------------------------


def test_a_study_without_dicom_names_what_to_export_instead(record, volumes, tmp_path):
    volumes["prior"].write(tmp_path / "prior.nii.gz")
    for files in ([], tmp_path / "prior.nii.gz", [tmp_path / "prior.nii.gz"]):
        with pytest.raises(
            AnatomicalEmbeddingError, match=r"refers to the DICOM images.*export the table \(CSV\)"
        ):
            write_sr(record, "prior", files, tmp_path / "report.dcm")
    assert not (tmp_path / "report.dcm").exists()


@pytest.mark.parametrize(
    ("named", "said"),
    [
        ({"series_uid": "1.2.3"}, r"are not of the series 1\.2\.3"),
        ({}, "are of 2 series; give the slices of this study"),
    ],
)
def test_images_of_other_studies_are_refused(record, series, tmp_path, named, said):
    files = series["prior"] if named else series["prior"].parent
    record = record.with_studies([replace(PRIOR, **named), CURRENT])
    with pytest.raises(AnatomicalEmbeddingError, match=said):
        write_sr(record, "prior", files, tmp_path / "report.dcm")
