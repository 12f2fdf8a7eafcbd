"""Test the order of a patient's studies by date, in a subject hierarchy as DICOM import makes it."""

from datetime import date

import numpy as np
import pytest
import slicer
import slicer.util

from AnatomicalEmbeddingLib.followup.StudyOrder import patients, setDate, studyOf


def add_volume(name="CT"):
    return slicer.util.addVolumeFromArray(np.zeros((4, 4, 4), np.int16), name=name)


@pytest.fixture
def hierarchy(scene):
    return slicer.vtkMRMLSubjectHierarchyNode.GetSubjectHierarchyNode(scene)


@pytest.fixture
def import_series(hierarchy):
    """import_series(patient, day, clock, name): as DICOM import does; items of a patient or study are made once."""
    constants = slicer.vtkMRMLSubjectHierarchyConstants

    def item(uid, make):
        found = hierarchy.GetItemByUID(constants.GetDICOMUIDName(), uid)
        if found:
            return found
        made = make()
        hierarchy.SetItemUID(made, constants.GetDICOMUIDName(), uid)
        return made

    def run(patient, day, clock="", name="CT"):
        volume = add_volume(name)
        person = item(
            f"p{patient}", lambda: hierarchy.CreateSubjectItem(hierarchy.GetSceneItemID(), patient)
        )
        study = item(f"s{patient}{day}{clock}", lambda: hierarchy.CreateStudyItem(person, "Study"))
        hierarchy.SetItemAttribute(study, constants.GetDICOMStudyDateAttributeName(), day)
        hierarchy.SetItemAttribute(study, constants.GetDICOMStudyTimeAttributeName(), clock)
        hierarchy.CreateItem(study, volume)
        return volume

    return run


def test_studies_of_a_patient_come_in_the_order_of_their_dates(scene, import_series):
    late = import_series("Miller", "20240131", name="1")
    early = import_series("Miller", "20191231", name="3")
    middle = import_series("Miller", "20230801", name="2")
    (found,) = patients(scene)
    assert found.volumes == [early, middle, late]
    assert found.studies[0].date == date(2019, 12, 31)
    assert not any(study.note for study in found.studies)


def test_a_date_by_hand_wins_over_dicom(scene, import_series):
    first = import_series("Miller", "20200101", "120000")
    second = import_series("Miller", "20210101")
    setDate(first, " 2022-05-06 ")
    (found,) = patients(scene)
    assert found.volumes == [second, first]
    assert found.studies[1].byHand
    assert found.studies[1].dateText == "2022-05-06"


@pytest.mark.parametrize("text", ["6.5.2022", "2022-13-01", "2022-02-30", "20220506", "soon"])
def test_what_is_no_date_is_refused_with_a_sentence(scene, text):
    volume = add_volume("CT-7")
    setDate(volume, "2022-05-06")
    with pytest.raises(ValueError, match=r"CT-7: .* is not a date; write it as YYYY-MM-DD"):
        setDate(volume, text)
    assert studyOf(scene, volume).dateText == "2022-05-06"


def test_undated_studies_come_last_and_say_so(scene, import_series):
    undated = import_series("Miller", "", name="CT-1")
    dated = import_series("Miller", "20240131")
    (found,) = patients(scene)
    assert found.volumes == [dated, undated]
    assert (
        found.studies[1].note
        == "CT-1: has no study date and is sorted last; enter the date as YYYY-MM-DD."
    )
