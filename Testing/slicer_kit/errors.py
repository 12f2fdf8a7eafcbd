"""Collect errors that Qt, VTK and the garbage collector hide, so that the test that caused them fails."""

import sys
import traceback
from contextlib import contextmanager
from functools import cache

import vtk


class SlotErrors(list):
    """Exceptions raised in slots and observers since the last `clear()`."""

    def start(self) -> None:
        """Catch from now on, in place of printing."""
        self._before = sys.excepthook, sys.unraisablehook
        sys.excepthook = lambda _kind, error, _trace: self.append(error)
        sys.unraisablehook = lambda unraisable: self.append(unraisable.exc_value)

    def stop(self) -> None:
        """Leave exceptions to Python again."""
        sys.excepthook, sys.unraisablehook = self._before

    def text(self) -> str:
        """All of them with their tracebacks."""
        return "\n".join("".join(traceback.format_exception(error)) for error in self)


@cache
def vtk_errors() -> list[str]:
    """The text of every VTK error since the last `clear()`, one list a process; C++ code reports errors so."""
    found: list[str] = []

    def on_error(_caller, _event, text: str = "") -> None:
        found.append(" ".join(text.split()))

    on_error.CallDataType = vtk.VTK_STRING
    vtk.vtkOutputWindow.GetInstance().AddObserver("ErrorEvent", on_error)
    return found


@contextmanager
def silent_vtk():
    """Context: VTK prints and reports nothing (for steps whose errors are known to be harmless)."""
    before = vtk.vtkObject.GetGlobalWarningDisplay()
    vtk.vtkObject.GlobalWarningDisplayOff()
    try:
        yield
    finally:
        vtk.vtkObject.SetGlobalWarningDisplay(before)
