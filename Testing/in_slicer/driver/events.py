"""Mouse and key events, sent through Qt to real widgets. The code works with PythonQt on Qt 5 and on Qt 6."""

from collections.abc import Iterable

import qt
import slicer

from .waiting import pause

_KEYS = {
    "Return": "\r",
    "Delete": "",
    "Escape": "",
    "Tab": "\t",
    "Backspace": "",
    "Up": "",
    "Down": "",
    "Space": " ",
}
_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_WHEEL_STEP = 120  # eighths of a degree: one notch of a wheel


def move(widget, x: float, y: float, pressed: bool = False) -> None:
    """The mouse over a widget's pixel, its left button held or not."""
    _mouse(
        widget,
        qt.QEvent.MouseMove,
        x,
        y,
        qt.Qt.NoButton,
        qt.Qt.LeftButton if pressed else qt.Qt.NoButton,
    )


def enter(widget, x: float, y: float) -> None:
    """The mouse comes into a widget. VTK reads the place of this event, which only a QEnterEvent has."""
    if hasattr(qt, "QEnterEvent"):
        qt.QCoreApplication.sendEvent(widget, qt.QEnterEvent(*_places(widget, x, y)))
    move(widget, x, y)


def leave(widget) -> None:
    """The mouse leaves a widget."""
    qt.QCoreApplication.sendEvent(widget, qt.QEvent(qt.QEvent.Leave))
    pause(0.05)


def press(widget, x: float, y: float) -> None:
    _mouse(widget, qt.QEvent.MouseButtonPress, x, y, qt.Qt.LeftButton, qt.Qt.LeftButton)


def release(widget, x: float, y: float) -> None:
    _mouse(widget, qt.QEvent.MouseButtonRelease, x, y, qt.Qt.LeftButton, qt.Qt.NoButton)


def click(widget, x: float, y: float) -> None:
    """Press and release the left button."""
    move(widget, x, y)
    press(widget, x, y)
    release(widget, x, y)
    pause(0.05)


def double_click(widget, x: float, y: float) -> None:
    click(widget, x, y)
    _mouse(widget, qt.QEvent.MouseButtonDblClick, x, y, qt.Qt.LeftButton, qt.Qt.LeftButton)
    release(widget, x, y)
    pause(0.05)


def ask_for_menu(widget, x: float, y: float) -> None:
    """Press the right button, which asks for a context menu."""
    move(widget, x, y)
    point = qt.QPoint(round(x), round(y))
    event = qt.QContextMenuEvent(qt.QContextMenuEvent.Mouse, point, widget.mapToGlobal(point))
    qt.QCoreApplication.sendEvent(widget, event)
    pause(0.1)


def drag(widget, places: Iterable[tuple[float, float]]) -> None:
    """Press at the first place, move through all, release at the last."""
    first, *others = places
    move(widget, *first)
    pause(0.1)
    press(widget, *first)
    for place in others:
        move(widget, *place, pressed=True)
        pause(0.02)
    release(widget, *others[-1])
    pause(0.1)


def turn_wheel(widget, x: float, y: float, steps: int) -> None:
    """Turn the wheel over a pixel; steps: away from the user where positive."""
    local, _window, on_screen = _places(widget, x, y)
    for _ in range(abs(steps)):
        turned = qt.QPoint(0, _WHEEL_STEP if steps > 0 else -_WHEEL_STEP)
        event = qt.QWheelEvent(
            local,
            on_screen,
            qt.QPoint(0, 0),
            turned,
            qt.Qt.NoButton,
            qt.Qt.NoModifier,
            qt.Qt.NoScrollPhase,
            False,
        )
        qt.QCoreApplication.sendEvent(widget, event)
        pause(0.02)


def type_text(widget, text: str) -> None:
    """Type into a widget, letter by letter."""
    for letter in text:
        press_key(widget, letter)


def press_key(widget, keys: str) -> None:
    """A key such as "J", "Delete" or "Ctrl+Shift+X", typed while a widget has the focus.

    As Qt does it: the widget is asked whether it wants the key for itself (a text field does), then comes the shortcut
    of its window, else the widget gets the key.
    """
    *held, name = keys.split("+")
    modifiers = qt.Qt.NoModifier
    for each in held:
        modifiers = modifiers | {"Ctrl": qt.Qt.ControlModifier, "Shift": qt.Qt.ShiftModifier}[each]
    key, text = _key_of(name)
    asked = qt.QKeyEvent(qt.QEvent.ShortcutOverride, key, modifiers, text)
    asked.ignore()
    qt.QCoreApplication.sendEvent(widget, asked)
    shortcut = None if asked.isAccepted() else _shortcut(widget, keys)
    if shortcut is not None:
        qt.QCoreApplication.sendEvent(
            shortcut, qt.QShortcutEvent(qt.QKeySequence(keys), shortcut.id())
        )
    else:
        for kind in (qt.QEvent.KeyPress, qt.QEvent.KeyRelease):
            qt.QCoreApplication.sendEvent(widget, qt.QKeyEvent(kind, key, modifiers, text))
    pause(0.05)


def _key_of(name: str) -> tuple[int, str]:
    if name in _KEYS:
        return getattr(qt.Qt, f"Key_{name}"), _KEYS[name]
    if len(name) == 1 and name.upper() in _LETTERS + "0123456789":
        return getattr(qt.Qt, f"Key_{name.upper()}"), name
    return {
        " ": qt.Qt.Key_Space,
        "-": qt.Qt.Key_Minus,
        ".": qt.Qt.Key_Period,
        "'": qt.Qt.Key_Apostrophe,
    }[name], name


def _shortcut(widget, keys: str):
    """The enabled shortcut of the widget's window for a key sequence, or None; that of a hidden toolbar is none."""
    wanted = qt.QKeySequence(keys).toString()
    for each in slicer.util.findChildren(widget.window(), className="QShortcut"):
        if each.enabled and each.key.toString() == wanted and each.parent().isVisible():
            return each
    return None


def _mouse(widget, kind, x: float, y: float, button, held) -> None:
    local, window, on_screen = _places(widget, x, y)
    event = qt.QMouseEvent(kind, local, window, on_screen, button, held, qt.Qt.NoModifier)
    qt.QCoreApplication.sendEvent(widget, event)
    slicer.app.processEvents()


def _places(widget, x: float, y: float) -> tuple:
    """A pixel of a widget in the widget, in its window and on the screen."""
    point = qt.QPoint(round(x), round(y))
    window = widget.mapTo(widget.window(), point)
    on_screen = widget.mapToGlobal(point)
    return tuple(qt.QPointF(each.x(), each.y()) for each in (point, window, on_screen))
