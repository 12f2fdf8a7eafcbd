"""Exceptions that Qt, VTK or the garbage collector swallow, collected so that they fail the test that caused them."""

import sys
import traceback


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
