"""The double of parameterNodeWrapper stores like the original and refuses what the original refuses."""

import enum
import pathlib
from typing import Annotated, Optional

import numpy as np
import pytest


class Effort(enum.Enum):
    Quick = 1
    Thorough = 2


@pytest.fixture
def make(kit):
    """A function that wraps a new parameter node in a class with these annotations and defaults."""
    from slicer.parameterNodeWrapper import parameterNodeWrapper

    def build(defaults=None, node=None, **annotations):
        cls = type("Parameters", (), {"__annotations__": annotations, **(defaults or {})})
        node = node or kit.scene.AddNewNodeByClass("vtkMRMLScriptedModuleNode")
        return parameterNodeWrapper(cls)(node)

    return build


@pytest.fixture
def volumes(kit):
    import slicer

    return [slicer.util.addVolumeFromArray(np.zeros((3, 4, 5), np.int16), name=name) for name in "AB"]


def test_values_are_stored_under_the_keys_of_the_original(make, volumes):
    import slicer

    volume_type = slicer.vtkMRMLScalarVolumeNode
    pn = make(
        {"count": 3},
        count=int,
        score=float,
        name=str,
        jump=bool,
        effort=Effort,
        folder=pathlib.Path,
        scan=volume_type,
        scans=list[volume_type],
        labels=list[str],
        sizes=dict[str, int],
    )
    node = pn.parameterNode
    assert (pn.count, pn.score, pn.name, pn.jump, pn.effort, pn.scan) == (3, 0, "", False, Effort.Quick, None)
    pn.score, pn.effort, pn.jump, pn.folder = 0.25, Effort.Thorough, True, pathlib.Path("/data")
    pn.scan, pn.scans, pn.labels, pn.sizes = volumes[1], volumes, ["a", "b"], {"liver": 5}
    stored = {name: node.GetParameter(name) for name in node.GetParameterNames()}
    assert stored["count"] == "3"
    assert stored["score"] == "0.25"
    assert stored["effort"] == "Thorough"
    assert stored["jump"] == "True"
    assert stored["folder"] == "/data"
    assert (stored["labels.len"], stored["labels.1"]) == ("2", "b")
    assert (stored["sizes.len"], stored["sizes.0.0"], stored["sizes.0.1"]) == ("1", "liver", "5")
    assert (stored["scan"], node.GetNodeReferenceID("scan")) == ("", volumes[1].GetID())
    assert (stored["scans.len"], node.GetNodeReferenceID("scans.0")) == ("2", volumes[0].GetID())
    assert (pn.sizes["liver"], list(pn.scans), pn.scan) == (5, volumes, volumes[1])


def test_nodes_that_leave_the_scene_become_none_in_place(kit, make, volumes):
    import slicer

    volume_type = slicer.vtkMRMLScalarVolumeNode
    pn = make(scan=volume_type, scans=list[volume_type])
    pn.scan, pn.scans = volumes[0], volumes
    kit.scene.RemoveNode(volumes[0])
    assert pn.scan is None
    assert list(pn.scans) == [None, volumes[1]], "the original keeps the length of the list"


def test_lists_write_through(make):
    pn = make(labels=list[str])
    pn.labels.append("a")
    pn.labels.extend(["b", "c"])
    del pn.labels[0]
    assert pn.labels == ["b", "c"]
    assert pn.parameterNode.GetParameter("labels.len") == "2"
    assert not pn.parameterNode.HasParameter("labels.2")
    with pytest.raises(NotImplementedError):
        _ = pn.labels + ["d"]


@pytest.mark.parametrize(
    ("annotation", "value", "error"),
    [
        (float, "0.5", TypeError),
        (float, None, ValueError),
        (float, np.float32(0.5), TypeError),
        (int, 0.5, TypeError),
        (str, 5, TypeError),
        (bool, 1, TypeError),
        (Effort, "Quick", TypeError),
        (pathlib.Path, "/data", TypeError),
    ],
)
def test_values_of_other_types_are_refused(make, annotation, value, error):
    pn = make(value=annotation)
    with pytest.raises(error):
        pn.value = value


