"""The panels (.ui files) fit Slicer's widgets and the modules' parameter nodes."""

from __future__ import annotations

from pathlib import Path

import pytest
from static_checks import Extension, Source
from static_checks.parameters import Parameter, parameters_of
from static_checks.ui_files import panel_problems, parameters_for

NODE = '''\
@parameterNodeWrapper
class SampleParameterNode:
    """Text."""

    volume: vtkMRMLScalarVolumeNode
    either: Union[vtkMRMLScalarVolumeNode, slicer.vtkMRMLLabelMapVolumeNode]
    many: list[vtkMRMLScalarVolumeNode]
    on: bool = True
    recall: Annotated[float, WithinRange(0.5, 1.0), Decimals(2)] = 0.99
    steps: Annotated[int, validators.Minimum(1), Maximum(9)] = 3
    free: float = 1.0
    name: str = ""
    kind: Annotated[str, Choice(["a", "b"])] = "a"
    device: Device = Device.AUTO
    folder: Optional[pathlib.Path]


class Other:
    hidden: int
'''
PARAMETERS = parameters_of(Source("Sample.py", NODE))
PANEL = """\
<ui version="4.0">
 <class>Sample</class>
 <widget class="qMRMLWidget" name="Sample">
  <layout class="QVBoxLayout" name="layout">
   <item><widget class="KIND" name="one">PROPERTIES</widget></item>
   <item><widget class="QLabel" name="label"><property name="text"><string>Text</string></property></widget></item>
  </layout>
 </widget>
 <connections>
  <connection>
   <sender>Sample</sender>
   <signal>mrmlSceneChanged(vtkMRMLScene*)</signal>
   <receiver>one</receiver>
   <slot>setMRMLScene(vtkMRMLScene*)</slot>
  </connection>
 </connections>
</ui>
"""
CHECKABLE = '<property name="checkable"><bool>true</bool></property>'


def _bound(key: str) -> str:
    return f'<property name="SlicerParameterName" stdset="0"><string>{key}</string></property>'


@pytest.fixture
def panel(tmp_path: Path):
    """Writes a panel with one widget of a class, bound to a parameter, and returns its problems."""

    def problems(kind: str = "qMRMLNodeComboBox", properties: str = "", text: str = PANEL) -> list[str]:
        path = tmp_path / "Sample.ui"
        path.write_text(text.replace("KIND", kind).replace("PROPERTIES", properties))
        return panel_problems(path, PARAMETERS)

    return problems


def test_fields_are_read_with_their_bounds() -> None:
    assert PARAMETERS["recall"] == Parameter("float", frozenset({"WithinRange", "Decimals"}))
    assert PARAMETERS["steps"].is_bounded
    assert not PARAMETERS["free"].is_bounded
    assert PARAMETERS["either"].is_node
    assert not PARAMETERS["many"].is_node
    assert PARAMETERS["folder"].type == "pathlib.Path"
    assert "hidden" not in PARAMETERS


@pytest.mark.parametrize(
    ("kind", "properties"),
    [
        ("qMRMLNodeComboBox", _bound("volume")),
        ("qMRMLNodeComboBox", _bound("either")),
        ("qMRMLCheckableNodeComboBox", ""),
        ("QCheckBox", _bound("on")),
        ("QPushButton", _bound("on") + CHECKABLE),
        ("ctkSliderWidget", _bound("recall")),
        ("QSlider", _bound("steps")),
        ("QDoubleSpinBox", _bound("free")),
        ("QLineEdit", _bound("name")),
        ("QComboBox", _bound("kind")),
        ("QComboBox", _bound("device")),
        ("ctkDirectoryButton", _bound("folder")),
    ],
)
def test_good_panels_pass(panel, kind: str, properties: str) -> None:
    assert panel(kind, properties) == []


@pytest.mark.parametrize(
    ("kind", "properties", "problem"),
    [
        ("QChekBox", "", "one is a QChekBox, which Slicer may not have"),
        ("qMRMLNodeComboBox", _bound("volumes"), "bound to volumes, which is no field of the parameter node"),
        ("qMRMLNodeComboBox", _bound("many"), "cannot be bound to many, a list[vtkMRMLScalarVolumeNode]"),
        ("qMRMLNodeComboBox", _bound("name"), "cannot be bound to name, a str"),
        ("qMRMLCheckableNodeComboBox", _bound("many"), "which no parameter can be bound to: connect it by hand"),
        ("QPlainTextEdit", _bound("name"), "which no parameter can be bound to: connect it by hand"),
        ("QRadioButton", _bound("on"), "which no parameter can be bound to: connect it by hand"),
        ("QSpinBox", _bound("free"), "cannot be bound to free, a float"),
        ("QCheckBox", _bound("name"), "cannot be bound to name, a str"),
        ("ctkSliderWidget", _bound("free"), "free is on a slider and needs WithinRange, or Minimum and Maximum"),
        ("QComboBox", _bound("name"), "name needs the annotation Choice([...])"),
        ("QPushButton", _bound("on"), "one is bound to on but is not checkable"),
    ],
)
def test_bad_widgets_fail(panel, kind: str, properties: str, problem: str) -> None:
    (found,) = panel(kind, properties)
    assert found.startswith("Sample.ui: ")
    assert problem in found


def test_widgets_without_the_scene_fail(panel) -> None:
    cut = PANEL[: PANEL.index(" <connections>")] + "</ui>"
    assert panel(text=cut) == ["Sample.ui: one does not get the scene: connect mrmlSceneChanged to setMRMLScene"]
    other = PANEL.replace("<slot>setMRMLScene(vtkMRMLScene*)</slot>", "<slot>setMRMLScene(vtkMRMLScene)</slot>")
    assert panel(text=other) == ["Sample.ui: one does not get the scene: connect mrmlSceneChanged to setMRMLScene"]
    (root,) = panel(text=PANEL.replace('"qMRMLWidget"', '"QWidget"'))
    assert "only a qMRMLWidget can hand on the scene" in root


def test_names_must_be_found_and_unique(panel) -> None:
    assert "Sample.ui: two widgets are called one" in panel(text=PANEL.replace('"label"', '"one"'))
    text = PANEL.replace("<receiver>one</receiver>", "<receiver>none</receiver>")
    assert "Sample.ui: a connection's receiver none does not exist" in panel(text=text)


def test_panels_of_the_library_are_bound_to_the_modules_that_use_them(tmp_path: Path) -> None:
    (tmp_path / "Sample.py").write_text("from AnatomicalEmbeddingLib.Part import Part\n" + NODE)
    (tmp_path / "Other.py").write_text("@parameterNodeWrapper\nclass OtherParameterNode:\n    other: int\n")
    (tmp_path / "AnatomicalEmbeddingLib").mkdir()
    (tmp_path / "AnatomicalEmbeddingLib/Part.py").write_text('import slicer\nPATH = "UI/Part.ui"\n')
    found = parameters_for(Extension(tmp_path), tmp_path / "Resources/UI/Part.ui")
    assert found == PARAMETERS


def test_every_panel_passes(extension: Extension) -> None:
    assert extension.panels
    problems = [p for panel in extension.panels for p in panel_problems(panel, parameters_for(extension, panel))]
    assert problems == []


def test_every_panel_is_loaded_by_someone(extension: Extension) -> None:
    texts = "".join(source.text for source in extension.sources)
    assert [panel.name for panel in extension.panels if f'{panel.name}"' not in texts] == []
