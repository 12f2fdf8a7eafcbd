"""The double of the parameter node: what is stored under which key, and what is refused."""

from typing import Annotated

import numpy as np
import pytest
import slicer
import slicer.util


@pytest.fixture
def make(kit):
    """make(annotations, defaults): a wrapper over a new node."""
    from slicer.parameterNodeWrapper import parameterNodeWrapper

    def run(annotations, **defaults):
        cls = parameterNodeWrapper(type("Node", (), {"__annotations__": annotations, **defaults}))
        return cls(kit.scene.AddNewNodeByClass("vtkMRMLScriptedModuleNode"))

    return run


@pytest.fixture
def volumes(kit):
    return [slicer.util.addVolumeFromArray(np.zeros((3, 4, 5), np.int16), name=name) for name in "AB"]


def test_values_are_stored_under_the_keys_of_the_original(make, volumes):
    scan = slicer.vtkMRMLScalarVolumeNode
    wrapper = make({"flag": bool, "names": list[str], "scan": scan, "scans": list[scan]}, flag=True)
    node = wrapper.parameterNode
    assert (node.GetParameter("flag"), wrapper.names, wrapper.scan) == ("True", [], None)
    wrapper.flag, wrapper.names, wrapper.scan, wrapper.scans = False, ["a", "b"], volumes[0], volumes
    assert node.GetParameter("flag") == "False"
    assert [node.GetParameter(key) for key in ("names.len", "names.0", "names.1")] == ["2", "a", "b"]
    assert node.GetNodeReference("scan") is volumes[0]
    assert [node.GetNodeReference(f"scans.{n}") for n in range(2)] == volumes
    slicer.mrmlScene.RemoveNode(volumes[0])
    assert wrapper.scan is None
    assert wrapper.scans == [None, volumes[1]], "the list keeps its length"


def test_what_is_not_allowed_raises(make, volumes):
    from slicer.parameterNodeWrapper import WithinRange

    wrapper = make({"score": Annotated[float, WithinRange(0.0, 1.0)], "flag": bool, "scan": slicer.vtkMRMLTextNode})
    for name, value, error in (("score", 2.0, ValueError), ("flag", "yes", TypeError), ("scan", volumes[0], TypeError)):
        with pytest.raises(error):
            setattr(wrapper, name, value)
    with pytest.raises(TypeError, match="cannot hold"):
        make({"what": dict})
    with pytest.raises(ValueError, match="reserved"):
        make({"AddObserver": int})


def test_widget_and_parameter_follow_each_other_until_they_are_parted(make):
    import qt

    wrapper, box = make({"flag": bool}), qt.QCheckBox()
    tag = wrapper.connectParametersToGui({"flag": box})
    wrapper.flag = True
    assert box.checked
    box.checked = False
    assert wrapper.flag is False
    wrapper.disconnectGui(tag)
    box.checked = True
    assert wrapper.flag is False


def test_widgets_without_a_connector_raise(make):
    import ctk
    import qt

    wrapper = make({"flag": bool, "text": str, "score": float})
    for name, widget in (("flag", qt.QRadioButton()), ("text", qt.QPlainTextEdit()), ("score", ctk.ctkSliderWidget())):
        with pytest.raises(RuntimeError):
            wrapper.connectParametersToGui({name: widget})
    with pytest.raises(ValueError, match="Cannot find"):
        wrapper.connectParametersToGui({"flg": qt.QCheckBox()})