def test_nodes_of_other_types_are_refused(kit, make):
    import slicer

    pn = make(scan=slicer.vtkMRMLScalarVolumeNode)
    with pytest.raises(TypeError):
        pn.scan = kit.scene.AddNewNodeByClass("vtkMRMLTextNode")


def test_validators_hold(make):
    from slicer.parameterNodeWrapper import Choice, Default, Maximum, Minimum, WithinRange

    pn = make(
        {"score": 0.5, "count": 1, "mode": "a"},
        score=Annotated[float, WithinRange(0, 1)],
        count=Annotated[int, Minimum(1), Maximum(3)],
        mode=Annotated[str, Choice(["a", "b"])],
        size=Annotated[int, Default(7)],
    )
    assert pn.size == 7
    for name, value in (("score", 1.5), ("count", 0), ("count", 4), ("mode", "c")):
        with pytest.raises(ValueError, match="Value must be"):
            setattr(pn, name, value)
    assert (pn.score, pn.count, pn.mode) == (0.5, 1, "a")


def test_optional_and_union(make):
    pn = make(limit=Optional[int], either=int | str)  # noqa: UP045 - both spellings are tested
    assert pn.limit is None
    pn.limit, pn.either = 4, "x"
    assert (pn.limit, pn.either) == (4, "x")
    pn.limit, pn.either = None, 5
    assert (pn.limit, pn.either) == (None, 5)
    with pytest.raises(TypeError):
        pn.either = 0.5


def test_a_renamed_enumerator_of_an_old_scene_raises(kit, make):
    node = kit.scene.AddNewNodeByClass("vtkMRMLScriptedModuleNode")
    node.SetParameter("effort", "Fast")
    with pytest.raises(ValueError, match="Fast"):
        make(node=node, effort=Effort)


def test_types_that_cannot_be_stored_and_reserved_names_raise(make):
    with pytest.raises(TypeError, match="cannot hold"):
        make(array=np.ndarray)
    with pytest.raises(ValueError, match="reserved"):
        make({"Modified": 1}, Modified=int)


def test_observers_and_batches(kit, make):
    import slicer
    import vtk

    pn = make(a=int, b=int)
    seen = []
    mixin = slicer.util.VTKObservationMixin()
    mixin.addObserver(pn, vtk.vtkCommand.ModifiedEvent, lambda caller, event: seen.append((pn.a, pn.b)))
    pn.a = 1
    with slicer.util.NodeModify(pn):
        pn.a = 2
        pn.b = 2
    assert seen == [(1, 0), (2, 2)]
    mixin.removeObservers()
    pn.a = 3
    assert len(seen) == 2


@pytest.fixture
def panel(kit):
    """A function that makes a panel with one widget bound to the parameter `value`."""
    import qt

    made = []

    def build(widget):
        holder = qt.QWidget()
        made.append(holder)
        qt.QVBoxLayout(holder).addWidget(widget)
        widget.setProperty("SlicerParameterName", "value")
        return holder

    return build


def bound_widgets():
    """(annotation, class, value, signal-free way a user sets it)."""
    from slicer.parameterNodeWrapper import Choice, Minimum, WithinRange

    return [
        (bool, "QCheckBox", True, lambda w: w.click()),
        (Annotated[int, Minimum(0)], "QSpinBox", 4, lambda w: w.setValue(4)),
        (Annotated[int, WithinRange(0, 9)], "QSlider", 4, lambda w: w.setValue(4)),
        (float, "QDoubleSpinBox", 0.5, lambda w: w.setValue(0.5)),
        (Annotated[float, WithinRange(0, 1)], "ctkSliderWidget", 0.5, lambda w: w.setValue(0.5)),
        (Effort, "QComboBox", Effort.Thorough, lambda w: w.setCurrentIndex(1)),
        (Annotated[str, Choice(["a", "b"])], "QComboBox", "b", lambda w: w.setCurrentIndex(1)),
        (str, "QLineEdit", "x", lambda w: w.setText("x")),
        (pathlib.Path, "ctkPathLineEdit", pathlib.Path("/a"), lambda w: w.setCurrentPath("/a")),
        (pathlib.Path, "ctkDirectoryButton", pathlib.Path("/a"), lambda w: w.setDirectory("/a")),
    ]


