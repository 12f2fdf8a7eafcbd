"""The `qt` and `ctk` doubles keep PythonQt's conventions and are no more lenient than the originals."""

import pytest


@pytest.fixture
def qt(kit):
    import qt

    return qt


def test_properties_are_attributes_and_setters_stay(qt):
    button = qt.QPushButton("Match")
    assert (button.text, button.enabled, button.visible, button.checked) == ("Match", True, False, False)
    button.text = "Again"
    button.setEnabled(False)
    assert (button.text, button.enabled, button.isEnabled()) == ("Again", False, False)
    button.objectName = "matchButton"
    assert button.name == "matchButton"
    assert button.className() == "QPushButton"


def test_attributes_that_do_not_exist_cannot_be_set(qt):
    import ctk

    table = qt.QTableWidget()
    for widget in (qt.QPushButton(), ctk.ctkSliderWidget(), qt.QAction("x"), table.horizontalHeader()):
        with pytest.raises(AttributeError, match="enable"):
            widget.enable = False

    class Panel(qt.QWidget):
        """A Python subclass takes any attribute, as in PythonQt."""

    panel = Panel()
    panel.rows = [1]
    assert panel.rows == [1]


def test_read_only_properties_cannot_be_set(qt):
    with pytest.raises(AttributeError, match="read-only"):
        qt.QProgressBar().text = "x"


def test_slots_get_as_many_arguments_as_signature_and_slot_agree_on(qt):
    button = qt.QPushButton()
    button.checkable = True
    got = []
    button.connect("clicked(bool)", got.append)
    button.connect("clicked()", lambda: got.append("none"))
    button.connect("clicked(bool)", lambda: got.append("takes none"))
    button.connect("clicked(bool)", lambda flag="default": got.append(flag))  # PythonQt overwrites the default
    button.connect("clicked()", lambda flag="default": got.append(flag))
    button.click()
    assert got == [True, "none", "takes none", True, "default"]


def test_disconnect_takes_signature_and_slot(qt):
    box, got = qt.QSpinBox(), []
    box.connect("valueChanged(int)", got.append)
    box.value = 4
    assert box.disconnect("valueChanged(int)", got.append) is True
    assert box.disconnect("valueChanged(int)", got.append) is False
    box.value = 5
    assert got == [4]


def test_signals_that_do_not_exist_raise(qt):
    import ctk

    cases = [
        (qt.QPushButton(), "clickd()"),
        (qt.QComboBox(), "currentIndexChanged(QString)"),  # gone in Qt 6
        (ctk.ctkSliderWidget(), "valueChanged(int)"),
    ]
    for widget, signature in cases:
        with pytest.raises(ValueError, match="no signal"):
            widget.connect(signature, print)


def test_single_shot_is_a_static_function_and_a_property(kit, qt):
    got = []
    qt.QTimer.singleShot(0, lambda: got.append("static"))
    timer = qt.QTimer()
    timer.singleShot = True
    timer.connect("timeout()", lambda: got.append("timer"))
    timer.start(1)
    kit.spin(lambda: len(got) == 2)
    assert not timer.active
    assert timer.singleShot


def test_void_functions_can_be_called_without_end(qt):
    label = qt.QLabel()
    for _ in range(20000):
        label.setText("x")
    assert label.text == "x"


def test_menus_do_not_wait_and_do_what_is_chosen(kit, qt):
    menu, got = qt.QMenu("Actions"), []
    menu.addAction("&Delete").connect("triggered()", lambda: got.append("deleted"))
    assert menu.exec(qt.QPoint(0, 0)) is None
    kit.dialogs.answer("menu", "Delete")
    menu.exec(qt.QPoint(0, 0))
    assert got == ["deleted"]


@pytest.fixture
def section(kit, qt):
    """An open window with a collapsible section and two labels in it, the second one hidden."""
    import ctk

    window = qt.QWidget()
    outer = qt.QVBoxLayout(window)
    button = ctk.ctkCollapsibleButton()
    button.text = "Advanced"
    outer.addWidget(button)
    form = qt.QFormLayout(button)
    labels = [qt.QLabel("one"), qt.QLabel("two")]
    for label in labels:
        form.addRow(label)
    labels[1].setVisible(False)
    window.show()
    kit.process_events()
    yield button, labels
    window.close()


def test_collapsing_hides_contents_and_remembers_hidden_ones(kit, section):
    button, (shown, hidden) = section
    got = []
    button.connect("contentsCollapsed(bool)", got.append)
    assert (shown.visible, hidden.visible) == (True, False)
    button.collapsed = True
    assert (shown.visible, hidden.visible) == (False, False)
    assert not button.checked
    button.collapsed = False
    assert (shown.visible, hidden.visible) == (True, False)
    assert got == [True, False]


def test_what_is_shown_in_a_collapsed_section_appears_when_it_opens(kit, section):
    button, (_shown, hidden) = section
    button.collapsed = True
    hidden.setVisible(True)
    assert not hidden.visible
    button.collapsed = False
    assert hidden.visible


def test_slider_keeps_its_value_within_the_range(kit):
    import ctk

    slider, got = ctk.ctkSliderWidget(), []
    slider.connect("valueChanged(double)", got.append)
    slider.decimals, slider.minimum, slider.maximum = 3, 0.5, 2
    assert slider.value == 0.5
    slider.value = 1.25
    slider.setValue(7)
    slider.value = 2
    assert got == [0.5, 1.25, 2]


def test_a_path_is_told_only_where_the_whole_text_is_acceptable(kit):
    import ctk

    line, paths, valid = ctk.ctkPathLineEdit(), [], []
    line.connect("currentPathChanged(QString)", paths.append)
    line.connect("validInputChanged(bool)", valid.append)
    line.currentPath = "/a/b.txt"
    line.currentPath = ""
    assert (paths, valid) == (["/a/b.txt"], [True, False])
    line.nameFilters = ["Images (*.nii.gz *.nrrd)"]
    for text in ("/a/b.txt", "/a/b.nii.gz", "/a/b.nii", "/a/b.nrrd"):
        line.setCurrentPath(text)
    assert paths == ["/a/b.txt", "/a/b.nii", "/a/b.nrrd"]  # CTK looks at the first word after "*." alone
