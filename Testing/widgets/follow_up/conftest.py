"""Fixtures of the tests of the follow-up panel."""

import pytest
import slicer
from follow_up_actions import Reader
from scans import add_patient


@pytest.fixture
def module(kit, map_folder):
    """The module, not opened yet; maps are kept from test to test."""
    from AnatomicalEmbeddingLib.shared.panels import ModuleSettings

    ModuleSettings.setValue("cacheFolder", str(map_folder))
    ModuleSettings.setValue("device", "cpu")
    return kit.load_module("LesionFollowUp")


@pytest.fixture
def hierarchy(kit):
    return slicer.vtkMRMLSubjectHierarchyNode.GetSubjectHierarchyNode(kit.scene)


@pytest.fixture
def import_study(kit):
    """import_study(person, day, name, number): a CT as DICOM import leaves it."""

    def run(person, day, name, number=0):
        constants = slicer.vtkMRMLSubjectHierarchyConstants
        hierarchy = slicer.vtkMRMLSubjectHierarchyNode.GetSubjectHierarchyNode(kit.scene)
        item = hierarchy.GetItemByUID(constants.GetDICOMUIDName(), person)
        if not item:
            item = hierarchy.CreateSubjectItem(hierarchy.GetSceneItemID(), person)
            hierarchy.SetItemUID(item, constants.GetDICOMUIDName(), person)
        study = hierarchy.CreateStudyItem(item, f"study {day}")
        hierarchy.SetItemAttribute(study, constants.GetDICOMStudyDateAttributeName(), day)
        volume = add_patient(number, name)
        hierarchy.SetItemParent(hierarchy.GetItemByDataNode(volume), study)
        return volume

    return run


@pytest.fixture
def three(import_study):
    """A patient's three studies, loaded out of order: prior, middle, latest."""
    latest = import_study("Miller", "20240301", "C", 2)
    prior = import_study("Miller", "20230301", "A", 0)
    middle = import_study("Miller", "20230901", "B", 1)
    return prior, middle, latest


@pytest.fixture
def panel(kit, module, three):
    return kit.open(module)


@pytest.fixture
def reader(kit, panel):
    """A person at the open panel, whose scans are not prepared."""
    return Reader(kit, panel)


@pytest.fixture
def prepared(reader):
    """A person at the open panel, whose scans are prepared, and who has marked two lesions in the prior."""
    reader.prepare()
    for name in ("carina", "heart_apex"):
        reader.mark(name)
    return reader