@pytest.mark.parametrize("index", range(10))
def test_widget_and_parameter_follow_each_other(kit, make, panel, index):
    import ctk
    import qt

    annotation, class_name, value, by_user = bound_widgets()[index]
    widget = getattr(qt if class_name.startswith("Q") else ctk, class_name)()
    choice = annotation.__metadata__[0].choices[0] if class_name == "QComboBox" and annotation is not Effort else None
    pn = make({"value": choice} if choice else {}, value=annotation)
    tag = pn.connectParametersToGui({"value": widget})
    before = pn.value
    assert before != value
    by_user(widget)
    assert pn.value == value
    pn.value = before
    by_user(widget)
    assert pn.value == value, "the widget did not follow the parameter"
    pn.value = before
    pn.disconnectGui(tag)
    by_user(widget)
    assert pn.value == before


def test_node_selector_is_bound_and_takes_the_type_of_the_parameter(kit, make, panel, volumes):
    import slicer

    widget = slicer.qMRMLNodeComboBox()
    widget.nodeTypes = ["vtkMRMLTextNode"]
    widget.noneEnabled = True
    widget.setMRMLScene(kit.scene)
    pn = make(value=slicer.vtkMRMLScalarVolumeNode)
    pn.connectGui(panel(widget))
    assert widget.nodeTypes == ["vtkMRMLScalarVolumeNode"]
    widget.setCurrentNode(volumes[1])
    assert pn.value is volumes[1]
    pn.value = volumes[0]
    assert widget.currentNode() is volumes[0]
    kit.scene.RemoveNode(volumes[0])
    assert widget.currentNode() is pn.value


@pytest.mark.parametrize(
    ("class_name", "annotation"),
    [
        ("QListWidget", list[str]),
        ("QTableWidget", str),
        ("QPlainTextEdit", str),
        ("QRadioButton", bool),
        ("QGroupBox", bool),
        ("QToolButton", bool),
        ("QLineEdit", int),
        ("QComboBox", str),  # without a Choice
        ("QSlider", int),  # without bounds
        ("ctkSliderWidget", float),
        ("qMRMLCheckableNodeComboBox", "node"),
    ],
)
def test_widgets_without_connector_raise(kit, make, panel, class_name, annotation):
    import ctk
    import qt
    import slicer

    annotation = slicer.vtkMRMLScalarVolumeNode if annotation == "node" else annotation
    module = next(module for module in (qt, ctk, slicer) if hasattr(module, class_name))
    pn = make(value=annotation)
    with pytest.raises(RuntimeError):
        pn.connectGui(panel(getattr(module, class_name)()))


def test_subclasses_of_widgets_have_no_connector(kit, make, panel):
    import qt

    class MyCheckBox(qt.QCheckBox):
        pass

    pn = make(value=bool)
    with pytest.raises(RuntimeError):
        pn.connectGui(panel(MyCheckBox()))


def test_a_name_that_is_no_parameter_raises(kit, make, panel):
    import qt

    pn = make(other=bool)
    with pytest.raises(ValueError, match="value"):
        pn.connectGui(panel(qt.QCheckBox()))


def test_a_bound_selector_without_none_takes_the_neighbour_of_a_removed_node(kit, make, panel, volumes):
    import slicer

    widget = slicer.qMRMLNodeComboBox()
    widget.nodeTypes = ["vtkMRMLScalarVolumeNode"]
    widget.setMRMLScene(kit.scene)
    pn = make(value=slicer.vtkMRMLScalarVolumeNode)
    pn.value = volumes[0]
    pn.connectGui(panel(widget))
    kit.scene.RemoveNode(volumes[0])
    assert pn.value is volumes[1]
    assert widget.currentNode() is volumes[1]


def test_the_tag_of_a_gui_is_kept_back_as_in_slicer(kit, make, panel):
    import qt

    widget = qt.QSpinBox()
    pn = make(value=int)
    tag = pn.connectGui(panel(widget))
    assert tag is None
    pn.disconnectGui(tag)
    widget.value = 7
    assert pn.value == 7
